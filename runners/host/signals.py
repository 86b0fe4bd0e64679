"""Signals to exactly the process meant, though pids are reused. Standard library only."""

import os
import signal

from runners.host.procfs import start_ticks

STOP_REQUEST, STOP_FORCE = signal.SIGRTMIN + 1, signal.SIGRTMIN + 2
"""A stop handed over by signal, when the disk does not take the intent; real-time signals queue."""


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` ends; None where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def signal_process(pid: int, ticks: int, number: int) -> bool:
    """Signal the process that started as `pid` at `ticks`; False when it is gone, or refuses.

    The descriptor is opened first and the start time read after it, so the signal reaches the
    process that was checked. Kernels before 5.3 have no such descriptors: a short race remains.
    """
    descriptor = open_pidfd(pid)
    try:
        if start_ticks(pid) != ticks:
            return False
        if descriptor is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True
