"""Silence is measured by the boot's clock: setting a clock makes no run silent or fresh."""

import os
import time
from pathlib import Path

import pytest

from runners.health.histories import LastChange
from runners.health.observer import RunObserver
from runners.host.clock import Moment, moment_now
from runners.model.run import Run, RunRecord
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import make_plan, make_run

DAY_S = 86_400.0
WALL, BOOT = 1_790_000_000.0, 5_000.0


def written(path: Path, at: float, text: str = "x") -> None:
    path.write_text(text)
    os.utime(path, (at, at))


def test_what_is_unchanged_grows_older_by_the_boot_alone(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    file = LastChange(path)
    assert file.seen_at(WALL, BOOT, 60.0) is None
    written(path, WALL + 8, "")
    assert file.seen_at(WALL, BOOT, 60.0) is None, "nothing is in it"
    written(path, WALL + 8)
    assert file.seen_at(WALL + 10, BOOT + 10, 60.0) == pytest.approx(BOOT + 8)
    for skew in (0.0, DAY_S, -DAY_S):
        assert file.seen_at(WALL + 20 + skew, BOOT + 20, 60.0) == pytest.approx(BOOT + 8)


@pytest.mark.parametrize(
    ("age", "most", "seen"),
    [(5.0, 60.0, 5.0), (DAY_S, 60.0, 60.0), (-DAY_S, 60.0, 0.0), (DAY_S, None, DAY_S)],
)
def test_at_the_first_look_it_is_no_older_than_its_run(
    tmp_path: Path, age: float, most: float | None, seen: float
) -> None:
    written(tmp_path / "a", WALL - age)
    assert LastChange(tmp_path / "a").seen_at(WALL, BOOT, most) == pytest.approx(BOOT - seen)


@pytest.mark.parametrize(("age", "seen"), [(2.0, 2.0), (DAY_S, 10.0), (-DAY_S, 0.0)])
def test_a_change_lies_between_two_looks(tmp_path: Path, age: float, seen: float) -> None:
    file = LastChange(tmp_path / "a")
    written(tmp_path / "a", WALL - 30)
    file.seen_at(WALL, BOOT, None)
    written(tmp_path / "a", WALL + 10 - age, "xy")
    assert file.seen_at(WALL + 10, BOOT + 10, None) == pytest.approx(BOOT + 10 - seen)


@pytest.fixture
def live(tmp_path: Path) -> tuple[Run, RunObserver]:
    directory = StateDirectory(tmp_path).run("20261120-101500-demo-7f3a")
    directory.path.mkdir(parents=True)
    directory.output.write_text("step 1 loss 0.5\n")
    record = RunRecord(State.RUNNING, started=time.time(), began=moment_now())
    run = make_run(State.RUNNING, directory=str(directory.path), record=record)
    return run, RunObserver(run, directory)


def test_a_program_that_only_writes_checkpoints_is_alive(tmp_path: Path) -> None:
    """It prints nothing: what it saves is its sign, each time anew."""
    directory = StateDirectory(tmp_path).run("20261120-101500-demo-7f3a")
    directory.path.mkdir(parents=True)
    begin = time.time() - 90  # a machine has hardly been up for less
    record = RunRecord(State.RUNNING, started=begin, began=Moment(begin))
    plan = make_plan(checkpoints=(str(directory.path / "*.pt"),))
    run = make_run(State.RUNNING, directory=str(directory.path), record=record, plan=plan)
    observer, now = RunObserver(run, directory), time.time()
    assert observer.observe(run, now, ()).quiet_s > 80
    for name in ("first.pt", "second.pt"):
        written(directory.path / name, now - 5)
        signs = observer.observe(run, now, ())
        assert signs.quiet_s < 60 and signs.saved_at is not None


@pytest.mark.parametrize("skew", [DAY_S, -DAY_S])
@pytest.mark.parametrize("looked_before", [True, False])
def test_a_clock_that_is_set_makes_no_run_silent(
    live: tuple[Run, RunObserver], skew: float, looked_before: bool
) -> None:
    run, observer = live
    if looked_before:
        observer.observe(run, time.time(), ())
    signs = observer.observe(run, time.time() + skew, ())
    assert signs.quiet_s < 60 and signs.now - signs.started < 60
    assert signs.output_at is not None and abs(signs.now - signs.output_at) < 60
