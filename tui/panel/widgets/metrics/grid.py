"""The grid of charts, and the line above it. The grid paints what changed, and moves the focus."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.panel.screen_keys import CHART_KEYS
from tui.panel.widgets.metrics.chart import RESUMED, Row
from tui.panel.widgets.metrics.chart_model import Chart, ChartPage
from tui.panel.widgets.metrics.chart_request import ChartRequest
from tui.views.format import cut
from tui.views.metrics.curves import SMOOTHINGS


class ChartGrid(Widget):
    """The charts of one page. Announces where the focus shall go; the page decides."""

    can_focus = True
    BINDINGS: ClassVar[list[BindingType]] = CHART_KEYS

    class Clicked(Message):
        """A chart was clicked: its place on the page."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    class Resized(Message):
        """There is other room than before."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._page: ChartPage | None = None
        self._empty = "reading …"

    def show(self, page: ChartPage, empty: str) -> None:
        """Take in a new page; rows that differ are painted, up to where they do."""
        before, self._page = self._page, page
        old = {chart.x + chart.y * 10_000: chart for chart in before.charts} if before else {}
        same_layout = before is not None and [c[1:5] for c in before.charts] == [
            c[1:5] for c in page.charts
        ]
        if not same_layout or not page.charts:
            if not same_layout or empty != self._empty:
                self._empty = empty
                self.refresh()
            return
        for chart in page.charts:
            known = old.get(chart.x + chart.y * 10_000)
            # The model gives the same object for a chart that came out as before.
            if known is chart:
                continue
            for y, row in enumerate(chart.rows):
                if known is None or y >= len(known.rows):
                    self.refresh(Region(chart.x, chart.y + y, chart.width, 1))
                elif known.rows[y] != row:
                    start, end = changed_cells(known.rows[y], row)
                    self.refresh(Region(chart.x + start, chart.y + y, end - start, 1))

    def render_line(self, y: int) -> Strip:
        """One row across all charts."""
        style = self.rich_style
        width = self.size.width
        charts = self._page.charts if self._page else ()
        if not charts:
            text = self._empty.center(width)[:width] if y == self.size.height // 2 else ""
            return Strip([Segment(text.ljust(width), style)], width)
        segments: list[Segment] = []
        at = 0
        for chart in charts:
            if chart.y <= y < chart.y + chart.height:
                segments.append(Segment(" " * (chart.x - at), style))
                segments += [
                    Segment(drawn.text, style + drawn.style if drawn.style else style)
                    for drawn in _row(chart, y)
                ]
                at = chart.x + chart.width
        segments.append(Segment(" " * max(0, width - at), style))
        return Strip([segment for segment in segments if segment.text]).adjust_cell_length(
            width, style
        )

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self._page is None:
            return
        for at, chart in enumerate(self._page.charts):
            if (
                chart.x <= offset.x < chart.x + chart.width
                and chart.y <= offset.y < chart.y + chart.height
            ):
                self.post_message(self.Clicked(at))


def changed_cells(old: Row, new: Row) -> tuple[int, int]:
    """Where two rows that differ do so, as cells from and to.

    All of a row in which a letter takes two cells, as one in a metric's name may.
    """
    before = [(character, segment.style) for segment in old for character in segment.text]
    after = [(character, segment.style) for segment in new for character in segment.text]
    differing = [
        i for i, (left, right) in enumerate(zip(before, after, strict=False)) if left != right
    ]
    width = cell_len("".join(character for character, _ in after))
    if not len(before) == len(after) == width or not differing:
        return 0, width
    return differing[0], differing[-1] + 1


def _row(chart: Chart, y: int) -> tuple[Segment, ...]:
    return chart.rows[y - chart.y] if y - chart.y < len(chart.rows) else ()


def page_line(page: ChartPage, request: ChartRequest, width: int) -> str:
    """What is shown, in `width` cells: which charts of how many, over which axis, of which runs."""
    options = request.options
    last = min(len(page.names), page.first + page.per_page)
    shown = f" {page.first + 1}-{last} of {len(page.names)}" if page.names else ""
    parts = [f"Metrics{shown}"]
    parts.append(f"x {options.axis}")
    if options.log:
        parts.append("log")
    if request.smoothing:
        parts.append(f"smoothed {SMOOTHINGS[request.smoothing]:g}")
    if (options.low, options.high) != (0.0, 1.0):
        parts.append(f"part {options.low:.0%}–{options.high:.0%} (0: whole)")
    if request.pattern:
        parts.append(f"filter /{request.pattern}/" + (f" — {page.problem}" if page.problem else ""))
    if options.cursor is not None:
        parts.append("cursor ← →")
    if request.alone and page.sources:
        parts.append(f"from {', '.join(page.sources)}")
    if page.resumed:
        parts.append(f"{RESUMED} resumed")
    names = [f"{mark.letter} {mark.run.name}{'★' * mark.pinned}" for mark in request.marks]
    line = f" {' · '.join(parts)}   "
    return line + _fitting(names, width - cell_len(line))


def _fitting(names: Sequence[str], width: int) -> str:
    """The names that fit, and how many more there are."""
    for count in range(len(names), 0, -1):
        more = f"+{len(names) - count}" if count < len(names) else ""
        text = "  ".join(filter(None, (*names[:count], more)))
        if cell_len(text) <= width:
            return text
    return cut(names[0], width) if len(names) == 1 else f"{len(names)} runs"


def nothing_line(page: ChartPage, request: ChartRequest) -> str:
    """Why there is no chart."""
    if not request.marks:
        return "no run is marked: r shows the runs, space marks one"
    if page.hidden:
        return page.problem or f"no metric matches {request.pattern!r}; / changes the filter"
    return "no metrics yet"
