"""The documented JSON of a run, a subject at a time."""

from typing import Any

import msgspec

from runners.cost.run_costs import RunCost
from runners.diagnosis.verdict import to_json as diagnosis_json
from runners.model.endings import Ending
from runners.model.gpus import GpuUse
from runners.model.health import Health
from runners.model.plan import LaunchPlan, Provenance
from runners.model.run import Checkpoint, Pause, Run
from runners.state.runs import job_of
from runners.watch.metrics.judging import best_metric, higher, validation_metric
from runners.watch.metrics.sample import not_finite as odd
from tui.views.json_values import fields_json, iso, number
from tui.views.runs.run_view import RunView


def to_json(view: RunView) -> dict[str, Any]:
    """The documented JSON of a run: times in ISO 8601 UTC, money in dollars, unknown is null."""
    run, plan = view.run, view.run.plan
    return {
        "id": run.id,
        "preset": run.preset,
        "name": run.name,
        **fields_json(run.labels, "tags", "note", "starred"),
        "group": plan.spec.group or None if plan else None,
        **_state_json(view),
        **_gpus_json(view),
        "priority": plan.spec.priority if plan else None,
        "queue_place": view.queue_place,
        **_program_json(plan),
        **_course_json(view),
        **money_json(view.money),
        **_would_json(view.money.would),
        "price_basis": plan.price.basis if plan and plan.price else None,
        "checkpoint": _checkpoint_json(view.checkpoint),
        "alerts": [{"time": iso(alert.time), "text": alert.text} for alert in view.alerts],
        **_metrics_json(view),
        "stop": msgspec.to_builtins(run.record.stop) if run.record and run.record.stop else None,
        "host": run.record.host if run.record else None,
        "job": job_of(run) or None,
        "directory": run.directory,
    }


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


def _would_json(would: RunCost | None) -> dict[str, Any]:
    """What its time outside all sessions would cost at its own price: part of no sum."""
    return {
        "would_usd": None if would is None else number(would.cost),
        "would_usd_per_hour": None if would is None else number(would.rate),
    }


def _state_json(view: RunView) -> dict[str, Any]:
    run = view.run
    return {
        "state": str(run.state),
        "reason": run.reason or None,
        "ending": _ending_json(run.ending),
        "diagnosis": None if view.diagnosis is None else diagnosis_json(view.diagnosis),
        "error": _error_json(view),
        "health": _health_json(view.health),
        "problem": view.problem or None,
        "waits_for_input": view.asks,
        "paused": _pause_json(run.pause),
        "attempt": run.record.attempt if run.record else None,
    }


def _pause_json(pause: Pause | None) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {"by": pause.by or None, "since": iso(pause.time) if pause.by else None}


def _ending_json(ending: Ending | None) -> dict[str, Any] | None:
    """How it ended: the cause, and its parts, null where they do not apply."""
    if ending is None:
        return None
    value: dict[str, Any] = dict.fromkeys(Ending.__annotations__) | dict(ending)
    holding = [{"gpu": gpu, "pid": pid} for gpu, pid in ending.get("holding", ())]
    lists = {"holding": holding, "left": ending.get("left", [])}
    return {**value, "rebooted": iso(ending.get("rebooted")), **lists}


def _error_json(view: RunView) -> dict[str, Any] | None:
    """The line that tells why it ended, and its number in the log."""
    if view.diagnosis is None or not view.diagnosis.line:
        return None
    from tui.views.log_lines import error_line  # it reads the log

    line = view.diagnosis.line
    return {"text": line, "line": error_line(view.run.directory, line)}


def _health_json(health: Health | None) -> dict[str, Any] | None:
    if health is None:
        return None
    value: dict[str, Any] = msgspec.to_builtins(health)
    return {**value, "since": iso(health.since), "time": iso(health.time)}


def _gpus_json(view: RunView) -> dict[str, Any]:
    gpus = view.run.plan.gpus if view.run.plan else ()
    return {
        "gpus": [gpu.index for gpu in gpus],
        "gpu_uuids": [gpu.uuid for gpu in gpus],
        "simulated": any(gpu.simulated for gpu in gpus),
        "usage": [_usage_json(use) for use in view.usage],
    }


def _usage_json(use: GpuUse) -> dict[str, Any]:
    return {
        **fields_json(use, "node", "index", "uuid", "logical", "peak_memory", "memory_total"),
        "whole_gpu_memory": use.whole_gpu,
        **fields_json(use, "mean_utilization", "energy_wh", "peak_temperature_c"),
        "energy_counted_s": use.counted_s,
        **fields_json(use, "seconds", "shared", "simulated"),
        "xids": [
            {"code": xid.code, "time": iso(xid.time), "meaning": xid.meaning} for xid in use.xids
        ],
    }


def _program_json(plan: LaunchPlan | None) -> dict[str, Any]:
    provenance = plan.provenance if plan else Provenance()
    return {
        "user": plan.origin.user if plan else None,
        "command": list(plan.argv) if plan else None,
        "working_directory": plan.working_directory if plan else None,
        **fields_json(provenance, "commit", "branch", "interpreter", "python", "torch"),
        "parent": plan.spec.parent or None if plan else None,
        "resumed_from": plan.spec.resumed_from or None if plan else None,
    }


def _course_json(view: RunView) -> dict[str, Any]:
    run = view.run
    return {
        "created": iso(run.created),
        "started": iso(run.started),
        "ended": iso(run.ended),
        "seconds": None if view.seconds is None else round(view.seconds, 3),
        "exit_code": run.exit_code,
    }


def _checkpoint_json(checkpoint: Checkpoint | None) -> dict[str, Any] | None:
    if checkpoint is None:
        return None
    return {**fields_json(checkpoint, "path", "bytes"), "modified": iso(checkpoint.modified)}


def _metrics_json(view: RunView) -> dict[str, Any]:
    return {
        "metrics": {name: None if odd(value) else value for name, value in view.metrics.items()},
        "not_finite": {name: odd(value) for name, value in view.metrics.items() if odd(value)},
        "best": _best_json(view),
        "headline": view.headline,
        "validation": validation_metric(view.run, view.metrics),
        "best_metric": best_metric_json(view.run),
        "metric_readers": list(view.readers) or None,
        "progress": msgspec.to_builtins(view.progress),
    }


def best_metric_json(run: Run) -> dict[str, Any] | None:
    """By which metric a run is judged, as its user or preset says; null where nobody does."""
    judged = best_metric(run)
    if judged is None:
        return None
    return {"metric": judged.metric, "higher": higher(run, judged.metric)}


def _best_json(view: RunView) -> dict[str, Any]:
    found = _best_values(view)
    return {name: found[name] for name in view.metrics if name in found}


def _best_values(view: RunView) -> dict[str, Any]:
    if view.best_so_far:
        source = "output" if view.readers else "events"
        axis = view.progress.counted.removesuffix("s")
        return {
            name: {"value": value, "step": step, "axis": axis, "source": source}
            for name, (value, step) in view.best_so_far.items()
        }
    return {
        name: {
            "value": final.best,
            "step": final.best_step,
            "axis": final.axis,
            "source": final.source,
        }
        for name, final in view.final.items()
        if final.best is not None
    }
