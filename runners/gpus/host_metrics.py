"""The host beside its GPUs: CPU, memory, and the disk the state folder is on. Source: psutil.

Of a container it is the memory that it may use.
"""

from pathlib import Path

import psutil

from runners.host.memory_group import MemoryLimit, memory_limit
from runners.model.gpus import HostSnapshot


class HostMeter:
    """Reads the host; CPU use is the mean since the reading before, so the first one has none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = psutil.cpu_count()
        self._primed = False

    def read(self) -> HostSnapshot:
        """One reading, without waiting; what cannot be read is None."""
        cpu = psutil.cpu_percent(None)
        memory, group = psutil.virtual_memory(), memory_limit()
        whole = MemoryLimit(memory.total, memory.total - memory.available)
        total, used = group if group is not None and group.limit < memory.total else whole
        free, size = self._disk()
        try:
            load = psutil.getloadavg()[0]
        except OSError:
            load = None
        snapshot = HostSnapshot(
            cpu_percent=cpu if self._primed else None,
            cpu_count=self._count,
            load_1m=load,
            memory_used=used,
            memory_total=total,
            disk_free=free,
            disk_total=size,
        )
        self._primed = True
        return snapshot

    def _disk(self) -> tuple[int | None, int | None]:
        try:
            usage = psutil.disk_usage(str(self._folder))
        except OSError:
            return None, None
        return usage.free, usage.total
