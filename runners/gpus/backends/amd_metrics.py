"""AMD's `gpu_metrics`: heat, energy, throttling and traffic in one binary file of sysfs.

Facts: the tables of versions 1.1 to 1.6 in the kernel's drivers/gpu/drm/amd/include/
kgd_pp_interface.h, which are naturally aligned and little-endian, and the bits of
`indep_throttle_status` in its pm/swsmu/inc/amdgpu_smu.h. A number with all bits set is unknown. A
version that is not listed here is not read: its fields may lie elsewhere.
"""

import struct
from pathlib import Path

import msgspec

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
