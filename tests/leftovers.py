"""What a run of the tests leaves behind: processes that still write below its folder."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROUNDS = 20
_ENDS_WITHIN_MS = 5000


def end_writers(folder: Path) -> None:
    """Kill whatever has a file below `folder` open for writing, a held lock included, until nothing
    has: helpers start each other anew.
    """
    for _ in range(_ROUNDS):
        found = list(writers(folder))
        for pid in found:
            kill(pid)
        if not found:
            return


def writers(folder: Path) -> Iterator[int]:
    """Other processes that have a file below `folder` open for writing, though it be removed."""
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        if pid != os.getpid() and _writes_below(process, f"{folder}/"):
            yield pid


def _writes_below(process: Path, folder: str) -> bool:
    with suppress(OSError):  # it has ended, or is somebody else's
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()).startswith(folder):
                    flags = (process / "fdinfo" / descriptor.name).read_text().split()[3]
                    if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False


def kill(pid: int) -> None:
    """SIGKILL; returns when it is gone, and with it what it has open."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            ended = select.poll()
            ended.register(process, select.POLLIN)
            ended.poll(_ENDS_WITHIN_MS)
        finally:
            os.close(process)
