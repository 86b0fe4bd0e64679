"""One run with everything there is to say about it: status, progress, metrics, checkpoint, cost."""

import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from runners.cost.meter import projected_cost, run_cost, run_rate
from runners.gpus.usage import read_usage
from runners.host.clock import moment_now
from runners.model.gpus import GpuUse
from runners.model.run import Checkpoint, Progress, Run
from runners.watch.metrics.alerts import Alert
from runners.watch.metrics.checkpoints import newest_checkpoint
from runners.watch.metrics.live import LiveReport


class RunView(msgspec.Struct, frozen=True):
    """What both front ends show of a run at one moment; money in dollars, None when no price is
    known.
    """

    run: Run
    progress: Progress
    metrics: dict[str, float | int | None]
    summary: dict[str, float | int | None]
    trend: tuple[float, ...]
    checkpoint: Checkpoint | None
    images: tuple[str, ...]
    seconds: float | None
    rate: Decimal | None
    cost: Decimal | None
    projected: Decimal | None
    usage: tuple[GpuUse, ...] = ()
    headline: str | None = None
    readers: tuple[str, ...] = ()
    skipped: int = 0
    alerts: tuple[Alert, ...] = ()

    @property
    def loss(self) -> float | int | None:
        """The one number that tells how well it goes, by the name in `headline`."""
        return None if self.headline is None else self.metrics.get(self.headline)


def view_run(
    run: Run,
    report: LiveReport | None = None,
    now: float | None = None,
    thorough: bool = False,
    brief: bool = False,
) -> RunView:
    """The overview of `run`; a kept report makes looking again cheap.

    Output is read of live runs that tell no events; of ended ones too by a `thorough` look, of
    none by a `brief` one.
    """
    now = time.time() if now is None else now
    # A run that was started by the boot's own time is counted by it: a changed clock makes no
    # money.
    at = moment_now() if run.begin is not None and run.begin.boot_ns is not None else now
    report = report or LiveReport(run)
    report.poll(run, thorough, brief)
    events, course = report.events, report.course
    progress = course.progress(now)
    if not run.is_live:
        progress = msgspec.structs.replace(progress, eta_s=None)
    return RunView(
        run=run,
        progress=progress,
        metrics=dict(course.metrics),
        summary=dict(events.summary),
        trend=tuple(course.trend),
        checkpoint=newest_checkpoint(run.plan.checkpoints) if run.plan else None,
        images=tuple(events.images[-1:]),
        seconds=run.seconds(at),
        rate=run_rate(run),
        cost=run_cost(run, at),
        projected=projected_cost(run, progress.eta_s, at),
        usage=read_usage(Path(run.directory)) if run.plan and run.plan.gpus else (),
        headline=course.headline,
        readers=report.readers,
        skipped=report.skipped,
        alerts=report.alerts.alerts,
    )


def to_json(view: RunView) -> dict[str, Any]:
    """The documented JSON of a run: times in ISO 8601 UTC, money in dollars, unknown is null."""
    run, plan = view.run, view.run.plan
    return {
        "id": run.id,
        "preset": run.preset,
        "name": run.name,
        "group": plan.group or None if plan else None,
        "state": str(run.state),
        "reason": run.reason or None,
        "attempt": run.record.attempt if run.record else None,
        "gpus": [gpu.index for gpu in plan.gpus] if plan else [],
        "gpu_uuids": [gpu.uuid for gpu in plan.gpus] if plan else [],
        "simulated": any(gpu.simulated for gpu in plan.gpus) if plan else False,
        "usage": [
            {
                "index": use.index,
                "uuid": use.uuid,
                "logical": use.logical,
                "peak_memory": use.peak_memory,
                "memory_total": use.memory_total,
                "whole_gpu": use.whole_gpu,
                "mean_utilization": use.mean_utilization,
                "energy_wh": use.energy_wh,
                "peak_temperature_c": use.peak_temperature_c,
                "seconds": use.seconds,
                "shared": use.shared,
                "simulated": use.simulated,
                "xids": [
                    {"code": xid.code, "time": iso(xid.time), "meaning": xid.meaning}
                    for xid in use.xids
                ],
            }
            for use in view.usage
        ],
        "created": iso(run.created),
        "started": iso(run.started),
        "ended": iso(run.ended),
        "seconds": None if view.seconds is None else round(view.seconds, 3),
        "exit_code": run.exit_code,
        "cost_usd": None if view.cost is None else float(round(view.cost, 6)),
        "usd_per_hour": None if view.rate is None else float(view.rate),
        "price_basis": plan.price.basis if plan and plan.price else None,
        "checkpoint": None
        if view.checkpoint is None
        else {
            "path": view.checkpoint.path,
            "bytes": view.checkpoint.bytes,
            "modified": iso(view.checkpoint.modified),
        },
        "alerts": [{"time": iso(alert.time), "text": alert.text} for alert in view.alerts],
        "metrics": view.metrics,
        "metrics_read_as": list(view.readers) or None,
        "progress": msgspec.to_builtins(view.progress),
        "stop": msgspec.to_builtins(run.record.stop) if run.record and run.record.stop else None,
        "host": run.record.host if run.record else None,
        "directory": run.directory,
    }


def iso(moment: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC."""
    return (
        None
        if moment is None
        else datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    )
