"""What the metrics page knows: the series of the marked runs, and their charts. Owned by one
thread, never the UI's.

`read` reads on by a bounded piece, `draw` makes the charts of one page; the two take turns, so
that a key is answered between two pieces of a long log. A chart that came out as before is the
same object: the page paints what differs.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from runners.watch.metrics.epoch_means import step_metric
from runners.watch.metrics.judging import higher
from tui.panel.widgets.metrics.chart import MEAN, ChartCurve, Row, draw_chart
from tui.panel.widgets.metrics.chart_request import ChartRequest, RunCurve
from tui.snapshot.curve_store import CurveStore, Line
from tui.views.metrics.chart_svg import MEAN_TEXT
from tui.views.metrics.curves import (
    AXES,
    SMOOTHINGS,
    AxisName,
    Curve,
    by_time,
    join,
    known_axes,
    stretch_of,
)
from tui.views.metrics.pinned_charts import in_order


class Chart(NamedTuple):
    """A chart's rows, and where on the page they stand."""

    name: str
    x: int
    y: int
    width: int
    height: int
    rows: tuple[Row, ...]


class ChartPage(NamedTuple):
    """The charts of one page: `names` are all that match.
    `first` is the first shown, then how many are to a page. `axes` are those known of any run,
    `resumed` whether a curve has a seam.
    """

    charts: tuple[Chart, ...]
    names: tuple[str, ...]
    first: int
    focus: int
    per_page: int
    across: int
    hidden: int
    problem: str = ""
    axes: tuple[AxisName, ...] = AXES
    resumed: bool = False
    sources: tuple[str, ...] = ()
    """Where the values of the chart under the cursor stand."""


_SMALLEST = (34, 9)
_ROOMY = (52, 14)


class ChartModel:
    """The marked runs' metrics and the page last drawn."""

    def __init__(self, store: CurveStore | None = None) -> None:
        """`store`: where the runs' series are had, if not from the folders of this machine."""
        self.store = store or CurveStore()
        self._curves: dict[
            tuple[str, str, AxisName, int, bool], tuple[tuple[object, ...], Curve | None]
        ] = {}
        self._drawn: dict[int, tuple[tuple[object, ...], Chart]] = {}
        self._seams: set[str] = set()

    def read(self, marks: Sequence[RunCurve]) -> bool:
        """Read on in every marked run by some MiB at most; True while there is more to read."""
        wanted = {mark.run.id for mark in marks}
        self._curves = {key: curve for key, curve in self._curves.items() if key[0] in wanted}
        return self.store.read([mark.run for mark in marks])

    def draw(self, request: ChartRequest) -> ChartPage:
        """The charts of the page asked for."""
        found = self._lines(request)
        every = _ordered(found, request)
        try:
            pattern = re.compile(request.pattern, re.IGNORECASE)
            problem = ""
        except re.error as error:
            pattern, problem = (
                # Half a regular expression, while it is typed, finds what it says.
                re.compile(re.escape(request.pattern), re.IGNORECASE),
                f"not a regular expression: {error}",
            )
        names = [name for name in every if pattern.search(name)]
        across, down = _grid(request, len(names))
        per_page = across * down
        focus = names.index(request.follow) if request.follow in names else request.focus
        focus = max(0, min(focus, len(names) - 1))
        first = focus // per_page * per_page
        shown = names[first : first + per_page]
        self._seams.clear()
        chosen = focus - first if request.focused else None
        charts = [
            self._chart(at, name, request, found, _place(at, across, down, request), at == chosen)
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
            known_axes([part for line in found.values() for part in line]),
            bool(self._seams),
            _sources(names[focus], found) if names else (),
        )

    def write(self, request: ChartRequest, names: Sequence[str], folder: Path) -> list[Path]:
        """Write the charts of `names` as they are drawn, an SVG and a CSV file each; their paths.

        Raises OSError where the folder does not take them.
        """
        from tui.views.metrics.chart_files import write_chart
        from tui.views.metrics.chart_svg import SvgCurve

        found, paths = self._lines(request), list[Path]()
        for name in names:
            axis, having, drawn = self._drawn_curves(name, request, found)
            lines = [
                SvgCurve(
                    f"{mark.letter} {mark.run.name or mark.run.id}"
                    + (f", {MEAN_TEXT}" if is_mean else ""),
                    curve,
                )
                for mark, curve, is_mean in drawn
            ]
            rows = [part for _, line in having for part in line]
            title = name
            if request.smoothing:
                title += f" (smoothed {SMOOTHINGS[request.smoothing]:g})"
            options = request.options._replace(axis=axis)
            span = options.low, options.high
            unit = _unit(name, having)
            paths += write_chart(folder, name, title, lines, rows, axis, options.log, unit, span)
        return paths

    def _lines(self, request: ChartRequest) -> dict[str, Line]:
        lines = {mark.run.id: self.store.line(mark.run, request.joined) for mark in request.marks}
        return {run: line for run, line in lines.items() if line}

    def _chart(
        self,
        at: int,
        name: str,
        request: ChartRequest,
        found: dict[str, Line],
        place: tuple[int, int, int, int],
        focused: bool,
    ) -> Chart:
        axis, having, drawn = self._drawn_curves(name, request, found)
        lines = [
            ChartCurve(mark.letter + MEAN * mean, mark.colour, curve, mark.pinned, mark.run.is_live)
            for mark, curve, mean in drawn
        ]
        self._seams.update(line.letter for line in lines if line.curve.seams)
        key = (name, place, focused, request.options, name in request.pinned, tuple(lines))
        known = self._drawn.get(at)
        if known is not None and known[0] == key:
            return known[1]
        x, y, width, height = place
        options = request.options._replace(axis=axis)
        title = f"◆{name}" if name in request.pinned else name
        unit = _unit(name, having)
        apart = axis != request.options.axis
        rows = draw_chart(title, lines, width, height, options, focused, unit, apart)
        chart = Chart(name, x, y, width, height, rows)
        if known is not None and known[1] == chart:
            chart = known[1]
        self._drawn[at] = key, chart
        return chart

    def _drawn_curves(
        self, name: str, request: ChartRequest, found: dict[str, Line]
    ) -> tuple[AxisName, list[tuple[RunCurve, Line]], list[tuple[RunCurve, Curve, bool]]]:
        """The curves of a chart over the axis asked for, or over one that all of them have.

        With that axis, the runs that have the metric, and which curves are means over epochs.
        """
        axis, having = request.options.axis, _having(found, request, name)
        if any(self._curve(mark, line, name, axis, request) is None for mark, line in having):
            # Some program told no times or no epochs, or nothing leads from a GPU's times to steps.
            timed = any(
                by_time(part[name]) for _, line in having for _, part in line if name in part
            )
            axis = "time" if timed else "step"
        drawn = [
            (mark, curve if each == name else curve.beside_steps(), each != name)
            for each in (name, *_means_of(name, found))
            for mark, line in _having(found, request, each)
            if (curve := self._curve(mark, line, each, axis, request)) is not None
        ]
        return axis, having, drawn

    def _curve(
        self, mark: RunCurve, line: Line, name: str, axis: AxisName, request: ChartRequest
    ) -> Curve | None:
        parts = [stretch_of(run, series, name) for run, series in line]
        key = (mark.run.id, name, axis, request.smoothing, request.joined)
        upwards = higher(mark.run, name)
        version = (upwards, *(part.version for part in parts))
        known = self._curves.get(key)
        if known is not None and known[0] == version:
            return known[1]
        weight = SMOOTHINGS[request.smoothing]
        curve = join(parts, axis, weight, upwards)
        self._curves[key] = version, curve
        return curve


