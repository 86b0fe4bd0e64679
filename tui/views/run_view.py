"""One run with everything there is to say about it: status, progress, metrics, checkpoint, cost."""

import time
from datetime import datetime, timezone
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import msgspec

from runners.cost.run_costs import Costs, RunCost, costs_of, state_of
from runners.doctor.verdict import Diagnosis, NotKnown
from runners.doctor.verdict import to_json as diagnosis_json
from runners.gpus.usage import read_usage
from runners.host.clock import moment_now
from runners.host.files import read_json
from runners.model.gpus import GpuUse
from runners.model.health import Health
from runners.model.run import Checkpoint, Progress, Run
from runners.model.states import State
from runners.state.codec import read_waits
from runners.state.layout import TERMINAL_STATUS
from runners.watch.health.store import health_of
from runners.watch.metrics.alerts import Alert
from runners.watch.metrics.checkpoints import run_checkpoint
from runners.watch.metrics.final import FinalMetric, read_final
from runners.watch.metrics.live import LiveReport
from tui.views.diagnosis_text import diagnose_run

_MEAN_PACE_FROM_S = 10.0
_MICRO = Decimal("0.000001")


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
    money: RunCost = RunCost()
    usage: tuple[GpuUse, ...] = ()
    headline: str | None = None
    readers: tuple[str, ...] = ()
    skipped: int = 0
    alerts: tuple[Alert, ...] = ()
    final: dict[str, FinalMetric] = {}
    best_so_far: dict[str, tuple[float, int | None]] = {}
    """Of a live run all of whose output was read: each metric's best value, and its step."""
    epoch_s: float | None = None
    """Seconds that an epoch after the first takes; None while unknown."""
    asks: str | None = None
    """The prompt at which its terminal waits for somebody to type; None when it does not."""
    queue_place: int | None = None
    """From 1; None of a run that does not wait."""
    diagnosis: Diagnosis | NotKnown | None = None
    """Why it ended, by a thorough look at a run that failed, was stopped or lost; else None."""
    health: Health | None = None
    """How it is doing while it runs; None where nobody has judged it."""

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
    costs: Costs | None = None,
) -> RunView:
    """The overview of `run`; a kept report makes looking again cheap, and so do `costs` that were
    looked up for many runs at once.

    Output is read of live runs that tell no events; of ended ones too by a `thorough` look, of
    none by a `brief` one.
    """
    now = time.time() if now is None else now
    # A run that was started by the boot's own time is counted by it: a changed clock makes no
    # money.
    here = moment_now()
    at = here if run.begin is not None and run.begin.boot_ns is not None else now
    report = report or LiveReport(run)
    # Of an ended run the kept report tells more than a look at its output's end.
    report.poll(run, brief=brief or not run.is_live, thorough=thorough and run.is_live)
    events, course = report.events, report.course
    stated = (run.plan.total_epochs, run.plan.total_steps) if run.plan else (None, None)
    progress = course.progress(now, *stated)
    final = None
    if not run.is_live:
        progress = msgspec.structs.replace(progress, eta_s=None)
        final = read_final(run)
        if final is None and thorough and run.started is not None:
            from runners.watch.metrics.final_maker import keep_final  # all readers: not for `list`

            final = keep_final(run)
    if final is not None and final.metrics:
        progress = final.progress
    return RunView(
        run=run,
        progress=_with_eta(run, progress, run.seconds(at)),
        metrics=dict(report.metrics if final is None else final.last),
        summary=dict(events.summary),
        trend=tuple(course.trend) if final is None else final.trend,
        checkpoint=run_checkpoint(
            run, report.printed_paths if final is None else final.checkpoints
        ),
        images=tuple(events.images[-1:]),
        seconds=run.seconds(at),
        money=(costs or costs_of(state_of(run), [run], here)).of(
            run, progress.eta_s, progress.epoch
        ),
        usage=read_usage(Path(run.directory)) if run.plan and run.plan.gpus else (),
        headline=course.headline if final is None else final.headline,
        readers=report.readers if final is None else final.readers,
        skipped=report.skipped if final is None else 0,
        final={} if final is None else final.metrics,
        best_so_far=report.best(run) if run.is_live else {},
        alerts=report.alerts.alerts,
        epoch_s=events.epoch_clock.timing.seconds_per_epoch,
        asks=_prompt(run),
        diagnosis=diagnose_run(run) if thorough and not run.is_live else None,
        queue_place=_queue_place(run),
        health=health_of(run, now),
    )


def _queue_place(run: Run) -> int | None:
    if run.state is not State.QUEUED:
        return None
    waits = read_waits(state_of(run).run(run.id))
    return waits.place if waits else None


def _goes_on(run: Run) -> bool:
    again = run.record is not None and run.record.attempt > 1
    return again or (run.plan is not None and bool(run.plan.resumed_from))


