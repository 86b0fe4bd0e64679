"""End a process that belongs to no run: one of this user's own, which a person saw on a GPU."""

import os
import signal
from typing import NamedTuple

from runners.host.procfs import command_of, start_ticks, user_of
from runners.host.signals import signal_process
from runners.model.errors import WrongInput
from runners.model.gpus import GpuProcess


class OwnProcess(NamedTuple):
    """A live process of this user; its pid and start, in clock ticks since boot, tell which."""

    pid: int
    ticks: int
    command: str


def own_process(seen: GpuProcess) -> OwnProcess:
    """What was seen on a GPU, as it is now. Raises WrongInput where it is not for us to end."""
    if seen.run is not None:
        raise WrongInput(f"pid {seen.pid} is of the run {seen.run}: stop that")
    if seen.outside:
        raise WrongInput(f"pid {seen.pid} is not of this container: it is not seen here")
    ticks, user = start_ticks(seen.pid), user_of(seen.pid)
    if ticks is None or user is None:
        raise WrongInput(f"pid {seen.pid} has ended already")
    # Root's own rights reach further; what others compute is not for the panel to end.
    if user != os.getuid():
        raise WrongInput(f"pid {seen.pid} is of {seen.user or f'user {user}'}: not yours to end")
    if seen.pid == os.getpid():
        raise WrongInput(f"pid {seen.pid} is this panel")
    return OwnProcess(seen.pid, ticks, " ".join(command_of(seen.pid)))


def end_process(process: OwnProcess, force: bool = False) -> None:
    """Send SIGTERM, or SIGKILL. Raises WrongInput when it has ended meanwhile."""
    number = signal.SIGKILL if force else signal.SIGTERM
    if user_of(process.pid) != os.getuid() or not signal_process(
        process.pid, process.ticks, number
    ):
        raise WrongInput(f"pid {process.pid} has ended already")