def _having(
    found: dict[str, Line], request: ChartRequest, name: str
) -> list[tuple[RunCurve, Line]]:
    """The runs that have a metric, themselves or before they were resumed."""
    return [
        (mark, found[mark.run.id])
        for mark in request.marks
        if any(name in series for _, series in found.get(mark.run.id, ()))
    ]


def _unit(name: str, having: Sequence[tuple[RunCurve, Line]]) -> str:
    parts = [series[name] for _, line in having for _, series in line if name in series]
    simulated = ["simulated"] * any(part.simulated for part in parts)
    return " ".join([parts[0].unit, *simulated] if parts else []).strip()


def _ordered(found: dict[str, Line], request: ChartRequest) -> list[str]:
    """Every chart once, in order: means over epochs stand in the chart of what they are of."""
    sources: dict[str, str] = {}
    for series in (series for line in found.values() for _, series in line):
        for name, curve in series.items():
            sources.setdefault(name, curve.source)
    every = in_order(sources, [mark.run for mark in request.marks], request.pinned)
    return [name for name in every if step_metric(name, sources) is None]


def _sources(name: str, found: dict[str, Line]) -> tuple[str, ...]:
    parts = [series[name] for line in found.values() for _, series in line if name in series]
    return tuple(dict.fromkeys(source for part in parts for source in part.sources))


def _means_of(name: str, found: dict[str, Line]) -> list[str]:
    """The means over epochs that are drawn beside a metric."""
    known = {each for line in found.values() for _, series in line for each in series}
    return [each for each in known if step_metric(each, known) == name]


def _grid(request: ChartRequest, count: int) -> tuple[int, int]:
    """How many charts side by side, and one above the other."""
    if request.alone:
        return 1, 1
    wide = max(1, request.width // _SMALLEST[0])
    across = min(request.columns or max(1, request.width // _ROOMY[0]), wide)
    if not request.columns and across == 1 and wide > 1 and count > 1:
        across = 2
    down = max(
        1, request.height // (_ROOMY[1] if request.height >= 3 * _ROOMY[1] else _SMALLEST[1])
    )
    # Few charts take all the room there is.
    across = min(across, max(1, count))
    return across, min(down, max(1, math.ceil(count / across)))


def _place(at: int, across: int, down: int, request: ChartRequest) -> tuple[int, int, int, int]:
    column, row = at % across, at // across
    left, right = request.width * column // across, request.width * (column + 1) // across
    top, bottom = request.height * row // down, request.height * (row + 1) // down
    gap = 1 if column < across - 1 else 0
    return left, top, right - left - gap, bottom - top
