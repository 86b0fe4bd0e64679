"""Models that can be simulated: the name, memory and board power that the real ones report.

Source: the makers' data sheets, and for NVIDIA the totals that nvidia-smi shows.
"""

import msgspec

MIB = 1 << 20
GIB = 1 << 30


class GpuModel(msgspec.Struct, frozen=True):
    """A model of GPU: memory in bytes, board power in watts, top clock in MHz."""

    name: str
    memory: int
    power_w: float
    clock_mhz: int = 1980
    amd: bool = False


_MODELS = {
    "MI100": GpuModel("AMD Instinct MI100", 32 * GIB, 300, 1502, amd=True),
    "MI210": GpuModel("AMD Instinct MI210", 64 * GIB, 300, 1700, amd=True),
    "MI250X": GpuModel("AMD Instinct MI250X", 64 * GIB, 500, 1700, amd=True),
    "MI300X": GpuModel("AMD Instinct MI300X", 192 * GIB, 750, 2100, amd=True),
    "MI325X": GpuModel("AMD Instinct MI325X", 256 * GIB, 1000, 2100, amd=True),
    "MI355X": GpuModel("AMD Instinct MI355X", 288 * GIB, 1400, 2400, amd=True),
    "RX7900XTX": GpuModel("AMD Radeon RX 7900 XTX", 24 * GIB, 355, 2500, amd=True),
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
    """The model that `text` names, however it is spaced.

    An unknown one gets that name, 80 GiB and 400 W.
    """
    key = "".join(sign for sign in text.upper() if sign.isalnum())
    amd = key.startswith(("MI", "RX", "RADEON"))
    return _MODELS.get(key) or _MODELS.get(f"RTX{key}") or GpuModel(text, 80 * GIB, 400, amd=amd)
