"""One GPU for both front ends: its label, its troubles, its processes."""

import time
from collections.abc import Sequence

from runners.model.gpus import GpuProcess, GpuSnapshot, HostSnapshot, Xid
from tui.views.format import DASH, memory

_SHORT = {
    "thermal (hardware)": "heat",
    "thermal (software)": "heat",
    "hardware slowdown": "slowed",
    "power brake": "brake",
    "power cap": "cap",
}
"""Reasons that cost speed under load, in a word; those a person has set are told in the detail
only.
"""
_STEP = 10
"""Percent of the CPU that are worth a repaint."""
_RECENT_S = 3600.0
"""How long an Xid is told beside the GPU; its details and its run tell it for good."""


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


def trouble(gpu: GpuSnapshot, room: int = 1000) -> str:
    """Throttling and errors as sign and word: `▼heat ⚠ECC 3 ⚠Xid 79: fell off the bus`.

    What does not fit into `room` cells is cut off, but never an Xid's number: it comes first then.
    """
    signs = list(dict.fromkeys(f"▼{_SHORT[reason]}" for reason in gpu.throttle if reason in _SHORT))
    signs += [f"⚠ECC {gpu.ecc_errors}"] if gpu.ecc_errors else []
    if gpu.xid is not None and time.time() - gpu.xid.time < _RECENT_S:
        if len(" ".join([*signs, f"⚠Xid {gpu.xid.code}"])) <= room:
            signs.append(f"⚠{xid_text(gpu.xid)}")
        else:
            signs.insert(0, f"⚠X{gpu.xid.code}")
    return " ".join(signs)


def xid_text(xid: Xid) -> str:
    """`Xid 79: fell off the bus`."""
    return f"Xid {xid.code}: {xid.meaning.partition(':')[0]}"


def strangers(gpu: GpuSnapshot, held: bool) -> list[GpuProcess]:
    """Processes of no run; one from outside on a GPU that a run holds may well be that run's."""
    return [
        p for p in gpu.processes if p.run is None and not gpu.simulated and not (held and p.outside)
    ]


def process_text(process: GpuProcess) -> str:
    """`pid 4711 eve 18.0G python train.py`; a process of another namespace is `outside`."""
    who = "outside" if process.outside else process.user or DASH
    parts = [f"pid {process.pid}", who, memory(process.memory_used), process.command or ""]
    return " ".join(part for part in parts if part)


def host_text(host: HostSnapshot, room: int) -> str | None:
    """The host in so many cells: `CPU ~30% of 64 · memory 23% of 196G · 76.1 GB free`, or None.

    In coarse steps: it is read now and then, and every change is painted.
    """
    cpu = None if host.cpu_percent is None else f"~{_STEP * round(host.cpu_percent / _STEP)}%"
    used = host.memory_used / host.memory_total if host.memory_used and host.memory_total else None
    part = None if used is None else f"{used:.0%}"
    disk = None if host.disk_free is None else f"{host.disk_free / 1e9:,.0f} GB"
    of = f" of {host.cpu_count}" if host.cpu_count else ""
    long = [
        f"CPU {cpu}{of}" if cpu else "",
        f"memory {part} of {memory(host.memory_total)}" if part else "",
        f"disk {disk} free" if disk else "",
    ]
    short = [
        f"CPU {cpu}" if cpu else "",
        f"mem {part}" if part else "",
        f"disk {disk}" if disk else "",
    ]
    for parts in (long, short, short[:2], short[:1]):
        text = " · ".join(filter(None, parts))
        if text and len(text) <= room:
            return text
    return None
