"""What else sysfs tells of AMD's cards, beside use and memory: fan, heat, links, throttling."""

import re
from pathlib import Path

import msgspec

from runners.gpus.backends.amd_metrics import AmdMetrics, read_metrics, throttled_between
from runners.gpus.backends.sysfs import read_errors, read_number, read_scaled, read_text
from runners.model.gpus import GpuDetail

# Of a lane, in GT/s: PCI Express Base Specification.
_GENERATIONS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "32.0": 5, "64.0": 6}


_SELDOM_S = 5.0
"""So often is read what hardly changes."""


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
