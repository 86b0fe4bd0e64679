"""AMD GPUs from amdgpu's files in sysfs: needs no library, no ROCm and no rights.

Source: the kernel's documentation of amdgpu's sysfs attributes and hwmon sensors. What
a card does not report there is asked of `amdsmi` where that is installed (`amd_smi`);
what neither knows is None.

The compute partitions of a card (CPX, DPX …) are GPUs of their own, as they are to HIP and
amd-smi. Temperature and memory errors are those of their card; sysfs does not tell the use,
power and clocks of one partition.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from runners.gpus.backends.amd_details import AmdDetails
from runners.gpus.backends.amd_processes import AmdProcesses
from runners.gpus.backends.amd_smi import AmdSmi
from runners.gpus.backends.amd_topology import Node, read_nodes
from runners.gpus.backends.backend import NoDriver
from runners.gpus.backends.sysfs import read_errors, read_number, read_scaled, read_text
from runners.gpus.driver_setting import Choice
from runners.host.files import names_in
from runners.model.gpus import GpuProcess, GpuSnapshot
from runners.state.layout import StateDirectory

_CARD = re.compile(r"card\d+")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_AMD_VENDOR = "0x1002"
_MOST_BYTES = 1 << 50
"""A petabyte: a VRAM size above it is a broken counter (16 EB has been seen), not memory."""
_FIELDS_OF_SMI = (
    "utilization",
    "memory_used",
    "memory_total",
    "temperature_c",
    "power_w",
    "clock_mhz",
)


class _Card(msgspec.Struct, frozen=True):
    device: Path
    hwmon: Path | None
    row: GpuSnapshot
    node: Node | None = None
    """The partition that the row is; None for a whole card."""


def open_backend(choice: Choice, state: StateDirectory) -> "Amd":
    """Look for amdgpu cards. Raises NoDriver when there is none."""
    return Amd()


class Amd:
    """All amdgpu cards under `root`, by PCI address; numbered as HIP does where KFD tells that."""

    name = "amd"
    problem: str | None = None

    def __init__(self, root: Path = Path("/"), smi: Callable[[], AmdSmi] = AmdSmi) -> None:
        devices = _devices(root)
        nodes = read_nodes(root, [device.name.lower() for device in devices])
        self._cards = _rows(root, devices, nodes)
        if not self._cards:
            raise NoDriver("AMD: no amdgpu card in /sys/class/drm: load the amdgpu driver")
        self.driver = read_text(root / "sys/module/amdgpu/version")
        self._processes = AmdProcesses(root, nodes)
        self._details = {
            card.device: AmdDetails(card.device, card.hwmon or card.device / "hwmon")
            for card in self._cards
        }
        self._open_smi = smi
        self._smi: AmdSmi | None = None

    def snapshots(self, now: float) -> tuple[GpuSnapshot, ...]:
        """Read every card's files; a card that is gone keeps its row, with an error."""
        processes = self._processes.by_place()
        details = {device: reader.read(now) for device, reader in self._details.items()}
        rows = []
        for card in self._cards:
            if not card.device.exists():
                rows.append(
                    msgspec.structs.replace(card.row, error="GPU is gone from sysfs: look at dmesg")
                )
                continue
            mine = processes.get((card.row.pci or "", card.node.partition if card.node else 0), ())
            row = (
                # A partition's own figures are few: sysfs measures whole cards.
                _measure(card)
                if card.node is None
                else self._measure_partition(card, card.node, mine)
            )
            detail, throttle, energy = details[card.device]
            # A card's counter is not one of its partitions' energy.
            energy = energy if card.node is None else None
            rows.append(
                msgspec.structs.replace(
                    row, processes=mine, detail=detail, throttle=throttle, energy_j=energy
                )
            )
        return tuple(
            self._complete(row, card.node) for card, row in zip(self._cards, rows, strict=True)
        )

    def _measure_partition(
        self, card: _Card, node: Node, processes: tuple[GpuProcess, ...]
    ) -> GpuSnapshot:
        used = [process.memory_used for process in processes]
        return msgspec.structs.replace(
            card.row,
            memory_used=sum(each or 0 for each in used) if self._processes.are_counted else None,
            memory_total=node.memory,
            temperature_c=_temperature(card.hwmon or card.device / "hwmon"),
            ecc_errors=read_errors(card.device, "ue"),
        )

    def _complete(self, row: GpuSnapshot, node: Node | None) -> GpuSnapshot:
        """Ask amdsmi for what sysfs does not tell, and only then: it loads slowly and may fail."""
        missing = [field for field in _FIELDS_OF_SMI if getattr(row, field) is None]
        if not missing or row.pci is None or row.error:
            return row
        if self._smi is None:
            self._smi = self._open_smi()
        found = (
            self._smi.fields(row.pci) if node is None else self._smi.partition_fields(node.gpu_id)
        )
        changes: dict[str, Any] = {
            name: found[name] for name in missing if found.get(name) is not None
        }
        # Only what is missing: sysfs is the kernel itself, amdsmi's version may not match.
        return msgspec.structs.replace(row, **changes)


