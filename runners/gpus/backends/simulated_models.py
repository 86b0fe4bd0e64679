"""Models to simulate, by the makers' data sheets; NVIDIA's memory as nvidia-smi shows it."""

from typing import NamedTuple

import msgspec

from runners.model.vendors import Vendor

MIB = 1 << 20
GIB = 1 << 30


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
