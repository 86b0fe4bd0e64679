"""What the metrics page knows: the series of the marked runs, and their charts. Owned by one
thread, never the UI's.

`read` reads on by a bounded piece, `draw` makes the charts of one page; the two take turns, so
that a key is answered between two pieces of a long log. A chart that came out as before is the
same object: the page paints what differs.
"""

import math
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from runners.cost.run_costs import CostCurve, state_of
from runners.model.run import Run
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.sample import headline_rank
from runners.watch.metrics.series import Series
from tui.panel.widgets.metrics.chart import ChartCurve, ChartOptions, Row, draw_chart
from tui.views.curves import SMOOTHINGS, AxisName, Curve, by_time, join, stretch_of


class RunCurve(NamedTuple):
    """A run on the page."""

    run: Run
    letter: str
    colour: str
    pinned: bool = False


class ChartRequest(NamedTuple):
    """Which charts are wanted, and how."""

    marks: tuple[RunCurve, ...]
    width: int
    height: int
    look: ChartOptions
    smoothing: int = 0
    pattern: str = ""
    first: int = 0
    focus: int = 0
    alone: bool = False
    columns: int = 0
    """How many charts side by side; 0 as many as there is room for."""


class Chart(NamedTuple):
    """A chart's rows, and where on the page they stand."""

    name: str
    x: int
    y: int
    width: int
    height: int
    rows: tuple[Row, ...]


class ChartPage(NamedTuple):
    """The charts of one page: `names` of all that match, the `first` shown and how many are to a
    page.
    """

    charts: tuple[Chart, ...]
    names: tuple[str, ...]
    first: int
    focus: int
    per_page: int
    across: int
    hidden: int
    problem: str = ""


_PIECE = 64 * 1024
_PATIENCE_S = 0.03
"""How long keys may have to wait for a piece that is being read."""
_MOST_OUTPUT = 8 << 20
_SMALLEST = (34, 9)
_ROOMY = (52, 14)


