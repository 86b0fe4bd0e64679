"""The makers of GPUs: one row for each, with everything in which they differ for a program.

What reads a maker's driver is a backend (`runners.gpus.backends`); of a new one the name stands in
`Vendor`, and its row here.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from runners.model.closed import assert_never

Vendor = Literal["nvidia", "amd", "simulated-nvidia", "simulated-amd"]
"""Who made a GPU, and whether it exists."""
Platform = Literal["CUDA", "ROCm"]
"""What PyTorch is built for to run on a maker's GPUs."""
VendorCheck = Literal["driver", "RCCL", "architecture override"]
"""Checks before a launch that make sense for one maker's GPUs only."""


class VendorTraits(NamedTuple):
    """What is particular to the GPUs of one maker.

    `visible` is the variable that shows a program its GPUs, `beside` what is set with it, and
    `instances_by_uuid` says that a part of a card has no index there. `inherited` are variables of
    its platform that would contradict an allocation. `allocator` is the variable of PyTorch's
    allocator, `serial` the one that runs kernels one after the other, with its value. `repairs`
    says how a card replaces bad memory, `container_flag` is how Apptainer shows the GPUs.
    """

    platform: Platform
    visible: str
    inherited: tuple[str, ...]
    allocator: str
    serial: tuple[str, str]
    repairs: str
    container_flag: str
    checks: frozenset[VendorCheck]
    beside: Mapping[str, str] = {}
    instances_by_uuid: bool = False
    reports_xid: bool = False


_NVIDIA = VendorTraits(
    platform="CUDA",
    visible="CUDA_VISIBLE_DEVICES",
    # CUDA orders devices by speed unless told otherwise; NVML's order is PCI's.
    beside={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    inherited=("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
    instances_by_uuid=True,
    allocator="PYTORCH_CUDA_ALLOC_CONF",
    serial=("CUDA_LAUNCH_BLOCKING", "1"),
    repairs="rows remapped",
    container_flag="--nv",
    checks=frozenset({"driver"}),
    reports_xid=True,
)
_AMD = VendorTraits(
    platform="ROCm",
    # Exactly one variable: two of them would filter twice (ROCm, "GPU isolation techniques").
    visible="HIP_VISIBLE_DEVICES",
    inherited=("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    allocator="PYTORCH_HIP_ALLOC_CONF",
    serial=("AMD_SERIALIZE_KERNEL", "3"),
    repairs="pages retired",
    container_flag="--rocm",
    checks=frozenset({"RCCL", "architecture override"}),
)


def traits_of_vendor(vendor: Vendor) -> VendorTraits:
    """The row of a maker; simulated GPUs are shown to programs as real ones are."""
    match vendor:
        case "nvidia" | "simulated-nvidia":
            traits = _NVIDIA
        case "amd" | "simulated-amd":
            traits = _AMD
        case _:
            assert_never(vendor)
    return traits


PLATFORMS: tuple[Platform, ...] = get_args(Platform)
VENDORS: tuple[Vendor, ...] = get_args(Vendor)
MAKERS = tuple(name for name in VENDORS if not name.startswith("simulated"))
UNKNOWN = _NVIDIA
"""In the place of a maker that nobody has asked for: HIP reads NVIDIA's variable too."""