def _with_eta(run: Run, progress: Progress, seconds: float | None) -> Progress:
    """Until its own pace is known, the time that is left is told by its mean pace since it began;
    of one that went on from a checkpoint, that would say nothing.
    """
    fraction = progress.fraction
    guessed = run.state is State.RUNNING and progress.eta_s is None and not _goes_on(run)
    if not guessed or not fraction or seconds is None or seconds < _MEAN_PACE_FROM_S:
        return progress
    return msgspec.structs.replace(progress, eta_s=seconds * (1 - fraction) / fraction)


def _prompt(run: Run) -> str | None:
    """What a run with a terminal of its own asks there, as its keeper has noted it."""
    if not run.is_live or run.plan is None or not run.plan.terminal:
        return None
    noted = read_json(Path(run.directory) / TERMINAL_STATUS)
    if noted is None or noted.get("waiting") is not True:
        return None
    from runners.watch.logs.render import plain  # only where somebody is asked

    return plain(str(noted.get("prompt", "")).encode()).strip()


def to_json(view: RunView) -> dict[str, Any]:
    """The documented JSON of a run: times in ISO 8601 UTC, money in dollars, unknown is null."""
    run, plan = view.run, view.run.plan
    return {
        "id": run.id,
        "preset": run.preset,
        "name": run.name,
        "tags": list(run.labels.tags),
        "note": run.labels.note or None,
        "starred": run.labels.starred,
        "group": plan.group or None if plan else None,
        "state": str(run.state),
        "reason": run.reason or None,
        "diagnosis": None if view.diagnosis is None else diagnosis_json(view.diagnosis),
        "error": _error_json(view),
        "health": _health_json(view.health),
        "waits_for_input": view.asks,
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
                "whole_gpu_memory": use.whole_gpu,
                "whole_gpu": use.whole_gpu,  # its name until 0.2
                "mean_utilization": use.mean_utilization,
                "energy_wh": use.energy_wh,
                "energy_counted_s": use.counted_s,
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
        "priority": plan.priority if plan else None,
        "queue_place": view.queue_place,
        "user": plan.origin.user if plan else None,
        "command": list(plan.argv) if plan else None,
        "working_directory": plan.working_directory if plan else None,
        "commit": plan.provenance.commit if plan else None,
        "branch": plan.provenance.branch if plan else None,
        "interpreter": plan.provenance.interpreter if plan else None,
        "python": plan.provenance.python if plan else None,
        "torch": plan.provenance.torch if plan else None,
        "parent": plan.parent or None if plan else None,
        "resumed_from": plan.resumed_from or None if plan else None,
        "created": iso(run.created),
        "started": iso(run.started),
        "ended": iso(run.ended),
        "seconds": None if view.seconds is None else round(view.seconds, 3),
        "exit_code": run.exit_code,
        **money_json(view.money),
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
        "best": _best_json(view),
        "metric_readers": list(view.readers) or None,
        "metrics_read_as": list(view.readers) or None,  # its name until 0.2
        "progress": msgspec.to_builtins(view.progress),
        "stop": msgspec.to_builtins(run.record.stop) if run.record and run.record.stop else None,
        "host": run.record.host if run.record else None,
        "directory": run.directory,
    }


def _best_json(view: RunView) -> dict[str, Any]:
    if view.best_so_far:
        source = "output" if view.readers else "events"
        return {
            name: {"value": value, "step": step, "source": source}
            for name, (value, step) in view.best_so_far.items()
        }
    return {
        name: {"value": one.best, "step": one.best_step, "source": one.source}
        for name, one in view.final.items()
        if one.best is not None
    }


def _error_json(view: RunView) -> dict[str, Any] | None:
    """The line that tells why it ended, and its number in the log."""
    if view.diagnosis is None or not view.diagnosis.line:
        return None
    from tui.views.error_place import error_line  # it reads the log

    line = view.diagnosis.line
    return {"text": line, "line": error_line(view.run.directory, line)}


def _health_json(health: Health | None) -> dict[str, Any] | None:
    if health is None:
        return None
    value: dict[str, Any] = msgspec.to_builtins(health)
    return {**value, "since": iso(health.since), "time": iso(health.time)}


def money_json(money: RunCost) -> dict[str, Any]:
    """A run's money in JSON, the same for every command: dollars to six places."""
    return {
        "cost_usd": number(money.cost),
        "share_usd": number(money.share),
        "gpu_hours": number(money.gpu_hours),
        "usd_per_hour": number(money.rate),
        "usd_per_epoch": number(money.per_epoch),
        "projected_usd": number(money.projected),
        "projection_basis": None if money.basis is None else money.basis.value,
    }


def number(amount: Decimal | None) -> float | None:
    """A decimal number in JSON: six places."""
    return None if amount is None else float(amount.quantize(_MICRO, ROUND_HALF_UP))


def iso(moment: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC."""
    return (
        None
        if moment is None
        else datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")
    )
