"""A signal reaches what belongs to the run at that moment, and nothing else."""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping

import psutil
import pytest

from runners.host import procfs
from runners.host.procfs import HELPER_MARK, MARK, catches, mark_of, start_ticks
from runners.host.signals import signal_process
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.state.layout import RunDirectory, StateDirectory
from tests.support import begun, eventually

RUN, OTHER = "20261120-101500-demo-7f3a", "20261120-101500-demo-ffff"


@pytest.fixture
def run() -> RunDirectory:
    directory = StateDirectory().create().run(RUN)
    directory.path.mkdir()
    directory.output.touch()
    return directory


@pytest.fixture
def waiter() -> Iterator["subprocess.Popen[bytes]"]:
    """A shell with a child below it that lost its mark, as `env -i` makes one."""
    environment = os.environ | {MARK: RUN}
    with subprocess.Popen(
        ["sh", "-c", "env -i sleep 60; true"], env=environment, start_new_session=True
    ) as shell:
        yield shell
        os.killpg(shell.pid, signal.SIGKILL)


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of another run."""
    with begun(["sleep", "60"], env=os.environ | {MARK: OTHER}) as process:
        yield process
        process.kill()


def test_a_process_without_a_mark_is_found_below_the_waiter(
    run: RunDirectory, waiter: "subprocess.Popen[bytes]"
) -> None:
    processes = RunProcesses(run)
    processes.waiter = waiter.pid

    def without_mark() -> set[int]:
        below = {child.pid for child in psutil.Process(waiter.pid).children(recursive=True)}
        # It has its mark until it becomes `env`, perhaps between this look and another.
        return {p for p in processes.find() if p in below and p in processes.unmarked}

    (lost,) = eventually(without_mark)
    assert mark_of(lost) is None and processes.unmarked[lost] == start_ticks(lost)
    assert signal_process(lost, processes.unmarked[lost], signal.SIGTERM)
    eventually(lambda: not {lost, waiter.pid} & processes.find().keys())


def test_neither_another_run_s_process_nor_a_helper_s_is_found(
    run: RunDirectory, stranger: "subprocess.Popen[bytes]"
) -> None:
    helper = begun(["sh", "-c", "sleep 60; true"], env=os.environ | {HELPER_MARK: "sampler"})
    try:
        # Both are children of this process, which plays the supervisor.
        assert not {stranger.pid, helper.pid} & RunProcesses(run).find(thorough=True).keys()
    finally:
        helper.kill()
        helper.wait()


def test_who_inherited_the_lock_or_writes_the_output_is_found_but_no_reader(
    run: RunDirectory,
) -> None:
    # Started by a shell that leaves, in a session of its own: no mark, no parent, only its files.
    lock = os.open(run.run_lock, os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    for redirect in (f">>{run.output} 2>&1 {lock}>&-", ">/dev/null 2>&1"):
        shell = f"setsid env -i sleep 60 {redirect} & true"
        subprocess.run(["sh", "-c", shell], close_fds=False, check=True)
    follow = f"setsid env -i tail -f {run.output} >/dev/null 2>&1 & echo $!"
    reader = int(subprocess.run(["sh", "-c", follow], capture_output=True, check=True).stdout)
    # This process holds the lock too, and may have children of its own from other tests.
    mine = {child.pid for child in psutil.Process().children(recursive=True)}
    processes = RunProcesses(run)

    def beside(found: Mapping[int, int]) -> dict[int, int]:
        return {pid: ticks for pid, ticks in found.items() if pid not in mine}

    def others() -> dict[int, int] | None:
        found = beside(processes.find(thorough=True))
        return found if len(found) == 2 else None

    try:
        found = eventually(others, what="two processes")
        assert reader not in found and os.getpid() not in found

        # A fork of this process, on its way to another program, has the lock for a moment.
        def are_found_last() -> bool:
            last = RunProcesses(run)
            last.reaper = None
            return not last.find() and beside(last.find_last()) == found

        def is_older() -> bool:
            older = RunProcesses(run)
            older.reaper, older.since = None, max(found.values()) + 1
            return not older.find_last()

        eventually(are_found_last, what="the same two by a last look")
        eventually(is_older, what="nothing: what is older than the run is none of it")
        for pid, ticks in found.items():
            assert signal_process(pid, ticks, signal.SIGKILL)
    finally:
        os.kill(reader, signal.SIGKILL)
        os.close(lock)


def test_a_last_look_reads_every_process_once_and_no_thread_of_the_kernel(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[int] = Counter()
    look = procfs.stat_fields

    def counted(pid: int) -> list[str]:
        read[pid] += 1
        return look(pid)

    monkeypatch.setattr(procfs, "stat_fields", counted)
    processes = RunProcesses(run)
    processes.reaper = None
    assert not processes.find_last()
    assert set(read.values()) == {1}
    # It alone starts threads of the kernel.
    assert procfs.command_of(2) or 2 not in procfs.read_processes()


def test_a_pid_that_was_reused_is_not_signalled(stranger: "subprocess.Popen[bytes]") -> None:
    ticks = start_ticks(stranger.pid)
    assert ticks is not None
    assert signal_process(stranger.pid, ticks - 1, signal.SIGKILL) is False
    assert stranger.poll() is None
    assert signal_process(stranger.pid, ticks, signal.SIGTERM) is True
    assert stranger.wait() == -signal.SIGTERM


def test_what_has_ended_is_not_reached() -> None:
    with subprocess.Popen(["true"], env=os.environ | {MARK: RUN}) as gone:
        gone.wait()
    assert signal_process(gone.pid, 1, signal.SIGTERM) is False


def test_a_process_without_a_handler_is_known(stranger: "subprocess.Popen[bytes]") -> None:
    assert not catches(stranger.pid, signal.SIGUSR1)
    # A suite that was started in the background ignores SIGINT: this process catches another.
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        assert catches(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
