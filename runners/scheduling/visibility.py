"""Which environment variable shows a program its GPUs, and only those."""

import os
from collections.abc import Sequence

from runners.host.slurm_job import slurm_job
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.vendors import UNKNOWN, VENDORS, traits_of_vendor

ALL_VARIABLES = tuple(
    dict.fromkeys(name for vendor in VENDORS for name in traits_of_vendor(vendor).inherited)
)
"""Inherited values of these would contradict an allocation, so they are removed."""

COUNT_VARIABLE = "FRESNEL_GPU_COUNT"
"""Tells a program how many GPUs it was given."""

_SIMULATED = "FRESNEL_GPUS_SIMULATED"
GIVEN_VARIABLES = (COUNT_VARIABLE, _SIMULATED, "CUDA_DEVICE_ORDER")
"""What comes with GPUs besides the variable that shows them."""

# An empty HIP_VISIBLE_DEVICES shows every GPU (ROCm issue 1170); -1 hides them everywhere.
_HIDE_ALL = "-1"


def given_gpus(gpus: Sequence[GpuSnapshot]) -> dict[str, str]:
    """What tells a program which GPUs it was given: their number, and whether they are simulated.

    A program that sees fewer than it was given has a wrong build, driver or ordinal, and can say so
    instead of silently computing on the CPU.
    """
    variables = {COUNT_VARIABLE: str(len(gpus))}
    if any(gpu.simulated for gpu in gpus):
        variables[_SIMULATED] = "1"
    return variables


def visibility(gpus: Sequence[GpuSnapshot], reading: GpuReading | None) -> dict[str, str]:
    """The variables that show `gpus` to a program; without any, the machine's GPUs are hidden.

    A program that gets all GPUs of a Slurm job sees them as Slurm shows them.
    """
    job = slurm_job()
    if job is not None and gpus and len(gpus) == len(job.gpus):
        shown = {name: os.environ[name] for name in ALL_VARIABLES if name in os.environ}
        if all(len(value.split(",")) == len(gpus) for value in shown.values()) and shown:
            return {**gpus[0].traits.beside, **shown}
    if not gpus:
        present = reading.gpus if reading is not None else ()
        traits = present[0].traits if present else UNKNOWN
        return {traits.visible: _HIDE_ALL}
    traits = gpus[0].traits
    names = [_name(gpu) for gpu in gpus]
    return {**traits.beside, traits.visible: ",".join(names)}


def _name(gpu: GpuSnapshot) -> str:
    by_uuid = gpu.mig_parent is not None and gpu.traits.instances_by_uuid
    return gpu.uuid if by_uuid else str(gpu.index)
