"""What there is to say about one GPU, for both front ends: its label, its troubles, its processes."""

from collections.abc import Sequence

from runners.model.gpus import GpuProcess, GpuSnapshot
from tui.format import DASH, memory

_SHORT = {
    "thermal (hardware)": "heat",
    "thermal (software)": "heat",
    "hardware slowdown": "slowed",
    "power brake": "brake",
    "power cap": "cap",
}
"""Reasons that cost speed under load, in a word; those a person has set are told in the detail only."""


def instance_number(gpu: GpuSnapshot, gpus: Sequence[GpuSnapshot]) -> int | None:
    """Which MIG instance of its GPU this row is, from 0; None for a whole GPU."""
    if gpu.mig_parent is None:
        return None
    return [other.uuid for other in gpus if other.mig_parent == gpu.mig_parent].index(gpu.uuid)


def instances_of(gpu: GpuSnapshot, gpus: Sequence[GpuSnapshot]) -> int:
    """How many MIG instances a GPU is cut into."""
    return sum(other.mig_parent == gpu.uuid for other in gpus)


def gpu_label(gpu: GpuSnapshot, gpus: Sequence[GpuSnapshot]) -> str:
    """`GPU 7`, or `GPU 7 MIG 0`."""
    number = instance_number(gpu, gpus)
    return f"GPU {gpu.index}" + ("" if number is None else f" MIG {number}")


def trouble(gpu: GpuSnapshot) -> str:
    """Throttling and memory errors as sign and word, `▼heat ⚠ECC 3`; empty when there is none."""
    words = dict.fromkeys(f"▼{_SHORT[reason]}" for reason in gpu.throttle if reason in _SHORT)
    return " ".join([*words, *([f"⚠ECC {gpu.ecc_errors}"] if gpu.ecc_errors else [])])


def process_words(process: GpuProcess) -> str:
    """`pid 4711 eve 18.0G python train.py`; a process of another namespace is `outside`."""
    who = "outside" if process.outside else process.user or DASH
    parts = [f"pid {process.pid}", who, memory(process.memory_used), process.command or ""]
    return " ".join(part for part in parts if part)
