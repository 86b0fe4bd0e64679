"""Leases: which GPU is in use by which run. Derived from held locks, never stored."""

from pathlib import Path

import msgspec

from runners.host.locks import is_held
from runners.host.procfs import marked_processes
from runners.state.layout import RunDirectory, StateDirectory


class Lease(msgspec.Struct, frozen=True):
    """One GPU held by one run; `logical` is the device index the run's program sees."""

    uuid: str
    run: str
    logical: int
    preset: str
    since: float = 0.0
    share_memory: int | None = None


class _PlannedGpu(msgspec.Struct):
    uuid: str
    logical: int
    share_memory: int | None = None


class _Origin(msgspec.Struct):
    created: float = 0.0


class _PlanOutline(msgspec.Struct):
    preset: str
    origin: _Origin = msgspec.field(default_factory=_Origin)
    gpus: list[_PlannedGpu] = []


_outline = msgspec.json.Decoder(_PlanOutline)


def live_run_ids(state: StateDirectory) -> list[str]:
    """Ids of the runs whose ending is not recorded yet, oldest first."""
    try:
        return sorted(
            entry.name for entry in Path(state.live).iterdir() if not entry.name.startswith(".")
        )
    except FileNotFoundError:
        return []


def holds_gpus(run: RunDirectory) -> bool:
    """True while the run's lock is held, or while any process with its mark is alive.

    A grandchild may not have inherited the lock's descriptor: torchrun closes it for its ranks.
    """
    return is_held(run.run_lock) or bool(marked_processes(run.id))


def held_leases(state: StateDirectory) -> dict[str, list[Lease]]:
    """All leases of this host by GPU UUID; a GPU that nobody holds has no entry."""
    leases: dict[str, list[Lease]] = {}
    for run_id in live_run_ids(state):
        run = state.run(run_id)
        try:
            plan = _outline.decode(run.plan.read_bytes())
        except (OSError, msgspec.DecodeError):
            continue
        if plan.gpus and holds_gpus(run):
            for gpu in plan.gpus:
                lease = Lease(
                    gpu.uuid,
                    run_id,
                    gpu.logical,
                    plan.preset,
                    plan.origin.created,
                    gpu.share_memory,
                )
                leases.setdefault(gpu.uuid, []).append(lease)
    return leases
