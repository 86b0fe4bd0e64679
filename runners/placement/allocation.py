"""GpuRequest → Allocation or Denied: a refusal is a value that says why and who holds them."""

from collections.abc import Mapping, Sequence

import msgspec

from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.spec import GpuRequest
from runners.placement.leases import Lease


class Allocation(msgspec.Struct, frozen=True):
    """The GPUs given, in the order the program will number them; none means the run uses the CPU."""

    gpus: tuple[GpuSnapshot, ...] = ()
    notes: tuple[str, ...] = ()


class Denied(msgspec.Struct, frozen=True):
    """Why a wish cannot be met now, and what to do about it."""

    reason: str
    hint: str = ""


def allocate(
    request: GpuRequest, reading: GpuReading | None, leases: Mapping[str, Sequence[Lease]]
) -> Allocation | Denied:
    """Choose GPUs for `request`: own leases first, then whether somebody else computes on them."""
    if not request.wants_gpus:
        return Allocation()
    if reading is None or not reading.gpus:
        return _without_gpus(request, reading)
    if request.ids:
        return _named(request, reading.gpus, leases)
    usable = _usable(reading.gpus)
    free = [gpu for gpu in usable if _obstacle(gpu, leases) is None]
    wanted = len(usable) if request.all else request.count
    if wanted > len(usable):
        return Denied(
            f"{_gpus(wanted)} asked for, but this machine has {len(usable)}",
            f"ask for at most {len(usable)}, or --gpus 0 for the CPU",
        )
    if len(free) < wanted:
        return Denied(
            f"{_gpus(wanted)} asked for, {len(free)} of {len(usable)} free: {_obstacles(usable, leases)}",
            "wait for them, stop what holds them, or ask for fewer with --gpus",
        )
    return Allocation(tuple(free[:wanted]))


def _without_gpus(request: GpuRequest, reading: GpuReading | None) -> Allocation | Denied:
    problem = (reading.problem if reading else None) or "this machine has no GPU"
    if request.required or request.explicit:
        wish = f"GPU {','.join(request.ids)}" if request.ids else "all GPUs" if request.all else _gpus(request.count)
        return Denied(f"{wish} asked for, but {problem}", "--gpus 0 runs it on the CPU")
    return Allocation(notes=(f"runs on the CPU: {problem}",))


def _named(
    request: GpuRequest, gpus: Sequence[GpuSnapshot], leases: Mapping[str, Sequence[Lease]]
) -> Allocation | Denied:
    by_name = {str(gpu.index): gpu for gpu in gpus if gpu.mig_parent is None} | {gpu.uuid: gpu for gpu in gpus}
    unknown = [name for name in request.ids if name not in by_name]
    if unknown:
        indices = ", ".join(str(gpu.index) for gpu in gpus)
        return Denied(f"no GPU {', '.join(unknown)} on this machine", f"it has GPU {indices}")
    chosen = [by_name[name] for name in request.ids]
    obstacles = _obstacles(chosen, leases)
    if obstacles:
        return Denied(obstacles, "wait, stop what holds it, or choose other GPUs with --gpu-ids")
    return Allocation(tuple(chosen))


def _usable(gpus: Sequence[GpuSnapshot]) -> list[GpuSnapshot]:
    """GPUs a program can be given: one that is cut into MIG instances is not, its instances are."""
    parents = {gpu.mig_parent for gpu in gpus}
    return [gpu for gpu in gpus if gpu.uuid not in parents]


def _obstacles(gpus: Sequence[GpuSnapshot], leases: Mapping[str, Sequence[Lease]]) -> str:
    """What is in the way, GPUs with the same obstacle named together; empty when nothing is."""
    by_reason: dict[str, list[int]] = {}
    for gpu in gpus:
        reason = _obstacle(gpu, leases)
        if reason is not None:
            by_reason.setdefault(reason, []).append(gpu.index)
    return "; ".join(f"GPU {','.join(map(str, where))} {reason}" for reason, where in by_reason.items())


def _obstacle(gpu: GpuSnapshot, leases: Mapping[str, Sequence[Lease]]) -> str | None:
    if gpu.error:
        return gpu.error
    holders = leases.get(gpu.uuid)
    if holders:
        return f"held by {', '.join(lease.run for lease in holders)}"
    for process in gpu.processes:
        if process.run is None and not gpu.simulated:
            who = f"user {process.user}" if process.user else "somebody outside this container"
            return f"used by pid {process.pid} of {who}, not ours"
    return None


def _gpus(count: int) -> str:
    return f"{count} GPU" + ("" if count == 1 else "s")
