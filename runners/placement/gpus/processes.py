"""Whose process is on a GPU: user, command and run of a pid, looked up once for each process."""

import msgspec
import psutil

from runners.host.marks import mark_of, start_ticks
from runners.model.gpus import GpuProcess

COMMAND_LENGTH = 300
_MOST_REMEMBERED = 500


class ProcessTable:
    """Remembers processes by pid and start time, so that one reading costs one small file per process."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], GpuProcess] = {}

    def describe(self, pid: int, memory_used: int | None) -> GpuProcess:
        """Name process `pid`, which holds `memory_used` bytes; `outside` when no such pid is seen here."""
        started = start_ticks(pid)
        if started is None:
            return GpuProcess(pid, memory_used=memory_used, outside=True)
        key = (pid, started)
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = _look_up(pid)
        return msgspec.structs.replace(self._known[key], memory_used=memory_used)


def _look_up(pid: int) -> GpuProcess:
    user = command = None
    try:
        process = psutil.Process(pid)
        user = process.username()
        command = " ".join(process.cmdline())[:COMMAND_LENGTH] or process.name()
    except (psutil.Error, OSError):
        pass
    return GpuProcess(pid, user, command, run=mark_of(pid))