class ChartModel:
    """The marked runs' metrics and the page last drawn."""

    def __init__(self) -> None:
        self._metrics: dict[str, RunMetrics] = {}
        self._whole: set[str] = set()
        self._turn = 0
        self._curves: dict[
            tuple[str, str, AxisName, int], tuple[tuple[object, ...], Curve | None]
        ] = {}
        self._drawn: dict[int, tuple[tuple[object, ...], Chart]] = {}

    def read(self, marks: Sequence[RunCurve]) -> bool:
        """Read on in every marked run by some MiB at most; True while there is more to read."""
        more = False
        wanted = {mark.run.id for mark in marks}
        for run_id in self._metrics.keys() - wanted:
            del self._metrics[run_id]
            self._whole.discard(run_id)
            self._curves = {key: value for key, value in self._curves.items() if key[0] != run_id}
        self._turn += 1
        deadline = time.monotonic() + _PATIENCE_S
        for i in range(len(marks)):
            run = marks[(self._turn + i) % len(marks)].run
            if run.id in self._whole:
                continue
            if time.monotonic() > deadline:
                return True
            metrics = self._metrics.get(run.id) or self._metrics.setdefault(
                run.id, RunMetrics(run, _MOST_OUTPUT, CostCurve(state_of(run)))
            )
            ended = not run.is_live
            unread = metrics.poll(run, _PIECE)
            more = more or unread
            if ended and not unread:
                self._whole.add(run.id)  # what has ended stays as it is
        return more

    def notes(self, run_id: str) -> list[str]:
        """What has to be known of a run's values."""
        metrics = self._metrics.get(run_id)
        return metrics.notes if metrics is not None else []

    def settings(self, run_id: str) -> dict[str, object]:
        """What a run told of its settings."""
        metrics = self._metrics.get(run_id)
        return dict(metrics.settings) if metrics is not None else {}

    def draw(self, asked: ChartRequest) -> ChartPage:
        """The charts of the page asked for."""
        found = {
            mark.run.id: self._metrics[mark.run.id].series()
            for mark in asked.marks
            if mark.run.id in self._metrics
        }
        every = _ordered(found)
        try:
            pattern = re.compile(asked.pattern, re.IGNORECASE)
            problem = ""
        except re.error as error:
            pattern, problem = (
                re.compile(re.escape(asked.pattern), re.IGNORECASE),
                f"not a regular expression: {error}",
            )
        names = [name for name in every if pattern.search(name)]
        across, down = _grid(asked, len(names))
        per_page = across * down
        focus = max(0, min(asked.focus, len(names) - 1))
        first = focus // per_page * per_page
        shown = names[first : first + per_page]
        charts = [
            self._chart(
                at, name, asked, found, _place(at, across, down, asked), first + at == focus
            )
            for at, name in enumerate(shown)
        ]
        for at in [at for at in self._drawn if at >= len(charts)]:
            del self._drawn[at]
        return ChartPage(
            tuple(charts),
            tuple(names),
            first,
            focus,
            per_page,
            across,
            len(every) - len(names),
            problem,
        )

    def _chart(
        self,
        at: int,
        name: str,
        asked: ChartRequest,
        found: dict[str, dict[str, Series]],
        place: tuple[int, int, int, int],
        focused: bool,
    ) -> Chart:
        having = [
            (mark, found[mark.run.id][name])
            for mark in asked.marks
            if name in found.get(mark.run.id, {})
        ]
        axis = asked.look.axis
        curves = [
            self._curve(mark.run, series, axis, asked, found[mark.run.id])
            for mark, series in having
        ]
        if any(curve is None for curve in curves):
            # Some program told no times or no epochs, or nothing leads from a GPU's times to steps.
            axis = "time" if any(by_time(series) for _, series in having) else "step"
            curves = [
                self._curve(mark.run, series, axis, asked, found[mark.run.id])
                for mark, series in having
            ]
        lines = [
            ChartCurve(mark.letter, mark.colour, curve, mark.pinned, mark.run.is_live)
            for (mark, _), curve in zip(having, curves, strict=True)
            if curve is not None
        ]
        versions = tuple(
            (mark, mark.run.id, len(series), repr(series.last), series.steps[-1])
            for mark, series in having
        )
        key = (name, place, focused, asked.look, asked.smoothing, versions)
        known = self._drawn.get(at)
        if known is not None and known[0] == key:
            return known[1]
        unit = " ".join(
            [having[0][1].unit] + ["simulated"] * any(series.simulated for _, series in having)
        ).strip()
        x, y, width, height = place
        rows = draw_chart(name, lines, width, height, asked.look._replace(axis=axis), focused, unit)
        chart = Chart(name, x, y, width, height, rows)
        if known is not None and known[1] == chart:
            chart = known[1]
        self._drawn[at] = key, chart
        return chart

    def _curve(
        self,
        run: Run,
        series: Series,
        axis: AxisName,
        asked: ChartRequest,
        others: dict[str, Series],
    ) -> Curve | None:
        key = (run.id, series.name, axis, asked.smoothing)
        part = stretch_of(run, others, series.name)
        version = part.version
        known = self._curves.get(key)
        if known is not None and known[0] == version:
            return known[1]
        curve = join([part], axis, SMOOTHINGS[asked.smoothing])
        self._curves[key] = version, curve
        return curve


def _ordered(found: dict[str, dict[str, Series]]) -> list[str]:
    """Every name once: losses first, then as the runs tell them, GPUs and cost last."""
    names: dict[str, bool] = {}
    for series in found.values():
        for name, one in series.items():
            names.setdefault(name, by_time(one))
    return sorted(names, key=lambda name: (names[name], headline_rank(name)))


def _grid(asked: ChartRequest, count: int) -> tuple[int, int]:
    """How many charts side by side, and one above the other."""
    if asked.alone:
        return 1, 1
    wide = max(1, asked.width // _SMALLEST[0])
    across = min(asked.columns or max(1, asked.width // _ROOMY[0]), wide)
    if not asked.columns and across == 1 and wide > 1 and count > 1:
        across = 2
    down = max(1, asked.height // (_ROOMY[1] if asked.height >= 3 * _ROOMY[1] else _SMALLEST[1]))
    # Few charts take all the room there is.
    across = min(across, max(1, count))
    return across, min(down, max(1, math.ceil(count / across)))


def _place(at: int, across: int, down: int, asked: ChartRequest) -> tuple[int, int, int, int]:
    column, row = at % across, at // across
    left, right = asked.width * column // across, asked.width * (column + 1) // across
    top, bottom = asked.height * row // down, asked.height * (row + 1) // down
    gap = 1 if column < across - 1 else 0
    return left, top, right - left - gap, bottom - top
