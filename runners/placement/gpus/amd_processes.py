"""Who uses AMD's GPUs: compute processes as the kernel's KFD lists them, and the VRAM each one holds.

Source: /sys/class/kfd/kfd/proc/PID/vram_GPUID (bytes), and the DRM client usage fields of /proc/PID/fdinfo
(`drm-memory-vram`, readable for one's own processes). Without KFD's list all processes are looked through,
but seldom.
"""

import re
import time
from contextlib import suppress
from pathlib import Path

from runners.model.gpus import GpuProcess
from runners.placement.gpus.processes import ProcessTable

SCAN_EVERY_S = 15.0
"""Looking through every process's descriptors costs milliseconds per hundred processes."""

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_USAGE = re.compile(r"^drm-memory-vram:\s*(\d+)\s*(\w*)$", re.MULTILINE)
_FIELD = {name: re.compile(rf"^{name}:\s*(\S+)$", re.MULTILINE) for name in ("drm-pdev", "drm-client-id")}


class AmdProcesses:
    """The processes on AMD's GPUs, by PCI address."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._kfd = root / "sys/class/kfd/kfd"
        self._names = ProcessTable()
        self._addresses = _addresses_by_gpu_id(self._kfd)
        self._clients: list[int] = []
        self._scanned = float("-inf")

    def by_address(self) -> dict[str, tuple[GpuProcess, ...]]:
        """For each PCI address, the processes seen on it and the VRAM each one holds, in bytes."""
        found: dict[str, list[GpuProcess]] = {}
        for pid in self._candidates():
            held = self._from_kfd(pid)
            for address, used in self._from_descriptors(pid).items():
                held[address] = max(used, held.get(address) or 0)
            for address, used_or_not in held.items():
                found.setdefault(address, []).append(self._names.describe(pid, used_or_not))
        return {address: tuple(processes) for address, processes in found.items()}

    def _candidates(self) -> list[int]:
        if (self._kfd / "proc").is_dir():
            return _numbers(self._kfd / "proc")
        now = time.monotonic()
        if now - self._scanned >= SCAN_EVERY_S:
            self._scanned = now
            self._clients = [pid for pid in _numbers(self._proc) if self._render_nodes(pid)]
        return self._clients

    def _from_kfd(self, pid: int) -> dict[str, int | None]:
        held: dict[str, int | None] = {}
        for gpu_id, address in self._addresses.items():
            try:
                used = int((self._kfd / "proc" / str(pid) / f"vram_{gpu_id}").read_text())
            except (OSError, ValueError):
                continue
            if used:
                held[address] = used
        return held

    def _from_descriptors(self, pid: int) -> dict[str, int]:
        """VRAM by PCI address; a client that holds several descriptors is counted once."""
        clients: dict[tuple[str, str], int] = {}
        for descriptor in self._render_nodes(pid):
            try:
                text = (self._proc / str(pid) / "fdinfo" / descriptor).read_text("utf-8", "replace")
            except OSError:
                continue
            address, client = (pattern.search(text) for pattern in _FIELD.values())
            usage = _USAGE.search(text)
            if address and usage:
                name = client[1] if client else descriptor
                clients[address[1].lower(), name] = int(usage[1]) * _UNITS.get(usage[2], 1)
        held: dict[str, int] = {}
        for (place, _), used in clients.items():
            held[place] = held.get(place, 0) + used
        return held

    def _render_nodes(self, pid: int) -> list[str]:
        """The descriptors of `pid` that lead to a GPU; none where they may not be looked at."""
        folder = self._proc / str(pid) / "fd"
        found = []
        try:
            for entry in folder.iterdir():
                with suppress(OSError):  # closed meanwhile
                    if str(entry.readlink()).startswith("/dev/dri/"):
                        found.append(entry.name)
        except OSError:
            pass
        return found


def _addresses_by_gpu_id(kfd: Path) -> dict[str, str]:
    """KFD's gpu_id → PCI address; location_id holds bus, device and function in its low 16 bits."""
    found = {}
    for node in sorted((kfd / "topology/nodes").glob("*")):
        try:
            gpu_id = (node / "gpu_id").read_text().strip()
            properties = dict(line.split(None, 1) for line in (node / "properties").read_text().splitlines())
            location, domain = int(properties["location_id"]), int(properties.get("domain", "0"))
        except (OSError, ValueError, KeyError):
            continue
        if gpu_id != "0":
            device, function = (location >> 3) & 0x1F, location & 7
            found[gpu_id] = f"{domain:04x}:{(location >> 8) & 0xFF:02x}:{device:02x}.{function:x}"
    return found


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())
    except OSError:
        return []
