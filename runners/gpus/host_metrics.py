"""The host beside its GPUs: CPU, memory, and the disk the state folder is on. Source: psutil.

Of a container it is the memory and the processors that it may use.
"""

import time
from pathlib import Path
from typing import NamedTuple

import psutil

from runners.host.memory_group import MemoryLimit, memory_limit
from runners.host.processor_group import ProcessorLimit, processor_limit
from runners.model.gpus import HostSnapshot


class _Processors(NamedTuple):
    percent: float | None
    cores: int | None
    load: float | None


class HostMeter:
    """Reads the host; CPU use is the mean since the reading before, so the first one has none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = psutil.cpu_count()
        self._primed = False
        self._before: tuple[float, float] | None = None

    def read(self) -> HostSnapshot:
        """One reading, without waiting; what cannot be read is None."""
        limit = processor_limit()
        is_limited = limit is not None and limit.cores < (self._count or 1)
        cpu = self._group(limit) if limit is not None and is_limited else self._machine()
        memory, group = psutil.virtual_memory(), memory_limit()
        whole = MemoryLimit(memory.total, memory.total - memory.available)
        total, used = group if group is not None and group.limit < memory.total else whole
        free, size = self._disk()
        return HostSnapshot(
            cpu_percent=cpu.percent,
            cpu_count=cpu.cores,
            load_1m=cpu.load,
            memory_used=used,
            memory_total=total,
            disk_free=free,
            disk_total=size,
        )

    def _machine(self) -> _Processors:
        percent = psutil.cpu_percent(None)
        was_primed, self._primed = self._primed, True
        try:
            load = psutil.getloadavg()[0]
        except OSError:
            load = None
        return _Processors(percent if was_primed else None, self._count, load)

    def _group(self, limit: ProcessorLimit) -> _Processors:
        """Those of a control group, whose load nobody counts."""
        percent, before, now = None, self._before, time.monotonic()
        if limit.used_s is not None:
            if before is not None and now > before[0]:
                used = (limit.used_s - before[1]) / (now - before[0]) / limit.cores
                percent = min(100.0, max(0.0, 100.0 * used))
            self._before = now, limit.used_s
        return _Processors(percent, max(1, round(limit.cores)), None)

    def _disk(self) -> tuple[int | None, int | None]:
        try:
            usage = psutil.disk_usage(str(self._folder))
        except OSError:
            return None, None
        return usage.free, usage.total
