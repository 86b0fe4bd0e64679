"""A stop's decisions: what an adopter goes on with, requests by signal, deadlines, pauses, stacks."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runners.host import helpers
from runners.host.clock import moment_now
from runners.host.files import read_json
from runners.host.procfs import ignores, process_state, start_ticks
from runners.lifecycle.supervisor.pollers import write_intent
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.stop_escalation import StopEscalation
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory
from tests.support import CEILING_S, eventually

LADDER = (("SIGINT", 30.0), ("SIGTERM", 10.0), ("SIGKILL", 5.0))
Escalate = Callable[..., StopEscalation]


class One(RunProcesses):
    """Sees one program of the run, and one that only a thorough look finds."""

    def __init__(self, run: RunDirectory, pid: int) -> None:
        super().__init__(run)
        self.pid = pid
        self.unmarked_pid: int | None = None

    def find(self, thorough: bool = False) -> dict[int, int]:
        pids = (self.pid, self.unmarked_pid if thorough else None)
        return {pid: ticks for pid in pids if pid and (ticks := start_ticks(pid)) is not None}


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child
        child.kill()


@pytest.fixture
def written() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def escalate(
    run: RunDirectory, program: subprocess.Popen[bytes], written: list[dict[str, Any]]
) -> Escalate:
    """The stop of a run with one program; what it records is written down."""

    def make(ladder: tuple[tuple[str, float], ...] = LADDER) -> StopEscalation:
        rungs = [{"how": how, "wait_s": wait} for how, wait in ladder]
        plan: Any = {"stop": {"ladder": rungs, "target": "all"}}

        def write(fields: Any) -> bool:
            written.append(fields)
            return True

        return StopEscalation(run, plan, One(run, program.pid), write)

    return make


def ask(run: RunDirectory, **more: Any) -> None:
    """Write the intent of a stop."""
    ending = Ending(cause=EndingCause.STOPPED)
    asked: Any = {"time": time.time(), "by": "me", "requests": 1, "force": False, "ending": ending}
    write_intent(run, asked | more)


@pytest.mark.parametrize(
    ("step", "until_s", "rung", "left_s"),
    [
        (1, 20.0, "SIGINT", (18.0, 20.0)),
        (2, 4.0, "SIGTERM", (2.0, 4.0)),
        (2, 1000.0, "SIGTERM", (8.0, 10.0)),  # the clock was set back: no longer than the rung
        (2, -50.0, "SIGTERM", (-2.0, 0.0)),
        (9, 4.0, "SIGKILL", (2.0, 4.0)),  # a plan with fewer rungs than the record has
    ],
)
def test_an_adopter_goes_on_at_the_rung_that_was_reached(
    escalate: Escalate, step: int, until_s: float, rung: str, left_s: tuple[float, float]
) -> None:
    stop = escalate()
    stop.continue_from({"step": step, "until": time.time() + until_s})  # type: ignore[typeddict-item]
    assert stop.ladder.how == rung
    assert left_s[0] <= stop.ladder.until - time.monotonic() <= left_s[1]
    assert not stop.is_over
    assert stop.was_received_by({1}), "an earlier supervisor may have reached it"


def test_a_stop_is_over_when_the_last_rung_s_time_has_passed(escalate: Escalate) -> None:
    stop = escalate()
    stop.continue_from({"step": 3, "until": time.time() - 1})  # type: ignore[typeddict-item]
    assert stop.is_over
    stop.continue_from({"step": 2, "until": time.time() - 1})  # type: ignore[typeddict-item]
    assert not stop.is_over, "a rung is left"


def test_the_next_rung_is_not_taken_late(escalate: Escalate, run: RunDirectory) -> None:
    ask(run)
    stop, now = escalate(), time.monotonic()
    stop.poll(now)
    assert stop.poll(now + 29.75) == pytest.approx(0.25)


def test_requests_by_signal_are_counted_and_force_stays(
    escalate: Escalate, run: RunDirectory
) -> None:
    stop, seen = escalate(), []
    for force in (False, True, False):
        stop.request_again(force)
        intent: Any = read_json(run.stop)
        seen.append((intent["requests"], intent["force"]))
    assert seen == [(1, False), (2, True), (3, True)]


def test_a_request_by_signal_is_for_good_where_only_the_machine_s_end_was_the_reason(
    escalate: Escalate, run: RunDirectory
) -> None:
    ask(run, ending=Ending(cause=EndingCause.PREEMPTED))
    escalate().request_again(False)
    intent: Any = read_json(run.stop)
    assert (intent["requests"], intent["ending"]["cause"]) == (2, EndingCause.STOPPED)


def test_a_rung_is_recorded_with_its_place_and_its_end(
    escalate: Escalate, run: RunDirectory, program: subprocess.Popen[bytes], written: list[Any]
) -> None:
    assert escalate().poll(time.monotonic()) > 1e6, "nobody has asked"
    ask(run)
    stop, now = escalate(), time.monotonic()
    assert stop.poll(now) == pytest.approx(30.0)
    (record,) = written
    found = record["stop"]
    assert (found["rung"], found["step"], found["steps"], found["asked_by"]) == (
        "SIGINT",
        1,
        3,
        "me",
    )
    assert 28 < found["until"] - time.time() <= 30
    assert program.wait(CEILING_S) == -signal.SIGINT
    assert stop.poll(now + 30.5) == pytest.approx(10.0)
    assert [fields["stop"]["rung"] for fields in written] == ["SIGINT", "SIGTERM"]


def test_by_a_deadline_the_whole_ladder_is_walked(escalate: Escalate, run: RunDirectory) -> None:
    wall, boot, ns = moment_now()
    assert ns is not None
    ask(run, deadline=(wall + 4.5, boot, ns + 4_500_000_000))
    stop = escalate()
    assert 2.0 < stop.poll(time.monotonic()) <= 3.0
    assert sum(wait_s for _, wait_s in stop.ladder.rungs) <= 4.5


def test_a_paused_program_goes_on_to_heed_the_stop(
    escalate: Escalate, run: RunDirectory, program: subprocess.Popen[bytes]
) -> None:
    program.send_signal(signal.SIGSTOP)
    eventually(lambda: process_state(program.pid) == "T")
    run.pause.write_text("{}")
    ask(run)
    escalate().poll(time.monotonic())
    assert program.wait(CEILING_S) == -signal.SIGINT
    assert not run.pause.exists()


def test_workers_without_a_mark_go_on_too_and_so_does_the_waiter(
    escalate: Escalate, run: RunDirectory, program: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen(["sleep", "600"]) as worker, subprocess.Popen(["sleep", "600"]) as waiter:
        try:
            for child in (worker, waiter):
                child.send_signal(signal.SIGSTOP)
                eventually(lambda child=child: process_state(child.pid) == "T")  # type: ignore[misc]
            run.pause.write_text("{}")
            ask(run)
            stop = escalate()
            stop._processes.unmarked_pid = worker.pid  # type: ignore[attr-defined]
            stop._processes.waiter = waiter.pid
            stop.poll(time.monotonic())
            eventually(lambda: process_state(waiter.pid) != "T", what="the waiter going on")
            eventually(lambda: process_state(worker.pid) != "T", what="the worker going on")
        finally:
            worker.kill()
            waiter.kill()


def test_who_begins_after_a_kill_is_killed_too(
    escalate: Escalate, run: RunDirectory, program: subprocess.Popen[bytes]
) -> None:
    stop, now = escalate((("SIGKILL", 5.0),)), time.monotonic()
    ask(run)
    stop.poll(now)
    assert program.wait(CEILING_S) == -signal.SIGKILL
    with subprocess.Popen(["sleep", "600"]) as late:
        try:
            stop._processes.pid = late.pid  # type: ignore[attr-defined]
            stop.poll(now + 1)
            assert late.wait(CEILING_S) == -signal.SIGKILL
        finally:
            late.kill()


def test_who_ignores_a_signal_has_not_received_it(escalate: Escalate, run: RunDirectory) -> None:
    shell = ["sh", "-c", "trap '' INT; exec sleep 600"]
    with subprocess.Popen(shell) as deaf, subprocess.Popen(["sleep", "600"]) as hears:
        try:
            eventually(lambda: ignores(deaf.pid, signal.SIGINT))
            for child, received in ((deaf, False), (hears, True)):
                stop = escalate()
                stop._processes.pid = child.pid  # type: ignore[attr-defined]
                ask(run)
                stop.poll(time.monotonic())
                assert stop.was_received_by({child.pid}) == received
                assert not stop.was_received_by({1})
        finally:
            deaf.kill()
            hears.kill()


@pytest.mark.parametrize(
    ("how", "force"), [("SIGKILL", False), ("SIGKILL", True), ("SIGTERM", False)]
)
def test_stacks_are_kept_before_a_kill_that_nobody_hurries(
    escalate: Escalate,
    run: RunDirectory,
    program: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    force: bool,
) -> None:
    alive: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        helpers, "run", lambda name, *_, **__: alive.append((name, program.poll() is None))
    )
    ask(run, force=force)
    escalate(((how, 5.0),)).poll(time.monotonic())
    assert program.wait(CEILING_S) == -signal.Signals[how]
    assert alive == ([] if force or how != "SIGKILL" else [("stacks", True)])
