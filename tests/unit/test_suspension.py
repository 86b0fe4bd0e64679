"""Time in suspend: what of it counts, and that it is noticed once, by whoever looks."""

import json
import time
from pathlib import Path

import msgspec
import pytest

from runners.guard.next_step import Action, Observation, next_step
from runners.guard.observe import GuardObserver
from runners.guard.rule import GuardState, Stage, new_rule
from runners.health.observer import RunObserver
from runners.host import suspension
from runners.host.clock import Moment, moment_now
from runners.host.suspension import (
    Suspension,
    SuspensionWatch,
    awake_between,
    note_suspension,
    read_suspensions,
    suspended_between,
)
from runners.lifecycle.supervisor.pollers import SuspensionAlert
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.process.test_one_cost import ago, write_run

HOUR_NS = 3600 * 10**9
RUN = "20261120-101500-a-0001"


class Clocks:
    """A machine that was suspended for as long as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept = 0
        monkeypatch.setattr(suspension, "suspended_ns", lambda: self.slept)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def at(seconds: float, boot: str = "boot") -> Moment:
    return Moment(1e9 + seconds, boot, round(seconds * 1e9))


def test_what_lies_in_suspend_is_left_out_of_a_length_of_time() -> None:
    found = [Suspension(0, 5_000 * 10**9, 1_000 * 10**9)]
    assert suspended_between(at(0), at(9_000), found) == 1_000
    assert awake_between(at(0), at(9_000), found) == 8_000
    assert suspended_between(at(5_001), at(9_000), found) == 0
    assert suspended_between(at(0), at(3_000), found) <= 1_000
    # Noticed five seconds after it was over: what began in them was awake.
    assert awake_between(at(4_995), at(5_005), found) == 5
    # Of another boot nothing is known.
    assert awake_between(at(0, "before"), at(9_000), found) == 9_000


def test_it_is_written_down_once_by_whoever_notices(tmp_path: Path, clocks: Clocks) -> None:
    path = tmp_path / "suspended.json"
    first, second = SuspensionWatch(path), SuspensionWatch(path)
    assert first.poll() == 0 and not path.exists(), "never suspended: nothing is written"
    clocks.slept += 9 * HOUR_NS
    assert (first.poll(), second.poll()) == (9 * 3600, 9 * 3600), "each process is told"
    assert (first.poll(), second.poll()) == (0, 0)
    note_suspension(path)
    (one,) = read_suspensions(path)
    assert one.lasted == 9 * HOUR_NS
    clocks.slept += HOUR_NS
    note_suspension(path)
    assert [one.lasted for one in read_suspensions(path)] == [9 * HOUR_NS, HOUR_NS]
    path.write_text('{"boot": "another", "total_ns": 5, "found": [[1, 2, 3]]}')
    assert read_suspensions(path) == []
    path.write_text('{"boot": 5}')
    assert read_suspensions(path) == []


def test_hours_in_suspend_are_not_idle_hours(tmp_path: Path, clocks: Clocks) -> None:
    state = StateDirectory(tmp_path / "state").create()
    now = moment_now()
    # As if this boot were ten hours older than it is.
    later = Moment(now.wall, now.boot, (now.boot_ns or 0) + 10 * HOUR_NS)
    rule = msgspec.structs.replace(new_rule(no_run_s=5 * 3600.0, countdown_s=60.0), set_at=now)
    observer = GuardObserver(state)
    assert observer.observe(rule, None, later, ()).reasons, "ten hours without a run"
    lasted = 9 * HOUR_NS
    note = {"boot": now.boot, "total_ns": lasted, "found": [[0, later.boot_ns, lasted]]}
    state.suspensions.write_text(json.dumps(note))
    assert not observer.observe(rule, None, later, ()).reasons, "one of them awake"


def test_a_countdown_in_suspend_begins_again_with_a_warning() -> None:
    rule = new_rule(max_age_s=3600.0, countdown_s=600.0)
    warned = GuardState(rule.id, Stage.WARNED, at(0), "age", 1)
    for suspended, stage, action, cycle in (
        (0.0, Stage.STOPPING, Action.STOP, 1),
        (2000.0, Stage.WARNED, Action.WARN, 2),
    ):
        sight = Observation(at(2100), ("age",), suspended_s=suspended)
        after, done = next_step(rule, warned, sight)
        assert (after.stage, done, after.cycle) == (stage, action, cycle)
    # What had been stopped is not begun again: its runs were asked to end.
    stopping = GuardState(rule.id, Stage.STOPPING, at(0), "age", 1)
    sight = Observation(at(2100), ("age",), live=("a",), suspended_s=2000.0)
    assert next_step(rule, stopping, sight)[0].stage is Stage.STOPPING


def test_a_run_s_events_say_it_and_it_is_no_silence_of_the_run(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDirectory(tmp_path / "state").create()
    write_run(state, RUN, ago(120), ago(60))
    directory = state.run(RUN)
    alert, observer = SuspensionAlert(directory), RunObserver(read_run(state, RUN), directory)
    alert.poll(0.0)
    before = observer.observe(read_run(state, RUN), time.time())
    clocks.slept += 30 * 10**9
    monkeypatch.setattr("runners.health.observer.suspended_ns", lambda: clocks.slept)
    alert.poll(20.0)
    alert.poll(40.0)
    assert directory.supervisor_events.read_text().count("30s") == 1
    after = observer.observe(read_run(state, RUN), time.time())
    assert after.started == pytest.approx(before.started + 30, abs=5), "its age without it"
