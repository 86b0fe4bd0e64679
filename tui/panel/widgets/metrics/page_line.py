"""The line of words above the charts."""

from tui.panel.widgets.metrics.chart import RESUMED
from tui.panel.widgets.metrics.chart_model import ChartPage
from tui.panel.widgets.metrics.chart_request import ChartRequest
from tui.views.metrics.curves import SMOOTHINGS


def page_line(page: ChartPage, request: ChartRequest) -> str:
    """What is shown: which charts of how many, over which axis, of which runs."""
    options = request.options
    last = min(len(page.names), page.first + page.per_page)
    parts = [f"Metrics {page.first + 1 if page.names else 0}-{last} of {len(page.names)}"]
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
    names = "  ".join(
        f"{mark.letter} {mark.run.name}" + ("★" if mark.pinned else "") for mark in request.marks
    )
    return " " + " · ".join(parts) + f"   {names}"


def nothing_line(page: ChartPage, request: ChartRequest) -> str:
    """Why there is no chart."""
    if not request.marks:
        return "no run is marked: r shows the runs, space marks one"
    if page.hidden:
        return page.problem or f"no metric matches {request.pattern!r}; / changes the filter"
    return "no metrics yet"
