"""Simulated GPUs for trials and tests: their numbers follow from time, index and leases.

Models are those of the makers' data sheets; NVIDIA's memory as nvidia-smi shows it.
"""

import math
import zlib
from typing import NamedTuple

import msgspec

from runners.gpus.backends.gpu_processes import ProcessTable
from runners.gpus.driver_setting import Choice
from runners.host.files import modified_at
from runners.host.procfs import mark_of, marked_processes, parent_of
from runners.model.gpus import GpuDetail, GpuProcess, GpuSnapshot
from runners.model.vendors import Vendor
from runners.state.layout import StateDirectory
from runners.state.leases import Lease, held_leases

MIB = 1 << 20
GIB = 1 << 30
WARM_UP_S = 8.0
"""From the writing of a run's plan to full load."""
FILL_S = 20.0
"""From the writing of a run's plan to its full memory."""
HEAT_S = 25.0
"""The time constant of the temperature."""
_SEARCH_EVERY_S = 5.0


class DriverManners(NamedTuple):
    """What a maker's driver says besides common figures: clock in MHz, states, hot spot, mode."""

    memory_clock_mhz: int
    idle: str
    busy: str
    hotspot: bool
    compute_mode: str | None


MANNERS: dict[str, DriverManners] = {
    "simulated-nvidia": DriverManners(2619, "P8", "P0", False, "default"),
    "simulated-amd": DriverManners(1300, "auto", "auto", True, None),
}


class GpuModel(msgspec.Struct, frozen=True):
    """A model of GPU: memory in bytes, board power in watts, top clock in MHz."""

    name: str
    memory: int
    power_w: float
    clock_mhz: int = 1980
    vendor: Vendor = "simulated-nvidia"


_MODELS = {
    "MI100": GpuModel("AMD Instinct MI100", 32 * GIB, 300, 1502, "simulated-amd"),
    "MI210": GpuModel("AMD Instinct MI210", 64 * GIB, 300, 1700, "simulated-amd"),
    "MI250X": GpuModel("AMD Instinct MI250X", 64 * GIB, 500, 1700, "simulated-amd"),
    "MI300X": GpuModel("AMD Instinct MI300X", 192 * GIB, 750, 2100, "simulated-amd"),
    "MI325X": GpuModel("AMD Instinct MI325X", 256 * GIB, 1000, 2100, "simulated-amd"),
    "MI355X": GpuModel("AMD Instinct MI355X", 288 * GIB, 1400, 2400, "simulated-amd"),
    "RX7900XTX": GpuModel("AMD Radeon RX 7900 XTX", 24 * GIB, 355, 2500, "simulated-amd"),
    "A100": GpuModel("NVIDIA A100-SXM4-80GB", 81920 * MIB, 400, 1410),
    "A10": GpuModel("NVIDIA A10", 23028 * MIB, 150, 1695),
    "A6000": GpuModel("NVIDIA RTX A6000", 49140 * MIB, 300, 2100),
    "B200": GpuModel("NVIDIA B200", 183359 * MIB, 1000, 1965),
    "H100": GpuModel("NVIDIA H100 80GB HBM3", 81559 * MIB, 700, 1980),
    "H200": GpuModel("NVIDIA H200", 143771 * MIB, 700, 1980),
    "L4": GpuModel("NVIDIA L4", 23034 * MIB, 72, 2040),
    "L40S": GpuModel("NVIDIA L40S", 46068 * MIB, 350, 2520),
    "T4": GpuModel("Tesla T4", 15360 * MIB, 70, 1590),
    "V100": GpuModel("Tesla V100-SXM2-32GB", 32768 * MIB, 300, 1530),
    "RTX3090": GpuModel("NVIDIA GeForce RTX 3090", 24576 * MIB, 350, 2100),
    "RTX4090": GpuModel("NVIDIA GeForce RTX 4090", 24564 * MIB, 450, 3105),
    "RTX5090": GpuModel("NVIDIA GeForce RTX 5090", 32607 * MIB, 575, 3090),
}


def model_named(text: str) -> GpuModel:
    """The model that `text` names, however spaced; an unknown one gets it, 80 GiB and 400 W."""
    key = "".join(sign for sign in text.upper() if sign.isalnum())
    found = _MODELS.get(key) or _MODELS.get(f"RTX{key}")
    if found is not None:
        return found
    amd = key.startswith(("MI", "RX", "RADEON"))
    vendor: Vendor = "simulated-amd" if amd else "simulated-nvidia"
    return GpuModel(text, 80 * GIB, 400, vendor=vendor)


class _Load(msgspec.Struct, frozen=True):
    """What the runs ask of one GPU: a share of its speed, from 0 to 1, and processes with bytes."""

    speed: float = 0.0
    processes: tuple[GpuProcess, ...] = ()


def open_backend(choice: Choice, state: StateDirectory) -> "Simulated":
    """Make `choice.count` GPUs of `choice.model`, moved by the leases of `state`."""
    return Simulated(choice.count, choice.model, state)


