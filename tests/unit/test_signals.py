"""A signal reaches what belongs to the run at that moment, and nothing else."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from runners.host.procfs import MARK, descendants, mark_of, marked_processes
from runners.lifecycle.supervisor.program import run_processes, send_signal
from tests.support import eventually

RUN, OTHER = "20261120-101500-demo-7f3a", "20261120-101500-demo-ffff"


@pytest.fixture
def waiter() -> Iterator["subprocess.Popen[bytes]"]:
    """A shell with a child below it that lost its mark, as `env -i` makes one."""
    environment = os.environ | {MARK: RUN}
    with subprocess.Popen(
        ["sh", "-c", "env -i sleep 60; true"], env=environment, start_new_session=True
    ) as shell:
        eventually(lambda: any(mark_of(pid) is None for pid in descendants(shell.pid)))
        yield shell
        os.killpg(shell.pid, signal.SIGKILL)


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of another run."""
    with subprocess.Popen(["sleep", "60"], env=os.environ | {MARK: OTHER}) as process:
        eventually(lambda: mark_of(process.pid) == OTHER)
        yield process
        process.kill()


def test_a_process_with_the_mark_is_reached(stranger: "subprocess.Popen[bytes]") -> None:
    assert marked_processes(OTHER) == [stranger.pid]
    assert send_signal(stranger.pid, signal.SIGTERM, OTHER) is True
    assert stranger.wait() == -signal.SIGTERM


def test_a_process_of_another_run_is_not(
    stranger: "subprocess.Popen[bytes]", waiter: "subprocess.Popen[bytes]"
) -> None:
    assert send_signal(stranger.pid, signal.SIGKILL, RUN) is False
    assert send_signal(stranger.pid, signal.SIGKILL, RUN, waiter.pid) is False
    assert send_signal(stranger.pid, signal.SIGKILL, RUN, os.getpid()) is False, (
        "even below the waiter"
    )
    assert stranger.poll() is None


def test_a_process_without_a_mark_is_reached_below_the_waiter_alone(
    waiter: "subprocess.Popen[bytes]",
) -> None:
    (lost,) = descendants(waiter.pid)
    assert mark_of(lost) is None and lost not in marked_processes(RUN)
    assert run_processes(RUN, waiter.pid) == [lost]
    assert send_signal(lost, signal.SIGTERM, RUN) is False
    assert send_signal(lost, signal.SIGTERM, RUN, 1 << 22) is False
    assert send_signal(lost, signal.SIGTERM, RUN, waiter.pid) is True
    eventually(lambda: not descendants(waiter.pid))


def test_what_has_ended_is_not_reached() -> None:
    with subprocess.Popen(["true"], env=os.environ | {MARK: RUN}) as gone:
        gone.wait()
    assert send_signal(gone.pid, signal.SIGTERM, RUN) is False
