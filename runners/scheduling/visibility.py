"""Which environment variable shows a program its GPUs, and only those.

CUDA orders devices by speed unless told otherwise, so the order is pinned to PCI's,
which is NVML's. On ROCm exactly one variable is set: two of them would filter twice
(ROCm documentation, "GPU isolation techniques").
"""

from collections.abc import Sequence

from runners.model.gpus import GpuReading, GpuSnapshot

ALL_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "NVIDIA_VISIBLE_DEVICES",
)
"""Inherited values of these would contradict an allocation, so they are removed."""

# An empty HIP_VISIBLE_DEVICES shows every GPU (ROCm issue 1170); -1 hides them everywhere.
_HIDE_ALL = "-1"


def given_gpus(gpus: Sequence[GpuSnapshot]) -> dict[str, str]:
    """What tells a program which GPUs it was given: their number, and whether they are simulated.

    A program that sees fewer than it was given has a wrong build, driver or ordinal, and can say so
    instead of silently computing on the CPU.
    """
    told = {"FRESNEL_GPU_COUNT": str(len(gpus))}
    if any(gpu.simulated for gpu in gpus):
        told["FRESNEL_GPUS_SIMULATED"] = "1"
    return told


def visibility(gpus: Sequence[GpuSnapshot], reading: GpuReading | None) -> dict[str, str]:
    """The variables that show `gpus` to a program; without any, the machine's GPUs are hidden."""
    if gpus:
        if gpus[0].is_amd:
            return {"HIP_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in gpus)}
        # A MIG instance can only be named by its UUID: CUDA gives no
        # ordinals to instances of a card.
        names = [gpu.uuid if gpu.mig_parent else str(gpu.index) for gpu in gpus]
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(names)}
    if reading is not None and reading.gpus:
        variable = "HIP_VISIBLE_DEVICES" if reading.gpus[0].is_amd else "CUDA_VISIBLE_DEVICES"
        return {variable: _HIDE_ALL}
    return {"CUDA_VISIBLE_DEVICES": _HIDE_ALL}
