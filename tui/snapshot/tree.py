"""A panel's snapshot as it is told to another machine: what a person sees, in steps that one sees.

What only grows with time, and what trembles, is rounded: an idle machine says nothing.
"""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeVar

import msgspec

from runners.host.clock import moment_now
from runners.model.gpus import GpuSnapshot
from runners.places.ssh.snapshot import RemoteGpu, RemoteRun, RemoteSnapshot
from tui.snapshot.feed import PanelSnapshot
from tui.views.money.guard_text import guard_text
from tui.views.runs.run_row import remark_of
from tui.views.runs.run_view import RunView

_CENT = Decimal("0.01")
_MEMORY = 64 << 20
_DISK = 1 << 30
_LONGEST = 400

Number = TypeVar("Number", int, float)


def snapshot_to_tree(snapshot: PanelSnapshot) -> dict[str, Any]:
    """The snapshot as nested dicts, runs and GPUs by their ids: ready to be compared."""
    tree: dict[str, Any] = msgspec.to_builtins(told(snapshot))
    return tree


def told(snapshot: PanelSnapshot) -> RemoteSnapshot:
    """The snapshot as it is told."""
    reading, meter = snapshot.reading, snapshot.meter
    cpu = reading.cpu if reading is not None else None
    guard = snapshot.guard
    return RemoteSnapshot(
        host=snapshot.host,
        runs={view.run.id: told_run(view) for view in snapshot.runs},
        order=tuple(view.run.id for view in snapshot.runs),
        gpus={gpu.uuid: _gpu(gpu, snapshot) for gpu in reading.gpus} if reading else {},
        gpu_problem=reading.problem if reading else None,
        cpu_percent=_step(cpu.cpu_percent, 10.0) if cpu else None,
        memory_used=_step(cpu.memory_used, 16 * _MEMORY) if cpu else None,
        memory_total=cpu.memory_total if cpu else None,
        disk_free=_step(cpu.disk_free, _DISK) if cpu else None,
        per_hour=_dollars(meter.per_hour),
        spent=_dollars(meter.session if meter.session is not None else meter.live_runs),
        idle=_dollars(meter.idle),
        budget_left=_dollars(meter.budget_left),
        guard=guard_text(guard, moment_now()) if guard is not None and guard.is_urgent else "",
        problem=snapshot.problem,
        hidden=snapshot.hidden,
    )


def told_run(view: RunView) -> RemoteRun:
    """A run as it is told."""
    run, progress = view.run, view.progress
    remark, urgent = remark_of(view)
    return RemoteRun(
        id=run.id,
        name=run.name,
        preset=run.preset,
        state=str(run.state),
        live=run.is_live,
        reason=run.reason,
        gpus=tuple(gpu.index for gpu in run.plan.gpus) if run.plan else (),
        created=run.created,
        started=run.started,
        ended=run.ended,
        fraction=None if progress.fraction is None else round(progress.fraction, 3),
        eta_s=_step(progress.eta_s, 10.0),
        epoch=progress.epoch,
        epochs=progress.epochs,
        headline=view.headline,
        value=view.loss,
        trend=tuple(float(f"{value:.3g}") for value in view.trend[-12:]),
        cost=_dollars(view.money.cost),
        checkpoint=view.checkpoint.path.rpartition("/")[2] if view.checkpoint else None,
        alert=view.alerts[-1].text if view.alerts else None,
        asks=view.asks,
        remark=remark[:_LONGEST],
        urgent=urgent,
        best=_best(view),
        group=run.plan.spec.group if run.plan else "",
        tags=run.labels.tags,
        note=run.labels.note[:_LONGEST],
        starred=run.labels.starred,
        phase=(progress.phase or "") if run.is_live else "",
        exit_code=run.exit_code,
    )


def _best(view: RunView) -> float | None:
    if view.headline in view.final:
        return view.final[view.headline].best
    return view.best_so_far.get(view.headline or "", (None, None))[0]


def _gpu(gpu: GpuSnapshot, snapshot: PanelSnapshot) -> RemoteGpu:
    return RemoteGpu(
        index=gpu.index,
        name=gpu.name,
        utilization=_step(gpu.utilization, 1.0),
        memory_used=_step(gpu.memory_used, _MEMORY),
        memory_total=gpu.memory_total,
        temperature_c=_step(gpu.temperature_c, 2.0),
        power_w=_step(gpu.power_w, 10.0),
        simulated=gpu.simulated,
        error=gpu.error,
        runs=tuple(lease.run for lease in snapshot.leases.get(gpu.uuid, ())),
    )


def _step(value: Number | None, step: Number) -> Number | None:
    return None if value is None else type(value)(round(value / step) * step)


def _dollars(amount: Decimal | None) -> str | None:
    return None if amount is None else str(amount.quantize(_CENT, ROUND_HALF_UP))
