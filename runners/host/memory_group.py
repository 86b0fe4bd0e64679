"""The control group whose memory limit holds for this process: a container's, a service's.

In a container of version 1, /proc/self/cgroup names it as the machine does, while what is mounted
begins with the container's own: so groups above are looked at too. Standard library only.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runners.host.files import read_number, read_text
from runners.host.procfs import counted_kills, groups_of

_NO_LIMIT = 1 << 60
_HERE = Path("/")


class MemoryLimit(NamedTuple):
    """The tightest limit above us and what counts against it, in bytes; None where not known.

    Cached files that the kernel drops when memory is needed are left out.
    """

    limit: int
    used: int | None


def memory_limit(root: Path = _HERE) -> MemoryLimit | None:
    """The memory limit of our control groups, the smallest; None where there is none."""
    found = [
        MemoryLimit(limit, _used(folder))
        for folder in group_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := read_number(folder / name)) is not None and 0 <= limit < _NO_LIMIT
    ]
    return min(found, default=None, key=lambda group: group.limit)


def group_kills(root: Path = _HERE) -> int | None:
    """Processes of our control group that the kernel ever killed for want of memory, or None."""
    counts = (
        counted_kills(str(folder / name))
        for folder in group_folders("memory", root)
        for name in ("memory.events", "memory.oom_control")
    )
    return next((count for count in counts if count is not None), None)


def group_folders(controller: str, root: Path = _HERE) -> Iterator[Path]:
    """The folders of a controller's group that we are in, and those above it, innermost first."""
    for controllers, group in groups_of("self", root):
        if not controllers or controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / (controller if controllers else "")
            folder = base / group.strip("/")
            yield from (folder, *(above for above in folder.parents if above.is_relative_to(base)))


def _used(folder: Path) -> int | None:
    used = read_number(folder / "memory.current") or read_number(folder / "memory.usage_in_bytes")
    stat = dict(line.split()[:2] for line in read_text(folder / "memory.stat").splitlines())
    cached = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
    return None if used is None else max(0, used - int(cached))
