"""The line of words above the charts."""

from tui.panel.widgets.metrics.chart import RESUMED
from tui.panel.widgets.metrics.chart_model import ChartPage
from tui.panel.widgets.metrics.chart_request import ChartRequest
from tui.views.metrics.curves import SMOOTHINGS


def page_line(page: ChartPage, asked: ChartRequest) -> str:
    """What is shown: which charts of how many, over which axis, of which runs."""
    look = asked.look
    last = min(len(page.names), page.first + page.per_page)
    words = [f"Metrics {page.first + 1 if page.names else 0}-{last} of {len(page.names)}"]
    words.append(f"x {look.axis}")
    if look.log:
        words.append("log")
    if asked.smoothing:
        words.append(f"smoothed {SMOOTHINGS[asked.smoothing]:g}")
    if (look.low, look.high) != (0.0, 1.0):
        words.append(f"part {look.low:.0%}–{look.high:.0%} (0: whole)")
    if asked.pattern:
        words.append(f"filter /{asked.pattern}/" + (f" — {page.problem}" if page.problem else ""))
    if look.cursor is not None:
        words.append("cursor ← →")
    if page.resumed:
        words.append(f"{RESUMED} resumed")
    names = "  ".join(
        f"{mark.letter} {mark.run.name}" + ("★" if mark.pinned else "") for mark in asked.marks
    )
    return " " + " · ".join(words) + f"   {names}"


def nothing_line(page: ChartPage, asked: ChartRequest) -> str:
    """Why there is no chart."""
    if not asked.marks:
        return "no run is marked: r shows the runs, space marks one"
    if page.hidden:
        return page.problem or f"no metric matches {asked.pattern!r}; / changes the filter"
    return "no metrics yet"
