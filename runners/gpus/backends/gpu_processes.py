"""Whose process is on a GPU: user, command and run of a pid, looked up once per process."""

from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from runners.host.procfs import has_hosts_pids, mark_of, start_ticks
from runners.model.gpus import GpuProcess

COMMAND_LENGTH = 300
_MOST_REMEMBERED = 500


class ProcessTable:
    """Remembers processes by pid and start time: a reading then costs one small file per process.

    Drivers report the host's pids. In a container such a number may by chance be that of
    another process here, so there only a process that has a file open whose path begins with
    `devices` is taken for it.
    """

    def __init__(self, devices: str = "", proc: Path = Path("/proc")) -> None:
        self._known: dict[tuple[int, int], GpuProcess] = {}
        folder, _, name = devices.rpartition("/")
        distinct = name and not has_hosts_pids(proc) and any(Path(folder).glob(f"{name}*"))
        self._devices = devices if distinct else ""
        self._proc = proc

    def describe(self, pid: int, memory_used: int | None) -> GpuProcess:
        """Name process `pid`, which holds `memory_used` bytes; `outside` when not seen here."""
        started = start_ticks(pid)
        if started is None or not self._is_meant(pid):
            return GpuProcess(pid, memory_used=memory_used, outside=True)
        key = (pid, started)
        if key not in self._known:
            # Forgotten all at once: simple, and a GPU seldom has that many processes in a day.
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = _describe(pid)
        return msgspec.structs.replace(self._known[key], memory_used=memory_used)

    def _is_meant(self, pid: int) -> bool:
        if not self._devices:
            return True
        with suppress(OSError):
            for entry in (self._proc / str(pid) / "fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    if str(entry.readlink()).startswith(self._devices):
                        return True
        return False


def _describe(pid: int) -> GpuProcess:
    user = command = started = None
    try:
        process = psutil.Process(pid)
        started = process.create_time()
        user = process.username()
        command = " ".join(process.cmdline())[:COMMAND_LENGTH] or process.name()
    except (psutil.Error, OSError):
        pass
    return GpuProcess(pid, user, command, run=mark_of(pid), started=started)
