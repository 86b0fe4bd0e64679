"""One run as a line of a table: the values that tables show, sort and filter by, and no more.

Rows of ended runs are kept in memory and on disk by the thousand, so they stay small: metrics lie
in one packed piece that is only taken apart when somebody asks for one of them.
"""

from __future__ import annotations

import msgspec

from runners.model.health import Condition
from runners.model.run import Progress, Run
from runners.model.states import State
from runners.watch.metrics.final import FinalReport
from tui.views.format import duration
from tui.views.health.health_text import health_remark
from tui.views.metrics.sparkline import sparkline
from tui.views.runs.run_view import RunView

SPARKS = 8
"""Cells of the small curve that is kept of an ended run."""
MOST_METRICS = 64
"""So many of a run's metrics can be sorted and filtered by, the headline first."""
_LONGEST = 400

MetricValues = tuple[float | None, float | None, float | None]
"""A metric's last value, its best, and the step of the best; unknown is None."""

_NO_METRICS = msgspec.msgpack.encode({})
_decode_metrics = msgspec.msgpack.Decoder(dict[str, MetricValues])


class RunRow(msgspec.Struct, array_like=True, gc=False):
    """A run's values in a table; times in unix seconds, unknown is None, and cost in dollars."""

    id: str
    stamp: int
    """When anything last changed in its folder (ns), by which an ended row is known to hold."""
    name: str
    preset: str
    group: str
    state: State
    remark: str
    """Why it is where it is: a reason, a prompt it waits at, an alert, a note."""
    host: str
    user: str
    created: float
    started: float | None
    ended: float | None
    seconds: float | None
    exit_code: int | None
    gpus: tuple[int, ...]
    fraction: float | None
    step: int | None
    steps: int | None
    epoch: int | None
    epochs: int | None
    headline: str | None
    last: float | None
    best: float | None
    packed: bytes = _NO_METRICS
    spark: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    starred: bool = False
    is_final: bool = False
    """Whether the report of its whole output is in it."""
    is_live: bool = False
    urgent: bool = False
    """Whether its remark asks for somebody."""
    cost: float | None = None
    eta_s: float | None = None
    rate: float | None = None
    rate_unit: str = ""
    phase: str = ""
    doing: Condition | None = None
    """What it does while it runs; unknown is None."""
    stop_word: str = ""
    """`stop 28s`: while it stops, the seconds until the next step."""

    @property
    def machine(self) -> str:
        """The rented machine that it runs on, as it is called here; empty for this one."""
        name, slash, _ = self.id.removeprefix("group:").partition("/")
        return name if slash else ""

    def metric(self, name: str) -> MetricValues:
        """The values of one metric; all None when it has none of that name."""
        if name == self.headline:
            return self.last, self.best, None
        return _decode_metrics.decode(self.packed).get(name, (None, None, None))

    @property
    def metrics(self) -> dict[str, MetricValues]:
        """Every metric that is kept."""
        return _decode_metrics.decode(self.packed)


def row_of_ended(run: Run, final: FinalReport | None, stamp: int) -> RunRow:
    """The row of an ended run, with what its report says."""
    metrics: dict[str, MetricValues] = {}
    if final is not None:
        names = sorted(final.metrics, key=lambda name: (name != final.headline, name))
        for name in names[:MOST_METRICS]:
            one = final.metrics[name]
            metrics[name] = (one.last, one.best, one.best_step)
    headline = final.headline if final else None
    last, best, _ = metrics.get(headline or "", (None, None, None))
    return _row(
        run,
        final.progress if final else Progress(epochs=run.totals[0], steps=run.totals[1]),
        run.seconds(run.ended or run.created),
        headline,
        (last, best),
        stamp=stamp,
        remark="" if run.state is State.DONE else run.reason[:_LONGEST],
        packed=msgspec.msgpack.encode(metrics),
        spark=sparkline(final.trend, SPARKS) if final else "",
        is_final=final is not None,
    )


