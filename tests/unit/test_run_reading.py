"""A run is read while its supervisor records the ending and goes."""

from pathlib import Path

import msgspec
import pytest

from runners.host.files import replace
from runners.model.states import State
from runners.state import leases, runs
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import read_run
from tests.support import make_plan

RUN = "20261120-231502-seen-7f3a"
LIVE = {"state": "running", "started": 1_000.0, "attempt": 1}
ENDED = {
    **LIVE,
    "state": "failed",
    "ended": 1_060.0,
    "exit_code": 6,
    "ending": {"cause": "failed"},
}


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    home = StateDirectory(tmp_path / "state")
    directory = home.run(RUN)
    directory.path.mkdir(parents=True)
    replace(directory.plan, msgspec.json.encode(make_plan(RUN)))
    replace(directory.state, msgspec.json.encode(LIVE))
    home.live_marker(RUN).parent.mkdir(parents=True, exist_ok=True)
    home.live_marker(RUN).touch()
    return directory


@pytest.mark.parametrize("waiter", ["wrote the code", "was killed"])
def test_an_ending_recorded_between_record_and_locks_is_the_one_that_is_read(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, waiter: str
) -> None:
    """Without it the run would be lost: its record says running, and nobody holds its locks."""
    plan = runs.read_plan(directory)
    assert plan is not None
    for module in (leases, runs):
        monkeypatch.setattr(module, "host_name", lambda: plan.origin.host)
    monkeypatch.setattr(runs, "is_past", lambda _: False)
    if waiter == "wrote the code":
        directory.exit.write_text("6\n")

    def supervisor_goes(_: Path) -> bool:
        replace(directory.state, msgspec.json.encode(ENDED))
        directory.home.live_marker(RUN).unlink(missing_ok=True)
        return False

    monkeypatch.setattr(runs, "is_held", supervisor_goes)
    run = read_run(directory.home, RUN)
    assert (run.state, run.record and run.record.exit_code) == (State.FAILED, 6)
    assert run.ending == {"cause": "failed"}