def _devices(root: Path) -> list[Path]:
    """The device folders of AMD's cards; display connectors (card0-DP-1) are not cards."""
    found: dict[str, Path] = {}
    cards = root / "sys/class/drm"
    for name in names_in(cards):
        device = cards / name / "device"
        if _CARD.fullmatch(name) and read_text(device / "vendor") == _AMD_VENDOR:
            # Resolved: several entries may lead to one card, whose folder is named by its address.
            target = device.resolve()
            if (target / "mem_info_vram_total").exists() or (target / "gpu_busy_percent").exists():
                found[target.name] = target
    return [found[name] for name in sorted(found)]


def _rows(root: Path, devices: list[Path], nodes: list[Node]) -> list[_Card]:
    """A row for every card, or partition of a divided one, in HIP's order if KFD knows all."""
    cards = []
    for index, device in enumerate(devices):
        card = _describe(root, index, device)
        parts = [node for node in nodes if node.address == card.row.pci]
        # In SPX mode a card has a single node, and is shown as a whole.
        if len(parts) < 2:
            number = parts[0].number if parts else None
            cards.append((number, card))
        else:
            cards += [(node.number, _part(card, node, parts)) for node in parts]
    numbers = [number for number, _ in cards]
    # No KFD here, or one that does not know a card: HIP's count cannot be known.
    if None in numbers:
        numbers = list(range(len(cards)))
    numbered = (
        msgspec.structs.replace(card, row=msgspec.structs.replace(card.row, index=number))
        for number, (_, card) in zip(numbers, cards, strict=True)
    )
    return sorted(numbered, key=lambda card: card.row.index)


def _part(card: _Card, node: Node, parts: list[Node]) -> _Card:
    mode = read_text(card.device / "current_compute_partition") or "partition"
    # Some drivers give all partitions of a card one id; then the partition's number is added.
    distinct = node.unique_id and len({other.unique_id for other in parts}) == len(parts)
    row = msgspec.structs.replace(
        card.row,
        uuid=f"GPU-{node.unique_id:016x}" if distinct else f"{card.row.uuid}-{node.partition}",
        name=f"{card.row.name} {mode}",
        partition=f"{mode} {node.partition}/{len(parts)}",
    )
    return _Card(card.device, card.hwmon, row, node)


def _describe(root: Path, index: int, device: Path) -> _Card:
    pci = device.name.lower() if _ADDRESS.fullmatch(device.name) else None
    unique = read_text(device / "unique_id") or ""
    # Cards without a serial number report zeros; the PCI address identifies them instead.
    known = unique.strip("0") != ""
    model = read_text(device / "device") or ""
    name = read_text(device / "product_name") or _marketing_name(
        root, model, read_text(device / "revision") or ""
    )
    row = GpuSnapshot(
        index=index,
        uuid=f"GPU-{unique}" if known else f"PCI-{device.name}",
        name=name or f"AMD GPU {model}".strip(),
        vendor="amd",
        pci=pci,
    )
    return _Card(device, next(iter(sorted((device / "hwmon").glob("hwmon*"))), None), row)


def _measure(card: _Card) -> GpuSnapshot:
    device = card.device
    total = _bytes(device / "mem_info_vram_total")
    used = _bytes(device / "mem_info_vram_used")
    sensors = card.hwmon or device / "hwmon"
    return msgspec.structs.replace(
        card.row,
        utilization=_percent(device / "gpu_busy_percent"),
        memory_utilization=_percent(device / "mem_busy_percent"),
        # More used than there is: a broken counter, and unknown is better than wrong.
        memory_used=used if used is None or total is None or used <= total else None,
        memory_total=total,
        temperature_c=_temperature(sensors),
        # Cards report the average or the instantaneous power, seldom both.
        power_w=read_scaled(sensors / "power1_average", 1e6)
        or read_scaled(sensors / "power1_input", 1e6),
        power_limit_w=read_scaled(sensors / "power1_cap", 1e6),
        clock_mhz=_megahertz(sensors / "freq1_input"),
        memory_clock_mhz=_megahertz(sensors / "freq2_input"),
        ecc_errors=read_errors(device, "ue"),
    )


def _bytes(path: Path) -> int | None:
    value = read_number(path)
    return value if value is not None and value < _MOST_BYTES else None


def _percent(path: Path) -> float | None:
    value = read_number(path)
    return float(value) if value is not None and value <= 100 else None


def _megahertz(path: Path) -> int | None:
    value = read_number(path)
    return None if value is None else round(value / 1e6)


def _temperature(sensors: Path) -> float | None:
    """Degrees at the edge of the die, or at its junction where there is no edge sensor (MI300)."""
    for number in (1, 2):
        value = read_scaled(sensors / f"temp{number}_input", 1e3)
        # A sensor that does not exist may read 0; no GPU is that cold.
        if value:
            return value
    return None


def _marketing_name(root: Path, model: str, revision: str) -> str | None:
    """The name in libdrm's table for a device and revision id, where that table is installed."""
    wanted = (model.removeprefix("0x").upper(), revision.removeprefix("0x").upper())
    for line in (read_text(root / "usr/share/libdrm/amdgpu.ids") or "").splitlines():
        parts = [part.strip() for part in line.split(",", 2)]
        if len(parts) == 3 and (parts[0].upper(), parts[1].upper()) == wanted:
            return parts[2]
    return None