def row_of_view(view: RunView, now: float) -> RunRow:
    """The row of a run that somebody has looked at just now, live or ended."""
    remark, urgent = remark_of(view)
    final = {name: (one.last, one.best, one.best_step) for name, one in view.final.items()}
    unknown = None, None
    live = {
        name: (value, *view.best_so_far.get(name, unknown)) for name, value in view.metrics.items()
    }
    metrics = final or live
    best = metrics.get(view.headline or "", (None, None, None))[1]
    return _row(
        view.run,
        view.progress,
        view.seconds,
        view.headline,
        (view.loss, best),
        remark=remark[:_LONGEST],
        urgent=urgent,
        packed=msgspec.msgpack.encode(metrics),
        spark=sparkline(view.trend, SPARKS),
        is_final=bool(view.final),
        stop_word=_stop_word(view.run, now),
        doing=None if view.health is None else view.health.condition,
        cost=None if view.money.cost is None else float(view.money.cost),
    )


def remark_of(view: RunView) -> tuple[str, bool]:
    """The one line about a run that its other columns do not tell, and whether it is urgent."""
    run = view.run
    if view.asks is not None:
        return f"waits for input: {view.asks or 'no prompt'}", True
    stop = run.record.stop if run.record else None
    if run.state is State.STOPPING and stop is not None:
        return f"{stop.rung}, step {stop.step} of {stop.steps}", False
    if run.reason and run.state is not State.DONE:
        return run.reason, run.state in (State.FAILED, State.LOST, State.ORPHANED)
    if view.health is not None and (remark := health_remark(view.health)):
        return remark, view.health.condition.is_trouble
    # What the judge once found is history: it says itself what holds now.
    standing = [alert for alert in view.alerts if not alert.condition] if run.is_live else []
    return (f"⚠ {standing[-1].text}", True) if standing else ("", False)


def _stop_word(run: Run, now: float) -> str:
    stop = run.record.stop if run.record else None
    if run.state is not State.STOPPING or stop is None:
        return ""
    left = int(max(0.0, stop.until - now))
    return f"stop {left}s" if left < 100 else f"stop {left // 60}m"


def _row(
    run: Run,
    progress: Progress,
    seconds: float | None,
    headline: str | None,
    values: tuple[float | None, float | None],
    *,
    stamp: int = 0,
    remark: str = "",
    urgent: bool = False,
    packed: bytes = _NO_METRICS,
    spark: str = "",
    is_final: bool = False,
    cost: float | None = None,
    stop_word: str = "",
    doing: Condition | None = None,
) -> RunRow:
    plan = run.plan
    return RunRow(
        id=run.id,
        stamp=stamp,
        name=run.name or run.id,
        preset=run.preset,
        group=plan.spec.group if plan else "",
        state=run.state,
        remark=remark,
        host=plan.origin.host if plan else "",
        user=plan.origin.user if plan else "",
        created=run.created,
        started=run.started,
        ended=run.ended,
        seconds=seconds,
        exit_code=run.exit_code,
        gpus=tuple(gpu.index for gpu in plan.gpus) if plan else (),
        fraction=progress.fraction,
        step=progress.step,
        steps=progress.steps,
        epoch=progress.epoch,
        epochs=progress.epochs,
        headline=headline,
        last=values[0],
        best=values[1],
        packed=packed,
        spark=spark,
        tags=run.labels.tags,
        note=run.labels.note,
        starred=run.labels.starred,
        is_final=is_final,
        is_live=run.is_live,
        urgent=urgent,
        cost=cost,
        eta_s=progress.eta_s,
        rate=progress.rate if run.is_live else None,
        rate_unit=progress.rate_unit if run.is_live else "",
        phase=(progress.phase or "") if run.is_live else "",
        stop_word=stop_word,
        doing=doing,
    )


def age_words(seconds: float | None) -> str:
    """An age in one part: `4s`, `12m`, `3h`, `2d`, `5w`."""
    if seconds is None:
        return duration(None)
    for unit, size in (("w", 7 * 86400), ("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= (2 * size if unit == "w" else size):
            return f"{int(seconds // size)}{unit}"
    return f"{int(max(0.0, seconds))}s"
