"""Which device a process computes on. A GPU given and not seen is an error, never the CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from trainers.common.errors import SettingsError, SharedError

VISIBILITY = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def simulated(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the panel that started this run gave it simulated GPUs."""
    return environment.get("FRESNEL_GPUS_SIMULATED", "") not in ("", "0")


def gpus_given(environment: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """Return how many GPUs this run was given, and the variable that says so.

    `FRESNEL_GPU_COUNT` decides, else a *_VISIBLE_DEVICES that names any. Simulated: none.
    """
    if simulated(environment):
        return 0, "FRESNEL_GPUS_SIMULATED"
    count = environment.get("FRESNEL_GPU_COUNT", "").strip()
    if count.isdigit():
        return int(count), "FRESNEL_GPU_COUNT"
    for variable in VISIBILITY:
        names = [name.strip() for name in environment.get(variable, "").split(",") if name.strip()]
        if names and names[0] != "-1":
            return len(names), variable
    return 0, ""


def why_no_gpu(environment: Mapping[str, str] = os.environ) -> str:
    """Return why PyTorch sees no GPU and what to do about it; untested on real drivers."""
    build, hip = torch.version.cuda, getattr(torch.version, "hip", None)
    if build is None and hip is None:
        return (
            f"this PyTorch ({torch.__version__}) is built without CUDA and ROCm:"
            " install the build for this machine's GPUs, see https://pytorch.org/get-started"
        )
    if hip is None and environment.get("HIP_VISIBLE_DEVICES") not in (None, "", "-1"):
        return f"this PyTorch is built for CUDA {build}, the GPUs are AMD's: install a ROCm build"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as problem:
        # A wrong ordinal is "No CUDA GPUs are available"; all else is the driver's own text.
        message = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        if "No CUDA GPUs" not in message and "No HIP GPUs" not in message:
            return f"the driver refuses ({message}): compare nvidia-smi or rocm-smi with {_built()}"
    named = [f"{name}={environment[name]}" for name in VISIBILITY if environment.get(name)]
    shown = ", ".join(named) or "no *_VISIBLE_DEVICES is set"
    return (
        f"the driver shows no such GPU ({shown}): check the ordinals against nvidia-smi or rocm-smi"
    )


def _built() -> str:
    hip = getattr(torch.version, "hip", None)
    return f"PyTorch's ROCm {hip}" if hip else f"PyTorch's CUDA {torch.version.cuda}"


def choose_device(
    asked: str, local_rank: int = 0, environment: Mapping[str, str] = os.environ
) -> tuple[torch.device, str]:
    """Return the device for `auto`, `cpu` or `cuda`, and a sentence that says why it is that one.

    Raises SettingsError where a GPU was asked for or given and PyTorch does not see it.
    """
    if asked == "cpu":
        return torch.device("cpu"), "CPU, as --device cpu asks"
    if asked == "auto" and simulated(environment):
        return torch.device("cpu"), "CPU: the GPUs of this run are simulated"
    if asked == "auto" and environment.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true"):
        return torch.device("cpu"), "CPU, as accelerate launch --cpu asks"
    given, variable = gpus_given(environment)
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if visible == 0:
        reason = (
            f"; {why_no_gpu(environment)}; or ask for --device cpu"
            if given or asked == "cuda"
            else ""
        )
        trouble = SettingsError if local_rank == 0 else SharedError
        if given:
            raise trouble(f"{given} GPU(s) given ({variable}), but PyTorch sees none{reason}")
        if asked == "cuda":
            raise trouble(f"--device cuda: PyTorch sees no GPU here{reason}")
        return torch.device("cpu"), "CPU: no GPU was given and PyTorch sees none"
    if local_rank >= visible:
        raise SettingsError(
            f"process {local_rank} of this host has no GPU of its own: PyTorch sees {visible};"
            f" start {visible} process(es) or give the run more GPUs"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    short = f", of {given} given only {visible} seen" if given > visible else ""
    return device, f"GPU {local_rank} of {visible} that PyTorch sees{short}"


def describe_device(device: torch.device) -> str:
    """Return a device's name as a user knows it, with memory or threads."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    return f"CPU, {torch.get_num_threads()} threads"


def peak_memory(device: torch.device) -> int:
    """Return the most bytes held so far: of a GPU's memory, or this process's resident memory.

    Of a GPU's, what was asked of the driver for tensors; nvidia-smi shows this and the context.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_reserved(device))
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    # ru_maxrss counts KiB on Linux and bytes on macOS.
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
