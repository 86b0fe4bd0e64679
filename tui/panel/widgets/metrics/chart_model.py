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

from runners.watch.metrics.sample import headline_rank
from runners.watch.metrics.series import Series
from tui.panel.widgets.metrics.chart import ChartCurve, Row, draw_chart
from tui.panel.widgets.metrics.chart_request import ChartRequest, RunCurve, order
from tui.snapshot.curve_store import CurveStore, Line
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
    page. `axes` are those known of any run, `resumed` whether a curve has a seam.
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
        self._curves = {key: one for key, one in self._curves.items() if key[0] in wanted}
        return self.store.read([mark.run for mark in marks])

    def draw(self, asked: ChartRequest) -> ChartPage:
        """The charts of the page asked for."""
        found = self._lines(asked)
        every = _ordered(found, asked.pinned)
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
        focus = names.index(asked.follow) if asked.follow in names else asked.focus
        focus = max(0, min(focus, len(names) - 1))
        first = focus // per_page * per_page
        shown = names[first : first + per_page]
        self._seams.clear()
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
            known_axes([part for line in found.values() for part in line]),
            bool(self._seams),
        )

    def write(self, asked: ChartRequest, names: Sequence[str], folder: Path) -> list[Path]:
        """Write the charts of `names` as they are drawn, an SVG and a CSV file each; their paths.

        Raises OSError where the folder does not take them.
        """
        from tui.views.metrics.chart_files import write_chart
        from tui.views.metrics.chart_svg import SvgCurve

        found, paths = self._lines(asked), list[Path]()
        for name in names:
            having = _having(found, asked, name)
            axis, curves = self._over(name, asked, having)
            lines = [
                SvgCurve(f"{mark.letter} {mark.run.name or mark.run.id}", curve)
                for (mark, _), curve in zip(having, curves, strict=True)
                if curve is not None
            ]
            rows = [part for _, line in having for part in line]
            words = name
            if asked.smoothing:
                words += f" (smoothed {SMOOTHINGS[asked.smoothing]:g})"
            look = asked.look._replace(axis=axis)
            span = look.low, look.high
            unit = _unit(name, having)
            paths += write_chart(folder, name, words, lines, rows, axis, look.log, unit, span)
        return paths

    def _lines(self, asked: ChartRequest) -> dict[str, Line]:
        lines = {mark.run.id: self.store.line(mark.run, asked.joined) for mark in asked.marks}
        return {run: line for run, line in lines.items() if line}

    def _chart(
        self,
        at: int,
        name: str,
        asked: ChartRequest,
        found: dict[str, Line],
        place: tuple[int, int, int, int],
        focused: bool,
    ) -> Chart:
        having = _having(found, asked, name)
        axis, curves = self._over(name, asked, having)
        lines = [
            ChartCurve(mark.letter, mark.colour, curve, mark.pinned, mark.run.is_live)
            for (mark, _), curve in zip(having, curves, strict=True)
            if curve is not None
        ]
        self._seams.update(line.letter for line in lines if line.curve.seams)
        key = (name, place, focused, asked.look, name in asked.pinned, tuple(lines))
        known = self._drawn.get(at)
        if known is not None and known[0] == key:
            return known[1]
        x, y, width, height = place
        look = asked.look._replace(axis=axis)
        words = f"◆{name}" if name in asked.pinned else name
        unit = _unit(name, having)
        apart = axis != asked.look.axis
        rows = draw_chart(words, lines, width, height, look, focused, unit, apart)
        chart = Chart(name, x, y, width, height, rows)
        if known is not None and known[1] == chart:
            chart = known[1]
        self._drawn[at] = key, chart
        return chart

    def _over(
        self, name: str, asked: ChartRequest, having: Sequence[tuple[RunCurve, Line]]
    ) -> tuple[AxisName, list[Curve | None]]:
        """The curves of a metric over the axis asked for, or over one that all of them have."""
        axis = asked.look.axis
        curves = [self._curve(mark, line, name, axis, asked) for mark, line in having]
        if any(curve is None for curve in curves):
            # Some program told no times or no epochs, or nothing leads from a GPU's times to steps.
            timed = any(
                by_time(part[name]) for _, line in having for _, part in line if name in part
            )
            axis = "time" if timed else "step"
            curves = [self._curve(mark, line, name, axis, asked) for mark, line in having]
        return axis, curves

    def _curve(
        self, mark: RunCurve, line: Line, name: str, axis: AxisName, asked: ChartRequest
    ) -> Curve | None:
        parts = [stretch_of(run, series, name) for run, series in line]
        key = (mark.run.id, name, axis, asked.smoothing, asked.joined)
        version = tuple(part.version for part in parts)
        known = self._curves.get(key)
        if known is not None and known[0] == version:
            return known[1]
        weight = SMOOTHINGS[asked.smoothing]
        curve = join(parts, axis, weight, self.store.higher(mark.run, name))
        self._curves[key] = version, curve
        return curve


def _having(found: dict[str, Line], asked: ChartRequest, name: str) -> list[tuple[RunCurve, Line]]:
    """The runs that have a metric, themselves or before they were resumed."""
    return [
        (mark, found[mark.run.id])
        for mark in asked.marks
        if any(name in series for _, series in found.get(mark.run.id, ()))
    ]


def _unit(name: str, having: Sequence[tuple[RunCurve, Line]]) -> str:
    parts = [series[name] for _, line in having for _, series in line if name in series]
    simulated = ["simulated"] * any(part.simulated for part in parts)
    return " ".join([parts[0].unit, *simulated] if parts else []).strip()


def _ordered(found: dict[str, Line], pinned: tuple[str, ...]) -> list[str]:
    """Every name once, in order."""
    sources: dict[str, str] = {}
    parts: list[dict[str, Series]] = [series for line in found.values() for _, series in line]
    for series in parts:
        for name, one in series.items():
            sources.setdefault(name, one.source)
    return order(sources, pinned, {name: headline_rank(name) for name in sources})


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
