"""What follows an attempt that failed, and until when it is waited for."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from runners.host.identity import boot_id
from runners.lifecycle.supervisor import restarts
from runners.lifecycle.supervisor.restarts import (
    Restart,
    await_machine,
    coming_restart,
    is_announced,
    is_put_off,
    next_restart,
)
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory

RULE: Any = {"times": 3, "backoff_s": 10.0, "on": ["failure"], "boot": True}


class Clock:
    """A clock that only a sleep moves; what a supervisor sleeps on, too."""

    def __init__(self, now: float = 5000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    fake = SimpleNamespace(time=lambda: made.now, monotonic=lambda: made.now)
    monkeypatch.setattr(restarts, "time", fake)
    return made


@pytest.mark.parametrize(("number", "pause"), [(1, 10.0), (2, 20.0), (3, 40.0)])
def test_each_pause_is_twice_the_one_before(clock: Clock, number: int, pause: float) -> None:
    found = next_restart(number, RULE, {"cause": EndingCause.FAILED}, lambda: False)
    assert found == Restart(number + 1, 4, pause, clock.now + pause)
    assert found.text() == f"attempt {number + 1} of 4 in {pause:g} s"
    assert found.fields()["next_at"] == clock.now + pause
    # Who adopts the run meanwhile keeps the appointment.
    assert coming_restart(found.fields(), RULE) == found


@pytest.mark.parametrize(
    ("number", "changes", "lasting", "progressed", "follows"),
    [
        (3, {}, False, False, True),
        (4, {}, False, True, False),
        (1, {"on": ["preemption"]}, False, True, False),
        (1, {"times": 0}, False, True, False),
        (1, {}, True, False, False),
        (1, {}, True, True, True),
    ],
)
def test_what_fails_for_a_cause_that_stays_is_not_begun_again(
    number: int, changes: dict[str, Any], lasting: bool, progressed: bool, follows: bool
) -> None:
    ending = Ending(cause=EndingCause.FAILED)
    if lasting:
        ending["lasting"] = True
    found = next_restart(number, RULE | changes, ending, lambda: progressed)
    assert (found is not None) == follows
    assert ending.get("not_restarted", False) is (lasting and not progressed)


def test_a_record_without_a_coming_attempt_promises_none() -> None:
    assert coming_restart({}, RULE) is None
    assert coming_restart({"next_attempt": 0}, RULE) is None
    assert coming_restart({"next_attempt": 1}, RULE) == Restart(1, 4, 10.0, 0.0)


@pytest.mark.parametrize(
    ("due_in", "slept"),
    [(7.0, [7.0]), (0.0, []), (-100.0, []), (9000.0, [10.0])],  # the clock was set back: the pause
)
def test_a_restart_is_waited_for_until_it_is_due(
    clock: Clock, due_in: float, slept: list[float]
) -> None:
    restart = Restart(2, 4, 10.0, clock.now + due_in)
    restart.wait(clock, lambda: False)  # type: ignore[arg-type]
    assert clock.slept == slept
    restart.wait(clock, lambda: True)  # type: ignore[arg-type]
    assert clock.slept == slept, "somebody wants the run stopped"


@pytest.mark.parametrize(
    ("cause", "boot", "put_off"),
    [
        (EndingCause.PREEMPTED, True, True),
        (EndingCause.PREEMPTED, False, False),
        (EndingCause.STOPPED, True, False),
        (None, True, False),
    ],
)
def test_only_the_machine_s_end_puts_a_run_off(
    run: RunDirectory, cause: EndingCause | None, boot: bool, put_off: bool
) -> None:
    if cause is not None:
        run.stop.write_text(json.dumps({"time": 1.0, "by": "x", "ending": {"cause": cause}}))
    plan: Any = {"restart": RULE | {"boot": boot}}
    assert is_put_off(run, plan) is put_off


@pytest.mark.parametrize(
    ("found", "announced"),
    [
        (None, False),
        ({"seen": [1.0, "this boot", 1], "ends": [2.0, "this boot", 2]}, True),
        ({"seen": [1.0, "this boot", 1], "ends": None}, False),
        ({"seen": [1.0, "another boot", 1], "ends": [2.0, "another boot", 2]}, False),
        ({"seen": [1.0], "ends": [2.0]}, False),
        ({"seen": "damaged", "ends": [2.0]}, False),
    ],
)
def test_a_machine_is_awaited_while_its_end_is_announced_in_this_boot(
    run: RunDirectory, clock: Clock, found: object, announced: bool
) -> None:
    if found is not None:
        run.home.preemption.parent.mkdir(parents=True, exist_ok=True)
        run.home.preemption.write_text(json.dumps(found).replace("this boot", boot_id()))
    assert is_announced(run) is announced
    await_machine(run, clock, lambda: len(clock.slept) == 3)  # type: ignore[arg-type]
    assert len(clock.slept) == (3 if announced else 0)


def test_the_thousandth_restart_comes_too(clock: Clock) -> None:
    often: Any = {**RULE, "times": 5000, "backoff_s": 0.0}
    found = next_restart(1100, often, {"cause": EndingCause.FAILED}, lambda: False)
    assert found == Restart(1101, 5001, 0.0, clock.now)
