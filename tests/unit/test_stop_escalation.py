"""A stop reaches what was not there to be seen when its last rung was taken."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from runners.host.procfs import start_ticks
from runners.lifecycle.supervisor.pollers import write_intent
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.stop_escalation import StopEscalation
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory, StateDirectory
from tests.support import CEILING_S


class Unseen(RunProcesses):
    """Sees one program of the run, and that only from the second look on: at the first it was
    being started.
    """

    def __init__(self, run: RunDirectory, pid: int) -> None:
        super().__init__(run)
        self.pid = pid
        self.looks = 0

    def find(self, thorough: bool = False) -> dict[int, int]:
        self.looks += 1
        ticks = start_ticks(self.pid)
        return {self.pid: ticks} if self.looks > 1 and ticks is not None else {}


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child
        child.kill()


@pytest.mark.parametrize(
    ("ladder", "force", "by"),
    [
        ([("SIGINT", 30.0), ("SIGKILL", 5.0)], True, signal.SIGKILL),
        ([("SIGTERM", 30.0)], False, signal.SIGTERM),
    ],
)
def test_a_program_that_was_being_started_is_reached_by_the_last_rung(
    program: subprocess.Popen[bytes], ladder: list[tuple[str, float]], force: bool, by: int
) -> None:
    state = StateDirectory().create()
    run = state.run("20261121-101500-demo-7f3a")
    run.path.mkdir(parents=True)
    rungs = [{"how": how, "wait_s": wait} for how, wait in ladder]
    plan = {"stop": {"ladder": rungs, "target": "group"}}
    ending = Ending(cause=EndingCause.STOPPED)
    write_intent(
        run, {"time": time.time(), "by": "me", "requests": 1, "force": force, "ending": ending}
    )
    escalation = StopEscalation(run, plan, Unseen(run, program.pid), lambda _: True)  # type: ignore[arg-type]
    pause = escalation.poll(time.monotonic())
    if program.poll() is None:
        assert pause <= 1.0, "it looks again soon"
        escalation.poll(time.monotonic() + pause)
    assert program.wait(CEILING_S) == -by
    assert str(program.pid) in run.supervisor_events.read_text()


def test_a_gentle_last_rung_is_not_sent_to_whom_it_was_not_meant_for(
    program: subprocess.Popen[bytes],
) -> None:
    state = StateDirectory().create()
    run = state.run("20261121-101500-demo-7f3a")
    run.path.mkdir(parents=True)
    plan = {"stop": {"ladder": [{"how": "SIGTERM", "wait_s": 30.0}], "target": "leader"}}
    ending = Ending(cause=EndingCause.STOPPED)
    write_intent(
        run, {"time": time.time(), "by": "me", "requests": 1, "force": False, "ending": ending}
    )
    with subprocess.Popen(["sleep", "600"]) as leader:
        run.leader.write_text(str(leader.pid))

        class Both(RunProcesses):
            def find(self, thorough: bool = False) -> dict[int, int]:
                pids = (leader.pid, program.pid)
                return {pid: t for pid in pids if (t := start_ticks(pid)) is not None}

        escalation = StopEscalation(run, plan, Both(run), lambda _: True)  # type: ignore[arg-type]
        for turn in range(3):
            escalation.poll(time.monotonic() + turn)
        assert leader.wait(CEILING_S) == -signal.SIGTERM
    escalation.poll(time.monotonic() + 5)
    assert program.poll() is None
