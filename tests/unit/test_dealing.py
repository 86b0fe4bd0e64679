"""Tests are dealt by what they took: the longest first, what computes beside what waits."""

import json
from pathlib import Path

import pytest

from tests.dealing import CLUSTER, Recorder, next_unit, read_seconds, unit_of

TRAINING, LONG_TRAINING = "tests/trainers/test_a.py", "tests/trainers/test_b.py"
WAITS, WAITS_LONG = "tests/process/test_c.py::test_d", "tests/process/test_c.py::test_e"
UNITS = (TRAINING, LONG_TRAINING, WAITS, WAITS_LONG)
SECONDS = {TRAINING: 5.0, LONG_TRAINING: 60.0, WAITS_LONG: 20.0}


@pytest.mark.parametrize(
    ("computes", "order"),
    [
        (True, [LONG_TRAINING, TRAINING, WAITS_LONG, WAITS]),
        (False, [WAITS_LONG, WAITS, LONG_TRAINING, TRAINING]),
    ],
)
def test_a_worker_gets_the_longest_of_its_kind_and_then_of_the_others(
    computes: bool, order: list[str]
) -> None:
    waiting = list(UNITS)
    dealt = []
    while waiting:
        dealt.append(next_unit(waiting, computes, SECONDS))
        waiting.remove(dealt[-1])
    assert dealt == order


def test_what_a_run_took_is_written_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (TRAINING, LONG_TRAINING, WAITS):
        file = Path(name.partition("::")[0])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    Path(CLUSTER).mkdir()
    known = {**SECONDS, CLUSTER: 30.0}
    Path("seconds.json").write_text(json.dumps({**known, "tests/ui/test_gone.py": 9.0}))
    recorder = Recorder(Path("seconds.json"))
    for test, phase, duration in (("one", "setup", 3.0), ("two", "call", 4.25), ("two", "call", 0)):
        recorder.pytest_runtest_logreport(
            pytest.TestReport(
                f"{TRAINING}::{test}", ("", 0, ""), {}, "passed", None, phase, duration=duration
            )
        )
    recorder.pytest_sessionfinish()
    assert read_seconds(Path("seconds.json")) == {**known, TRAINING: 7.2}


def test_every_recorded_unit_is_one_that_is_dealt() -> None:
    recorded = read_seconds()
    assert recorded
    assert all(unit_of(unit) == unit for unit in recorded)
