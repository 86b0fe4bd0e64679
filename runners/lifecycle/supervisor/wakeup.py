"""Sleeping until something happens: a poke, a child's end, a process's end, or a deadline."""

import os
import select
import signal
from contextlib import suppress

from runners.host.signals import STOP_FORCE, STOP_REQUEST

JOB_ENDS, LIMIT_NEAR = signal.SIGTERM, signal.SIGUSR2
"""What Slurm sends a job that it ends, and what jobs of ours ask for before their time limit."""


_LONGEST_S = 86_400.0
"""The kernel takes no more than 2^31 ms, which is 24 days."""


class WakeupLoop:
    """Turns SIGUSR1 (a poke) and SIGCHLD into wake-ups; what they mean is on disk or in the kernel.

    Stop requests that came as signals are counted.
    """

    def __init__(self, in_job: bool = False) -> None:
        """`in_job`: Slurm's signals begin a stop, which outside of a job end this process."""
        # Python's wakeup descriptor: a signal between the last look and the sleep is not lost,
        # because its byte is already in the pipe.
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._requests: list[bool] = []
        self.job_signal = 0
        """The first of Slurm's signals that came, 0 before any."""
        numbers = [signal.SIGUSR1, signal.SIGCHLD, STOP_REQUEST, STOP_FORCE]
        for number in [*numbers, JOB_ENDS, LIMIT_NEAR] if in_job else numbers:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def sleep(self, seconds: float, pidfd: int | None = None) -> None:
        """Return after `seconds`, a day at most, or at once when something happens.

        That is a poke, the end of a child, or the end of the process of `pidfd`.
        """
        poller = select.poll()
        poller.register(self._read, select.POLLIN)
        if pidfd is not None:
            poller.register(pidfd, select.POLLIN)
        poller.poll(min(max(0.0, seconds), _LONGEST_S) * 1000)
        with suppress(BlockingIOError):
            # Python writes the number of each signal that came.
            while block := os.read(self._read, 512):
                self._requests += [
                    number == STOP_FORCE for number in block if number in (STOP_REQUEST, STOP_FORCE)
                ]
                found = (number for number in block if number in (JOB_ENDS, LIMIT_NEAR))
                self.job_signal = self.job_signal or next(found, 0)

    @property
    def is_requested(self) -> bool:
        """True while a stop that was asked for by signal has not been taken."""
        return bool(self._requests or self.job_signal)

    def take_requests(self) -> list[bool]:
        """The stops asked for by signal since the last call: True for each that is to be forced."""
        taken, self._requests = self._requests, []
        return taken


class Children:
    """The exit statuses of this process's children, including orphans it got as their subreaper."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}

    def reap(self) -> None:
        """Collect every child that has ended."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.statuses[pid] = status
        except ChildProcessError:
            return

    def exited_by_itself(self, pid: int | None) -> bool:
        """True when `pid` was a child and was not killed by a signal."""
        return pid in self.statuses and os.WIFEXITED(self.statuses[pid])

    def was_killed(self, pid: int | None) -> bool:
        """True when `pid` was a child and a signal ended it."""
        return pid in self.statuses and os.WIFSIGNALED(self.statuses[pid])

    def code(self, pid: int) -> int | None:
        """The exit code of a child that ended (128+signal when killed); None when it is not one."""
        status = self.statuses.get(pid)
        if status is None:
            return None
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
