"""What else sysfs tells of AMD's cards, beside use and memory: fan, heat, links, throttling.

Heat, energy, throttling and traffic stand in one binary file, `gpu_metrics`. Facts: the tables of
versions 1.1 to 1.6 in the kernel's drivers/gpu/drm/amd/include/kgd_pp_interface.h, which are
naturally aligned and little-endian, and the bits of `indep_throttle_status` in its
pm/swsmu/inc/amdgpu_smu.h. A number with all bits set is unknown. A version that is not listed here
is not read: its fields may lie elsewhere.
"""

import re
import struct
from pathlib import Path

import msgspec

from runners.gpus.backends.sysfs import read_errors, read_number, read_scaled, read_text
from runners.model.gpus import GpuDetail

_ENERGY_J = 2.0**-16
"""Of one count: 15.259 µJ; only accelerators count it (1.4 and later, and 1.3 on MI200)."""
_LINKS = 8
_THROTTLED = (
    (range(8), "power cap"),
    (range(16, 24), "current limit"),
    (range(32, 46), "thermal (hardware)"),
    (range(46, 48), "hardware slowdown"),
    (range(56, 58), "power cap"),
)
_RESIDENCIES = (
    ("prochot", "hardware slowdown"),
    ("ppt", "power cap"),
    ("socket_heat", "thermal (hardware)"),
    ("regulator_heat", "thermal (hardware)"),
    ("hbm_heat", "thermal (hardware)"),
)
"""How long each has held the clocks down, counted since the driver was loaded."""
_FIRST = {"hotspot": ("H", 6), "memory": ("H", 8), "energy": ("Q", 24)}
_LATER = {"hotspot": ("H", 4), "memory": ("H", 6)}
_TABLES: dict[tuple[int, int], dict[str, tuple[str, int]]] = {
    (1, 1): _FIRST,
    (1, 2): _FIRST,
    (1, 3): {**_FIRST, "throttle": ("Q", 112)},
    (1, 4): {**_LATER, "energy": ("Q", 24), "read": (f"{_LINKS}Q", 104), "write": ("8Q", 168)},
    (1, 5): {**_LATER, "energy": ("Q", 88), "read": (f"{_LINKS}Q", 176), "write": ("8Q", 240)},
    (1, 6): {
        **_LATER,
        "energy": ("Q", 88),
        "prochot": ("I", 108),
        "ppt": ("I", 112),
        "socket_heat": ("I", 116),
        "regulator_heat": ("I", 120),
        "hbm_heat": ("I", 124),
        "pcie": ("Q", 160),
        "read": (f"{_LINKS}Q", 200),
        "write": ("8Q", 264),
    },
}
# Of a lane, in GT/s: PCI Express Base Specification.
_GENERATIONS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "32.0": 5, "64.0": 6}


_SELDOM_S = 5.0
"""So often is read what hardly changes."""


class AmdMetrics(msgspec.Struct, frozen=True):
    """One reading: degrees, joules, bytes per second, reasons of this moment; None: unknown."""

    hotspot_c: float | None = None
    memory_c: float | None = None
    energy_j: float | None = None
    pcie_bytes_s: float | None = None
    link_bytes: int | None = None
    throttled: tuple[str, ...] = ()
    residencies: tuple[int, ...] = ()


def read_metrics(path: Path) -> AmdMetrics:
    """The table at `path`; nothing known of one that is missing, cut off or of another version."""
    try:
        content = path.read_bytes()
    except OSError:
        return AmdMetrics()
    if len(content) < 4:
        return AmdMetrics()
    size, *version = struct.unpack_from("<HBB", content)
    table = _TABLES.get((version[0], version[1]), {})
    if size > len(content):
        return AmdMetrics()
    found = {name: _numbers(content, kind, at) for name, (kind, at) in table.items()}
    single = {name: numbers[0] for name, numbers in found.items() if len(numbers) == 1}
    energy, pcie = single.get("energy"), single.get("pcie")
    moved = [*found.get("read", ()), *found.get("write", ())]
    residencies = [single.get(name) for name, _ in _RESIDENCIES]
    return AmdMetrics(
        hotspot_c=_degrees(single.get("hotspot")),
        memory_c=_degrees(single.get("memory")),
        energy_j=energy * _ENERGY_J if energy else None,
        pcie_bytes_s=None if pcie is None else pcie * 1e6 / 8,
        link_bytes=sum(moved) * 1000 if moved else None,
        throttled=_reasons(single.get("throttle") or 0),
        residencies=tuple(single for single in residencies if single is not None),
    )


