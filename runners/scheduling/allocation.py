"""GpuRequest → Allocation, Busy or Denied: a refusal is a value that says why and who is there."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from runners.gpus.cards import CardPart, part_of
from runners.host.clock import time_of_day
from runners.model.gpus import UNREAD, GpuReading, GpuSnapshot
from runners.model.plan import AssignedGpu
from runners.model.spec import GpuRequest
from runners.model.units import gib_text, gpus_text, indices
from runners.state.leases import Lease

# Drivers and display servers alone take some hundred MiB; containers hide the pids of others.
_USED_BY_NOBODY_SEEN = 2 << 30
"""Bytes in use on a GPU without a lease or visible process above which somebody computes there."""


class Allocation(msgspec.Struct, frozen=True):
    """The GPUs given, in the order the program will number them; none: the run uses the CPU."""

    gpus: tuple[GpuSnapshot, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple[CardPart, ...] = ()
    """Which part of which card each is, in the order of `gpus` or `awaited`; empty: all whole."""
    awaited: tuple[GpuSnapshot, ...] = ()
    """For a run that waits: GPUs such as it will be given, of which none is its own yet."""
    asked: int = 0
    """For a run that waits or is denied: how many GPUs it asks for."""

    def assigned(self, share_memory: int | None) -> tuple[AssignedGpu, ...]:
        """The GPUs as a plan records them, each with the number that the program sees."""
        return tuple(
            AssignedGpu(
                gpu.index,
                gpu.uuid,
                gpu.name,
                i,
                gpu.simulated,
                share_memory,
                gpu.vendor,
                gpu.mig_parent,
                *(self.parts[i] if self.parts else CardPart(gpu.uuid)),
            )
            for i, gpu in enumerate(self.gpus)
        )

    def expected(self, share_memory: int | None) -> tuple[AssignedGpu, ...]:
        """As `assigned`; of a run that waits, the GPUs that it should be given."""
        gpus = self.gpus or self.awaited
        return msgspec.structs.replace(self, gpus=gpus).assigned(share_memory)


class Busy(msgspec.Struct, frozen=True):
    """Why a request cannot be met now, and what to do about it; waiting may help."""

    reason: str
    hint: str = ""


class Denied(msgspec.Struct, frozen=True):
    """Why a request can never be met on this machine, and what to ask for instead."""

    reason: str
    hint: str = ""
    place: int = 0


def allocate(
    request: GpuRequest,
    reading: GpuReading | None,
    leases: Mapping[str, Sequence[Lease]],
    reserved: Collection[str] = (),
) -> Allocation | Busy | Denied:
    """Choose GPUs for `request`, by leases first, then free memory, then other users' processes.

    GPUs in `reserved` (UUIDs) are kept for runs that come before this one in the queue.
    """
    if not request.wants_gpus:
        return Allocation()
    if reading is None or not reading.gpus:
        return _without_gpus(request, reading)
    usable = usable_gpus(reading.gpus)
    if request.ids:
        chosen = _named(request, reading.gpus)
        if isinstance(chosen, Denied):
            return chosen
    else:
        chosen = [gpu for gpu in usable if request.model.lower() in gpu.name.lower()]
        if request.model and not chosen:
            names = ", ".join(sorted({gpu.name for gpu in usable}))
            return Denied(f"no GPU here is a {request.model}", f"this machine has {names}")
    # Named GPUs are all taken or none: the person who names them means those.
    wanted = len(chosen) if request.all or request.ids else request.number
    if wanted > len(chosen):
        return Denied(
            f"{gpus_text(wanted, request.model)} asked for, but this machine has {len(chosen)}",
            f"ask for at most {len(chosen)}, or --gpus 0 for the CPU",
        )
    able = [gpu for gpu in chosen if not _is_too_small(request, gpu)]
    if wanted > len(able):
        needed = gib_text(_memory_needed(request))
        return Denied(
            f"{gpus_text(wanted, request.model)} with {needed} of VRAM asked for, but this machine "
            f"has {len(able)}",
            "ask for less of it: gpus.memory, or gpus.share.memory",
        )
    free = [gpu for gpu in chosen if _unavailable_reason(request, gpu, leases, reserved) is None]
    if len(free) >= wanted:
        taken = tuple(chosen_of(request, free, wanted))
        return Allocation(taken, parts=tuple(part_of(gpu, reading.gpus) for gpu in taken))
    obstacles = _unavailable_reasons(request, chosen, leases, reserved)
    if request.ids:
        return Busy(obstacles, "wait, stop what holds it, or choose other GPUs with --gpu-ids")
    return Busy(
        f"{gpus_text(wanted)} asked for, {len(free)} of {len(chosen)} free: {obstacles}",
        "wait for them, stop what holds them, or ask for fewer with --gpus",
    )


def awaited(request: GpuRequest, reading: GpuReading | None) -> Allocation:
    """What a run that waits will be given: the GPUs it names, else as many as it asks for."""
    could, all_gpus = claimable_gpus(request, reading), reading.gpus if reading else ()
    gpus = [gpu for gpu in usable_gpus(all_gpus) if gpu.uuid in could]
    wanted = len(gpus) if request.ids or request.all else request.number
    chosen = tuple(chosen_of(request, gpus, wanted))
    parts = tuple(part_of(gpu, all_gpus) for gpu in chosen)
    return Allocation(parts=parts, awaited=chosen, asked=len(request.ids) or request.number)


def chosen_of(
    request: GpuRequest, gpus: Sequence[GpuSnapshot], number: int
) -> Sequence[GpuSnapshot]:
    """The first `number` of GPUs that suit a request, or the last where it asks for those."""
    return gpus[max(0, len(gpus) - number) :] if request.last else gpus[:number]


def obstacle(
    gpu: GpuSnapshot, gpus: Sequence[GpuSnapshot], holders: Sequence[Lease] = ()
) -> str | None:
    """Why a launch that asks for one GPU would not be given this one now; None when it would."""
    if any(other.mig_parent == gpu.uuid for other in gpus):
        return "cut into MIG instances: programs are given those"
    return _unavailable_reason(GpuRequest(count=1), gpu, {gpu.uuid: holders}, ())


def free_gpus(
    gpus: Sequence[GpuSnapshot], leases: Mapping[str, Sequence[Lease]]
) -> list[GpuSnapshot]:
    """Those that a launch which asks for one GPU could be given now."""
    return [gpu for gpu in gpus if obstacle(gpu, gpus, leases.get(gpu.uuid, ())) is None]


def idle(reading: GpuReading) -> GpuReading:
    """The same machine with nobody on it, and every GPU of it in order."""
    gpus = tuple(
        msgspec.structs.replace(
            gpu, processes=(), memory_used=0, error=None, detail=None, unread=None, claimed=None
        )
        for gpu in reading.gpus
    )
    return msgspec.structs.replace(reading, gpus=gpus)


def claimable_gpus(request: GpuRequest, reading: GpuReading | None) -> set[str]:
    """UUIDs of the GPUs that a waiting run may yet get: those it names, or all it could use."""
    gpus = reading.gpus if reading else ()
    if request.ids:
        named = set(request.ids)
        return {gpu.uuid for gpu in gpus if named & {str(gpu.index), gpu.uuid}}
    model = request.model.lower()
    return {
        gpu.uuid
        for gpu in gpus
        if request.wants_gpus and model in gpu.name.lower() and not _is_too_small(request, gpu)
    }


def _without_gpus(request: GpuRequest, reading: GpuReading | None) -> Allocation | Busy | Denied:
    problem = (reading.problem if reading else None) or "this machine has no GPU"
    if reading is not None and reading.backend == UNREAD:
        # Unknown is not none: a slow driver must not send a run to the CPU.
        return Busy(problem, "--gpus 0 runs it on the CPU")
    if request.required or request.explicit:
        named = f"GPU {','.join(request.ids)}" if request.ids else gpus_text(request.number)
        requested = "all GPUs" if request.all else named
        return Denied(f"{requested} asked for, but {problem}", "--gpus 0 runs it on the CPU")
    return Allocation(notes=(f"runs on the CPU: {problem}",))


def _named(request: GpuRequest, gpus: Sequence[GpuSnapshot]) -> list[GpuSnapshot] | Denied:
    # MIG instances have their card's index, so an index names the card; an instance goes by UUID.
    by_name = {str(gpu.index): gpu for gpu in gpus if gpu.mig_parent is None} | {
        gpu.uuid: gpu for gpu in gpus
    }
    unknown = [name for name in request.ids if name not in by_name]
    if unknown:
        known = indices({gpu.index for gpu in gpus})
        return Denied(f"no GPU {', '.join(unknown)} on this machine", f"it has GPU {known}")
    chosen = [by_name[name] for name in request.ids]
    doubled = {gpu.index for gpu in chosen if chosen.count(gpu) > 1}
    if doubled:
        named = ", ".join(map(str, sorted(doubled)))
        return Denied(f"GPU {named} is named twice", "name each once, by index or by UUID")
    for gpu in chosen:
        instances = [other.uuid for other in gpus if other.mig_parent == gpu.uuid]
        if instances:
            return Denied(
                f"GPU {gpu.index} is cut into MIG instances", f"name one: {', '.join(instances)}"
            )
    return chosen


def usable_gpus(gpus: Sequence[GpuSnapshot]) -> list[GpuSnapshot]:
    """GPUs a program can be given: one that is cut into MIG instances is not, its instances are."""
    parents = {gpu.mig_parent for gpu in gpus}
    return [gpu for gpu in gpus if gpu.uuid not in parents]


def _unavailable_reasons(
    request: GpuRequest,
    gpus: Sequence[GpuSnapshot],
    leases: Mapping[str, Sequence[Lease]],
    reserved: Collection[str],
) -> str:
    """What is in the way, GPUs with the same obstacle named together; empty when nothing is."""
    by_reason: dict[str, list[int]] = {}
    for gpu in gpus:
        reason = _unavailable_reason(request, gpu, leases, reserved)
        if reason is not None:
            by_reason.setdefault(reason, []).append(gpu.index)
    return "; ".join(f"GPU {indices(where)} {reason}" for reason, where in by_reason.items())


def _unavailable_reason(
    request: GpuRequest,
    gpu: GpuSnapshot,
    leases: Mapping[str, Sequence[Lease]],
    reserved: Collection[str],
) -> str | None:
    # A driver that hangs keeps its last answer: it says nothing of who is there now.
    if gpu.unread:
        return gpu.unread
    if gpu.error:
        return gpu.error
    if gpu.detail is not None and gpu.detail.compute_mode == "prohibited":
        return "allows no program to compute (nvidia-smi --compute-mode=0 allows it)"
    # Before memory and processes: of a GPU that runs of ours hold, both belong to those runs.
    holders = leases.get(gpu.uuid, ())
    conflict = _sharing_conflict(request, gpu, holders) if holders else None
    # One that could share may not either: who waits for the whole of it would never have it.
    if conflict is None and gpu.uuid in reserved:
        return "reserved for a run ahead of it in the queue"
    if holders:
        return conflict
    # A sharing run must find its share free; a request for whole GPUs has a minimum if it names it.
    others = None if request.foreign or gpu.simulated else _foreign(gpu)
    return _short_of_memory(request, gpu) or others


def _sharing_conflict(
    request: GpuRequest, gpu: GpuSnapshot, holders: Sequence[Lease]
) -> str | None:
    """Why `request` cannot share `gpu` with its holders; None when all share and it fits."""
    # One holder that did not agree to share is enough to refuse.
    shares = [lease.share_memory for lease in holders]
    if request.share_memory is not None and None not in shares and gpu.memory_total is not None:
        left = gpu.memory_total - sum(share or 0 for share in shares)
        if request.share_memory <= left:
            return None
        return (
            f"shared by {_runs(holders)}, which leaves {gib_text(left)} of VRAM, not "
            f"{gib_text(request.share_memory)}"
        )
    return f"held by {_runs(holders)}"


def _memory_needed(request: GpuRequest) -> int:
    """Bytes that must be free on each GPU of a request."""
    return max(request.memory or 0, request.share_memory or 0)


def _is_too_small(request: GpuRequest, gpu: GpuSnapshot) -> bool:
    """Whether a GPU has less memory in all than is asked for: waiting does not help."""
    return bool(gpu.memory_total) and _memory_needed(request) > (gpu.memory_total or 0)


def _short_of_memory(request: GpuRequest, gpu: GpuSnapshot) -> str | None:
    needed = _memory_needed(request)
    if not needed:
        return None
    # Missing is not zero: a GPU that hides its memory cannot be promised to hold the run.
    if gpu.memory_total is None or gpu.memory_used is None:
        return f"does not report its free memory ({gib_text(needed)} needed)"
    free = gpu.memory_total - gpu.memory_used
    return None if free >= needed else f"has {gib_text(free)} free, not {gib_text(needed)}"


def _foreign(gpu: GpuSnapshot) -> str | None:
    for process in gpu.processes:
        # A process of a run of ours without a lease is ending: its memory counts, not its owner.
        if process.run is None:
            who = f"user {process.user}" if process.user else "someone outside this container"
            return f"used by pid {process.pid} of {who}, not ours"
    if gpu.claimed:
        return f"held by a run of user {gpu.claimed}, not ours"
    if not gpu.processes and gpu.memory_used is not None and gpu.memory_used > _USED_BY_NOBODY_SEEN:
        return f"has {gib_text(gpu.memory_used)} in use by a process that is not visible here"
    return None


def _runs(holders: Sequence[Lease]) -> str:
    return ", ".join(
        lease.run + (f" since {time_of_day(lease.since)}" if lease.since else "")
        for lease in holders
    )
