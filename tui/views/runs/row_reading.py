"""The row of a run: made of what is read of it, live or ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runners.model.endings import is_doubtful
from runners.model.health import Condition
from runners.model.run import Progress, Run
from runners.model.run_ids import by_names
from runners.model.states import State
from runners.places.run_row import MetricValues, RunRow, pack_metrics, pack_settings
from runners.state.boundary import note_unreadable
from runners.watch.metrics.final import FILE as FINAL_FILE
from runners.watch.metrics.final import FinalMetric, FinalReport, never_finite, read_final
from runners.watch.metrics.judging import best_metric, higher, validation_metric
from tui.views.format import duration, sparkline
from tui.views.health.health_text import health_remark
from tui.views.runs.run_settings import started_with

if TYPE_CHECKING:
    from tui.views.runs.run_view import RunView

SPARKS = 8
"""Cells of the small curve that is kept of an ended run."""
_LONGEST = 400


def row_of_ended(run: Run, stamp: int) -> RunRow:
    """The row of an ended run, with what its report says; whatever that raises is its remark."""
    try:
        final = read_final(run)
        if final is None and run.started is not None:
            # Just after its end: later its watcher has summed it up.
            from runners.watch.metrics.live import LiveReport
            from runners.watch.metrics.so_far import report_so_far

            final = report_so_far(run, LiveReport(run))
        return _row_of_ended(run, final, stamp)
    except Exception as error:  # the boundary: the rows of all other runs are still shown
        problem = note_unreadable(run.directory, FINAL_FILE, error)
        return _row_of_ended(run.unreadable(problem), None, stamp)


def _row_of_ended(run: Run, final: FinalReport | None, stamp: int) -> RunRow:
    if final is None:
        stated = Progress(epochs=run.totals[0], steps=run.totals[1])
        row = _row(run, stated, None, {}, ())
    else:
        row = _row(run, final.progress, final.headline, _final_values(final.metrics), final.trend)
    row.stamp = stamp
    row.seconds = run.seconds(run.ended or run.created)
    reason = run.reason
    if run.state is State.DONE:
        reason, row.urgent = _doubts(run, {} if final is None else final.metrics, row.headline)
    row.remark = "; ".join(filter(None, (reason, run.problem)))[:_LONGEST]
    row.is_final = final is not None and final.is_whole
    return row


def row_of_view(view: RunView, names: Mapping[str, str] | None = None) -> RunRow:
    """The row of a run that somebody has looked at just now, live or ended. Runs in its remark are
    called as `names` has them by id.
    """
    metrics = _final_values(view.final) or {
        name: (value, *view.best_so_far.get(name, (None, None)))
        for name, value in view.metrics.items()
    }
    row = _row(view.run, view.progress, view.headline, metrics, view.trend)
    remark, row.urgent = remark_of(view)
    row.remark = (by_names(remark, names) if names else remark)[:_LONGEST]
    row.seconds = view.seconds
    row.is_final = view.is_final
    row.cost = None if view.money.cost is None else float(view.money.cost)
    row.doing = None if view.health is None else view.health.condition
    if view.run.pause is not None:
        row.doing = Condition.PAUSED
    row.checkpoint = view.checkpoint
    row.queue_place = view.queue_place
    stop = view.run.record.stop if view.run.record else None
    if stop is not None and view.run.state is State.STOPPING:
        row.stop_until = stop.until
    return row


def _final_values(metrics: Mapping[str, FinalMetric]) -> dict[str, MetricValues]:
    return {name: (final.value, final.best, final.best_step) for name, final in metrics.items()}


def remark_of(view: RunView) -> tuple[str, bool]:
    """The one line about a run that its other columns do not tell, and whether it is urgent."""
    run = view.run
    if view.asks is not None:
        return f"waits for input: {view.asks or 'no prompt'}", True
    stop = run.record.stop if run.record else None
    if run.state is State.STOPPING and stop is not None:
        return f"{stop.rung}, step {stop.step} of {stop.steps}", False
    if run.reason and run.state is not State.DONE:
        urgent = bool(view.problem) or run.state.has_failed or run.state is State.ORPHANED
        place = f"#{view.queue_place}: " if view.queue_place else ""
        return place + "; ".join(filter(None, (run.reason, view.problem))), urgent
    if view.health is not None and (remark := health_remark(view.health)):
        return remark, view.health.condition.is_trouble
    doubts, urgent = _doubts(run, view.final, view.headline)
    if run.state is State.DONE and doubts:
        return "; ".join(filter(None, (doubts, view.problem))), urgent or bool(view.problem)
    if view.problem:
        return view.problem, True
    # What the judge once found is history: it says itself what holds now.
    standing = [alert for alert in view.alerts if not alert.condition] if run.is_live else []
    return (f"⚠ {standing[-1].text}", True) if standing else ("", False)


def _doubts(run: Run, metrics: Mapping[str, FinalMetric], headline: str | None) -> tuple[str, bool]:
    """What is to be said of a run that is done; and whether it may not have done its work."""
    lost = never_finite(metrics, headline)
    is_marked = bool(lost) or is_doubtful(run.ending)
    text = "; ".join(filter(None, (run.reason, lost)))
    return f"⚠ {text}" if is_marked else text, is_marked


def _row(
    run: Run,
    progress: Progress,
    headline: str | None,
    metrics: Mapping[str, MetricValues],
    trend: tuple[float, ...],
) -> RunRow:
    """What every row says."""
    plan = run.plan
    last, best, _ = metrics.get(headline or "", (None, None, None))
    judged = best_metric(run)
    judge = headline if judged is None else judged.metric
    validation = validation_metric(run, metrics)
    return RunRow(
        id=run.id,
        stamp=0,
        name=run.name or run.id,
        preset=run.preset,
        group=plan.spec.group if plan else "",
        state=run.state,
        remark="",
        host=plan.origin.host if plan else "",
        user=plan.origin.user if plan else "",
        created=run.created,
        started=run.started,
        ended=run.ended,
        seconds=None,
        exit_code=run.exit_code,
        gpus=tuple(gpu.index for gpu in plan.gpus_here) if plan else (),
        fraction=progress.fraction,
        step=progress.step,
        steps=progress.steps,
        epoch=progress.epoch,
        epochs=progress.epochs,
        headline=headline,
        last=last,
        best=best,
        packed=pack_metrics(metrics, headline, judge, validation),
        judged_by=None if judged is None else judged.metric,
        is_higher_better=None if judge is None else higher(run, judge),
        validation=validation,
        spark=sparkline(trend, SPARKS),
        tags=run.labels.tags,
        note=run.labels.note,
        starred=run.labels.starred,
        is_live=run.is_live,
        eta_s=progress.eta_s,
        rate=progress.rate if run.is_live else None,
        rate_unit=progress.rate_unit if run.is_live else "",
        phase=(progress.phase or "") if run.is_live else "",
        packed_settings=pack_settings(started_with(run)),
    )


def age_text(seconds: float | None) -> str:
    """An age in one part: `4s`, `12m`, `3h`, `2d`, `5w`."""
    if seconds is None:
        return duration(None)
    for unit, size in (("w", 7 * 86400), ("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= (2 * size if unit == "w" else size):
            return f"{int(seconds // size)}{unit}"
    return f"{int(max(0.0, seconds))}s"
