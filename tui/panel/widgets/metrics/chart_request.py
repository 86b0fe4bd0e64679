"""What is asked of the charts: which runs, over which part of which axis, in what order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from runners.model.run import Run
from tui.views.metrics.curves import SMOOTHINGS, AxisName

_CURSOR_STEPS = 100
_MOST_COLUMNS = 5  # 0: as many as there is room for
_SMALLEST_PART = 0.001


class ChartOptions(NamedTuple):
    """How charts are drawn.
    The part of the x axis (0 to 1), the cursor within that part, and more.
    """

    axis: AxisName = "step"
    log: bool = False
    low: float = 0.0
    high: float = 1.0
    cursor: float | None = None
    lettered: bool = False
    """Letters along the curves, for terminals without colour."""

    def zoomed(self, factor: float) -> "ChartOptions":
        """A smaller or larger part of the x axis, around the cursor, else up to its end."""
        anchor = 1.0 if self.cursor is None else self.cursor
        width = min(1.0, max(_SMALLEST_PART, (self.high - self.low) * factor))
        at = self.low + anchor * (self.high - self.low)
        low = min(1.0 - width, max(0.0, at - anchor * width))
        return self._replace(low=low, high=low + width)

    def panned(self, by: int) -> "ChartOptions":
        """An earlier or a later part of the x axis, by quarters of what is shown."""
        width = self.high - self.low
        low = min(1.0 - width, max(0.0, self.low + by * width / 4))
        return self._replace(low=low, high=low + width)

    def cursor_moved(self, by: int) -> "ChartOptions":
        """The cursor so many hundredths of the shown part further."""
        at = (self.cursor or 0.0) + by / _CURSOR_STEPS
        return self._replace(cursor=min(1.0, max(0.0, at)))


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
    options: ChartOptions
    smoothing: int = 0
    pattern: str = ""
    focus: int = 0
    alone: bool = False
    columns: int = 0
    """How many charts side by side; 0 as many as there is room for."""
    joined: bool = True
    """Resumed runs as one curve with those they go on from."""
    follow: str = ""
    """The metric that has the focus, wherever its chart stands now; empty: `focus` tells."""
    pinned: tuple[str, ...] = ()
    """The metrics whose charts stand first, in this order."""
    focused: bool = True
    """Whether a chart has the keys."""


def turned(request: ChartRequest, what: str, axes: Sequence[AxisName]) -> dict[str, Any]:
    """What changes in a request when all charts are drawn in another way.
    `axes` are those that are known.
    """
    options = request.options
    if what == "joined":
        return {"joined": not request.joined}
    if what == "smoothing":
        return {"smoothing": (request.smoothing + 1) % len(SMOOTHINGS)}
    if what == "columns":
        return {"columns": (request.columns + 1) % _MOST_COLUMNS}
    at = axes.index(options.axis) if options.axis in axes else -1
    choices = {
        "axis": options._replace(axis=axes[(at + 1) % len(axes)]),
        "log": options._replace(log=not options.log),
        "cursor": options._replace(cursor=0.5 if options.cursor is None else None),
        "closer": options.zoomed(0.5),
        "wider": options.zoomed(2.0),
        "earlier": options.panned(-1),
        "later": options.panned(1),
        "whole": options._replace(low=0.0, high=1.0),
    }
    return {"options": choices[what]}


def why_unturned(before: ChartRequest, after: ChartRequest, what: str, has_resumed: bool) -> str:
    """Why a key draws the charts as they are; empty where it changes them."""
    if what == "joined" and before.joined and not has_resumed:
        return "no run drawn here goes on from another one"
    if after.options != before.options or what in ("joined", "smoothing", "columns"):
        return ""
    if before.options.low == 0.0 and before.options.high == 1.0:
        return "all of the x axis is shown: + shows a part of it"
    return f"the {'start' if what == 'earlier' else 'end'} of the x axis is shown"


def moved(pinned: tuple[str, ...], name: str, by: int) -> tuple[str, ...]:
    """`pinned` with `name` `by` places later; one that was not pinned stands last first."""
    rest = [chart for chart in pinned if chart != name]
    at = pinned.index(name) if name in pinned else len(rest)
    place = max(0, min(len(rest), at + by))
    return (*rest[:place], name, *rest[place:])
