"""How much of the machine's processors our control groups let us use: a container's quota or set.

Source: the kernel's cgroup-v2.rst, and cgroup-v1/cpusets.rst and scheduler/sched-bwc.rst.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runners.host.files import read_text
from runners.host.memory_group import group_folders

_HERE = Path("/")


class ProcessorLimit(NamedTuple):
    """The cores that may be used, and what was used by whom that holds for, in seconds of one."""

    cores: float
    used_s: float | None


def processor_limit(root: Path = _HERE) -> ProcessorLimit | None:
    """The tightest quota or set of processors of our control groups; None where there is none."""
    limits = [*_quotas(root), *_sets(root)]
    return min(limits, default=None, key=lambda limit: limit.cores)


def _quotas(root: Path) -> Iterator[ProcessorLimit]:
    for folder in group_folders("cpu", root):
        numbers = read_text(folder / "cpu.max").split() or [
            read_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
        ]
        # Without one it is `max`, or -1.
        if len(numbers) == 2 and all(map(str.isdigit, numbers)) and int(numbers[1]):
            yield ProcessorLimit(int(numbers[0]) / int(numbers[1]), _used(folder, root))


def _sets(root: Path) -> Iterator[ProcessorLimit]:
    for folder in group_folders("cpuset", root):
        text = read_text(folder / "cpuset.cpus.effective") or read_text(folder / "cpuset.cpus")
        if count := _counted(text.strip()):
            yield ProcessorLimit(count, _used(folder, root))


def _counted(text: str) -> int:
    """How many are in `0-3,8`; 0 for what is no such list."""
    parts = [part.split("-") for part in text.split(",")]
    if not all(number.isdigit() for part in parts for number in part):
        return 0
    return sum(int(part[-1]) - int(part[0]) + 1 for part in parts)


def _used(folder: Path, root: Path) -> float | None:
    """Seconds of a core that the group has used; of version 1 by another controller's count."""
    stat = dict(line.split()[:2] for line in read_text(folder / "cpu.stat").splitlines())
    if stat.get("usage_usec", "").isdigit():
        return int(stat["usage_usec"]) / 1e6
    counted = (
        read_text(found / "cpuacct.usage").strip() for found in group_folders("cpuacct", root)
    )
    return next((int(text) / 1e9 for text in counted if text.isdigit()), None)