class Simulated:
    """A host's worth of simulated GPUs of one model."""

    name = "simulated"
    driver: str | None = "simulated"
    problem: str | None = None

    def __init__(self, count: int, model: str, state: StateDirectory) -> None:
        self._model = model_named(model)
        self._state = state
        self._manners = MANNERS[self._model.vendor]
        word, name, vendor = "-".join(model.split()), self._model.name, self._model.vendor
        self._blanks = [
            GpuSnapshot(index, f"SIM-{word}-{index}", name, vendor, _address(index))
            for index in range(count)
        ]
        self._heat: dict[int, tuple[float, float]] = {}
        self._names = ProcessTable()
        self._leaders: dict[str, tuple[int, float]] = {}

    def snapshots(self, now: float) -> tuple[GpuSnapshot, ...]:
        """All GPUs as they would be at `now` (unix seconds), given who holds them."""
        leases = held_leases(self._state)
        return tuple(
            self._measure(blank, leases.get(blank.uuid, []), now) for blank in self._blanks
        )

    def _measure(self, blank: GpuSnapshot, leases: list[Lease], now: float) -> GpuSnapshot:
        model, index = self._model, blank.index
        load = self._load(leases, index, now)
        busy = _busy_percent(load.speed, index, now)
        held = sum(process.memory_used or 0 for process in load.processes)
        draw = 0.13 + 0.80 * load.speed + 0.02 * load.speed * _wave(now, 9, index)
        return msgspec.structs.replace(
            blank,
            utilization=float(round(busy)),
            memory_utilization=float(round(busy * 0.55)),
            memory_used=min(model.memory, model.memory // 200 + held),
            memory_total=model.memory,
            temperature_c=round(self._temperature(index, load.speed, now), 1),
            power_w=round(model.power_w * draw + 2 * _wave(now, 31, index), 1),
            power_limit_w=float(model.power_w),
            clock_mhz=round(model.clock_mhz * (0.17 + 0.78 * min(1.0, load.speed * 1.3))),
            memory_clock_mhz=self._manners.memory_clock_mhz,
            ecc_errors=0,
            processes=load.processes,
            detail=self._detail(index, load.speed, now),
        )

    def _detail(self, index: int, speed: float, now: float) -> GpuDetail:
        heat, manners = self._heat[index][1], self._manners
        return GpuDetail(
            state=manners.busy if speed else manners.idle,
            hotspot_c=round(heat + 4 + 5 * speed, 1) if manners.hotspot else None,
            memory_c=round(heat + 2 + 8 * speed, 1),
            pcie_generation=5,
            pcie_width=16,
            pcie_most_generation=5,
            pcie_most_width=16,
            pcie_bytes_s=round(1e6 + 8e8 * speed * (1 + 0.2 * _wave(now, 13, index))),
            ecc_corrected=0,
            compute_mode=manners.compute_mode,
        )

    def _load(self, leases: list[Lease], index: int, now: float) -> _Load:
        """The sum of all runs on one GPU, whose speed and memory they have to share."""
        speed, processes = 0.0, []
        for lease in leases:
            age = now - self._started(lease, now)
            speed += _smooth(age / WARM_UP_S)
            # By the run's id, so that a run keeps its size however often it is looked at.
            share = 0.40 + 0.45 * (zlib.crc32(lease.run.encode()) % 100) / 100
            share = (share + 0.004 * _wave(now, 47, index)) / len(leases)
            used = int(self._model.memory * share * _smooth(age / FILL_S))
            processes.append(self._process(lease, used, now, len(leases)))
        return _Load(min(1.0, speed), tuple(processes))

    def _started(self, lease: Lease, now: float) -> float:
        # The plan is written when GPUs are granted, as a real program would begin to load.
        return modified_at(self._state.run(lease.run).plan) or now

    def _temperature(self, index: int, speed: float, now: float) -> float:
        """Degrees, approaching what the load leads to with the time constant of a heat sink."""
        goal = 33.0 + index % 4 + 38.0 * speed + 0.8 * _wave(now, 61, index)
        before, degrees = self._heat.get(index, (now, 33.0 + index % 4))
        degrees += (goal - degrees) * (1 - math.exp(-max(0.0, now - before) / HEAT_S))
        self._heat[index] = (now, degrees)
        return degrees

    def _process(self, lease: Lease, used: int, now: float, sharers: int) -> GpuProcess:
        process = self._names.describe(self._leader(lease.run, now), used)
        use = round(94 * _smooth((now - self._started(lease, now)) / WARM_UP_S) / sharers)
        return msgspec.structs.replace(
            process, run=lease.run, outside=False, utilization=float(use)
        )

    def _leader(self, run: str, now: float) -> int:
        """A process with the run's mark, looked for every few seconds; 0 while none is found."""
        pid, looked = self._leaders.get(run, (0, -math.inf))
        if pid and mark_of(pid) == run:
            return pid
        # Searching all of /proc for each run at each reading would be slow.
        if pid or abs(now - looked) >= _SEARCH_EVERY_S:
            pid = _program_of(sorted(marked_processes(run)))
            self._leaders[run] = (pid, now)
        return pid


def _program_of(pids: list[int]) -> int:
    """The run's program among its processes: the child of the shell around it; 0 for none."""
    ours = set(pids)
    inner = [pid for pid in pids if parent_of(pid) in ours]
    return next(iter(inner or pids), 0)


def _busy_percent(speed: float, index: int, now: float) -> float:
    idle = 0.8 + _wave(now, 23, index)
    full = 94 + 3 * _wave(now, 17, index) + 2.5 * _wave(now, 5, index + 3)
    return min(100.0, max(0.0, idle + (full - idle) * speed))


def _wave(now: float, period_s: float, index: int) -> float:
    """A smooth wave between -1 and 1; neighbours are out of phase."""
    # The golden ratio: no two indices get the same phase.
    return math.sin(2 * math.pi * (now / period_s + 0.618 * index))


def _smooth(part: float) -> float:
    """0 below part 0, 1 above part 1, with a soft start and a soft end between."""
    part = min(1.0, max(0.0, part))
    return part * part * (3 - 2 * part)


def _address(index: int) -> str:
    """PCI addresses as far apart as on a real board: 0000:05:00.0, 0000:15:00.0, ..."""
    return f"{index // 16:04x}:{(5 + 16 * (index % 16)) % 256:02x}:00.0"