def throttled_between(before: AmdMetrics, now: AmdMetrics) -> tuple[str, ...]:
    """Why clocks were held down since the reading `before`: by bits, or by counters that grew."""
    reasons = list(now.throttled)
    if len(before.residencies) == len(now.residencies) == len(_RESIDENCIES):
        pairs = zip(_RESIDENCIES, before.residencies, now.residencies, strict=True)
        reasons += [word for (_, word), then, later in pairs if later > then]
    return tuple(dict.fromkeys(reasons))


def _numbers(content: bytes, kind: str, at: int) -> tuple[int, ...]:
    """The numbers at an offset that are known; none beyond the end."""
    form = f"<{kind}"
    if at + struct.calcsize(form) > len(content):
        return ()
    unknown = (1 << 8 * struct.calcsize(f"<{kind[-1]}")) - 1
    return tuple(value for value in struct.unpack_from(form, content, at) if value != unknown)


def _reasons(bits: int) -> tuple[str, ...]:
    reasons = [word for places, word in _THROTTLED for place in places if bits >> place & 1]
    return tuple(dict.fromkeys(reasons))


def _degrees(value: int | None) -> float | None:
    """Degrees Celsius; some boards tell hundredths, and 0 where there is no sensor."""
    if not value:
        return None
    return value / 100 if value > 300 else float(value)


class AmdDetails:
    """The details of one card; each reading is held against the one before."""

    def __init__(self, device: Path, sensors: Path) -> None:
        self._device = device
        self._sensors = sensors
        self._before = AmdMetrics()
        self._then = 0.0
        self._seldom: tuple[float, GpuDetail] | None = None

    def read(self, now: float) -> tuple[GpuDetail, tuple[str, ...], float | None]:
        """The details at `now` (unix s), why clocks are held down, the energy counter in joules."""
        metrics = read_metrics(self._device / "gpu_metrics")
        throttle = throttled_between(self._before, metrics)
        link = self._link_rate(metrics, now)
        self._before, self._then = metrics, now
        sensors = self._sensors
        detail = msgspec.structs.replace(
            self._seldom_read(now),
            hotspot_c=read_scaled(sensors / "temp2_input", 1e3) or metrics.hotspot_c,
            memory_c=read_scaled(sensors / "temp3_input", 1e3) or metrics.memory_c,
            pcie_bytes_s=metrics.pcie_bytes_s,
            link="XGMI" if metrics.link_bytes is not None else None,
            link_bytes_s=link,
        )
        return detail, throttle, metrics.energy_j

    def _seldom_read(self, now: float) -> GpuDetail:
        if self._seldom is None or not 0 <= now - self._seldom[0] < _SELDOM_S:
            self._seldom = now, self._read_rest()
        return self._seldom[1]

    def _read_rest(self) -> GpuDetail:
        device = self._device
        pages = read_text(device / "ras/gpu_vram_bad_pages")
        return GpuDetail(
            fan_percent=_fan(self._sensors),
            state=read_text(device / "power_dpm_force_performance_level"),
            pcie_generation=_generation(device / "current_link_speed"),
            pcie_width=read_number(device / "current_link_width"),
            pcie_most_generation=_generation(device / "max_link_speed"),
            pcie_most_width=read_number(device / "max_link_width"),
            ecc_corrected=read_errors(device, "ce"),
            rows_remapped=None if pages is None else len(re.findall(r":\s*R\b", pages)),
            rows_pending=None if pages is None else bool(re.search(r":\s*[PF]\b", pages)),
        )

    def _link_rate(self, metrics: AmdMetrics, now: float) -> float | None:
        before, count = self._before.link_bytes, metrics.link_bytes
        if before is None or count is None or count < before or now <= self._then:
            return None
        return (count - before) / (now - self._then)


def _fan(sensors: Path) -> float | None:
    """Percent of the fan's greatest pulse width; None on a card that has no fan."""
    pulse, most = read_number(sensors / "pwm1"), read_number(sensors / "pwm1_max")
    return None if pulse is None else min(100.0, pulse * 100 / (most or 255))


def _generation(path: Path) -> int | None:
    return _GENERATIONS.get((read_text(path) or "").partition(" ")[0])
