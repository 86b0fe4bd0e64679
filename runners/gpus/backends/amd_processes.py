"""Who uses AMD's GPUs: compute processes as the kernel's KFD lists them, and their VRAM.

Source: /sys/class/kfd/kfd/proc/PID/vram_GPUID (bytes), and the DRM client usage fields of
/proc/PID/fdinfo (`drm-memory-vram`, readable for one's own processes). Without KFD's list all
processes are looked through, but seldom.
"""

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runners.gpus.backends.amd_topology import Node
from runners.gpus.backends.gpu_processes import ProcessTable
from runners.host.files import names_in, read_text
from runners.model.gpus import GpuProcess

SCAN_EVERY_S = 15.0
"""Looking through every process's descriptors costs milliseconds per hundred processes."""

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_USAGE = re.compile(r"^drm-memory-vram:\s*(\d+)\s*(\w*)$", re.MULTILINE)
_FIELD = {
    name: re.compile(rf"^{name}:\s*(\S+)$", re.MULTILINE) for name in ("drm-pdev", "drm-client-id")
}
_RENDER = "/dev/dri/renderD"


class AmdProcesses:
    """The processes on AMD's GPUs, by place: PCI address and partition (0 of an undivided card)."""

    def __init__(self, root: Path = Path("/"), nodes: Sequence[Node] = ()) -> None:
        self._proc = root / "proc"
        self._kfd = root / "sys/class/kfd/kfd"
        self._names = ProcessTable(devices="/dev/kfd")
        self._places = {node.gpu_id: (node.address, node.partition) for node in nodes}
        self._renders = {
            node.render: (node.address, node.partition) for node in nodes if node.render is not None
        }
        self._clients: list[int] = []
        self._scanned = float("-inf")

    @property
    def are_counted(self) -> bool:
        """True when the kernel lists the VRAM of every compute process, of any user."""
        return (self._kfd / "proc").is_dir()

    def by_place(self) -> dict[tuple[str, int], tuple[GpuProcess, ...]]:
        """For each place, the processes seen on it and the VRAM each one holds, in bytes."""
        found: dict[tuple[str, int], list[GpuProcess]] = {}
        for pid in self._candidates():
            held = self._from_kfd(pid)
            for place, used in self._from_descriptors(pid).items():
                # Both sources count the same memory, so the greater is taken, not the sum.
                held[place] = max(used, held.get(place) or 0)
            for place, used_or_not in held.items():
                found.setdefault(place, []).append(self._names.describe(pid, used_or_not))
        return {place: tuple(processes) for place, processes in found.items()}

    def _candidates(self) -> list[int]:
        if self.are_counted:
            return _numbers(self._kfd / "proc")
        now = time.monotonic()
        if now - self._scanned >= SCAN_EVERY_S:
            self._scanned = now
            self._clients = [pid for pid in _numbers(self._proc) if self._render_nodes(pid)]
        return self._clients

    def _from_kfd(self, pid: int) -> dict[tuple[str, int], int | None]:
        held: dict[tuple[str, int], int | None] = {}
        for gpu_id, place in self._places.items():
            try:
                used = int((self._kfd / "proc" / str(pid) / f"vram_{gpu_id}").read_text())
            except (OSError, ValueError):
                continue
            if used:
                held[place] = used
        return held

    def _from_descriptors(self, pid: int) -> dict[tuple[str, int], int]:
        """VRAM by place; a client with several descriptors is counted once."""
        clients: dict[tuple[tuple[str, int], str], int] = {}
        for descriptor, target in self._render_nodes(pid).items():
            text = read_text(self._proc / str(pid) / "fdinfo" / descriptor)
            address, client = (pattern.search(text) for pattern in _FIELD.values())
            usage = _USAGE.search(text)
            if address and usage:
                # The address is the card's for all partitions; the render node tells them apart.
                minor = target.removeprefix(_RENDER)
                place = self._renders.get(
                    int(minor) if minor.isdecimal() else -1, (address[1].lower(), 0)
                )
                name = client[1] if client else descriptor
                clients[place, name] = int(usage[1]) * _UNITS.get(usage[2], 1)
        held: dict[tuple[str, int], int] = {}
        for (place, _), used in clients.items():
            held[place] = held.get(place, 0) + used
        return held

    def _render_nodes(self, pid: int) -> dict[str, str]:
        """The descriptors of `pid` that lead to a GPU, and where to; none where /proc refuses."""
        folder = self._proc / str(pid) / "fd"
        found = {}
        try:
            for entry in folder.iterdir():
                with suppress(OSError):  # closed meanwhile
                    target = str(entry.readlink())
                    if target.startswith("/dev/dri/"):
                        found[entry.name] = target
        except OSError:
            pass
        return found


def _numbers(folder: Path) -> list[int]:
    return sorted(map(int, filter(str.isdecimal, names_in(folder))))
