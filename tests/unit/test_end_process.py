"""Processes of no run are ended only where they are this user's own, and the one that was meant."""

import os
import signal

import pytest

from runners.host.procfs import start_ticks
from runners.lifecycle.control import end_process as module
from runners.lifecycle.control.end_process import OwnProcess, end_process, own_process
from runners.model.errors import WrongInput
from runners.model.gpus import GpuProcess
from tests.support import CEILING_S, begun


@pytest.fixture
def sleeper():
    process = begun(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def test_ones_own_is_ended_by_a_signal_that_is_milder_first(sleeper) -> None:
    found = own_process(GpuProcess(sleeper.pid))
    assert found.command == "sleep 300"
    end_process(found)
    assert sleeper.wait(CEILING_S) == -signal.SIGTERM
    with pytest.raises(WrongInput):
        end_process(found)


def test_a_pid_that_is_another_process_by_now_is_left_alone(sleeper) -> None:
    ticks = start_ticks(sleeper.pid)
    assert ticks is not None
    with pytest.raises(WrongInput):
        end_process(OwnProcess(sleeper.pid, ticks - 1, "sleep 300"), force=True)
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    "seen", [{"run": "20261123-1-a"}, {"outside": True}, {"pid": 0}, {"pid": 2**22 + 1}]
)
def test_what_is_of_a_run_or_cannot_be_seen_is_refused(sleeper, seen) -> None:
    pid = seen.pop("pid", sleeper.pid) or os.getpid()  # 0: the panel itself
    with pytest.raises(WrongInput):
        own_process(GpuProcess(pid, **seen))


def test_another_users_is_refused_even_to_root(sleeper, monkeypatch) -> None:
    monkeypatch.setattr(module.os, "getuid", lambda: os.geteuid() + 4711)
    with pytest.raises(WrongInput):
        own_process(GpuProcess(sleeper.pid, user="eve"))
    with pytest.raises(WrongInput):
        end_process(OwnProcess(sleeper.pid, start_ticks(sleeper.pid) or 0, ""))
    assert sleeper.poll() is None
