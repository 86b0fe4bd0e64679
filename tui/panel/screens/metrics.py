"""The metrics page: curves of the marked runs in a grid, with their settings and environment
beside them.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.css.query import DOMQuery
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.panel.feed import PanelSnapshot
from tui.panel.hotkeys import hotkey
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.metrics.chart import ChartOptions
from tui.panel.widgets.metrics.chart_model import ChartModel, ChartPage, ChartRequest, RunCurve
from tui.panel.widgets.metrics.details import describe, draw_details
from tui.panel.widgets.metrics.grid import ChartGrid
from tui.panel.widgets.metrics.run_list import MetricRunList
from tui.views.curves import AXES, SMOOTHINGS
from tui.views.settings import settings_of

_DRAW_EVERY_S = 0.5  # while a long log is still being read
_LIST_FROM = 100
_DETAILS = 44
_KEYS = (
    ("Esc", "close"),
    ("Enter", "one chart"),
    ("[ ]", "page"),
    ("/", "filter"),
    ("r", "runs"),
    ("x", "axis"),
    ("L", "log"),
    ("s", "smooth"),
    ("c", "cursor"),
    ("+ -", "zoom"),
    ("o", "settings"),
    ("?", "all keys"),
)
_CURSOR_STEPS = 100


class MetricsScreen(Screen[None]):
    """Charts, runs, details; a thread reads and draws, this screen only shows."""

    AUTO_FOCUS = "#metrics-grid"
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,m", "back", "leave what is open, then the page", "Close"),
        hotkey("enter,z", "alone", "one chart alone; Esc: back", "One chart"),
        hotkey(
            "pageup,left_square_bracket",
            "page(-1)",
            "the page of charts before or after",
            "Page",
            display="[ ]",
        ),
        hotkey("pagedown,right_square_bracket", "page(1)", "the page of charts before or after"),
        hotkey("slash", "filter", "filter the metrics by name", "Filter", display="/"),
        hotkey("r", "runs", "to the list of runs, and back", "Runs"),
        hotkey("a", "mark_all", "draw all live runs; again: only one"),
        hotkey("p", "pin", "the run under the cursor on top"),
        hotkey("x", "axis", "steps, epochs or time", "X axis"),
        hotkey("L", "log", "logarithmic, and back", "Log"),
        hotkey("s", "smooth", "more smoothing, then none", "Smooth"),
        hotkey("c", "cursor", "values under a cursor, moved by ← →", "Cursor"),
        hotkey(
            "plus,equals_sign",
            "zoom_x(0.5)",
            "a smaller or larger part of the x axis",
            "Zoom",
            display="+ -",
        ),
        hotkey("minus", "zoom_x(2.0)", "a smaller or larger part of the x axis"),
        hotkey("comma,less_than_sign", "pan(-1)", "an earlier or later part of the x axis"),
        hotkey("full_stop,greater_than_sign", "pan(1)", "an earlier or later part of the x axis"),
        hotkey("0", "whole", "all of the x axis"),
        hotkey("g", "columns", "how many charts side by side"),
        hotkey("o", "details", "settings and environment of the run", "Settings"),
        Binding("question_mark", "app.help", "Help", key_display="?", show=False),
        hotkey("home", "page(-100000)", "the first page of charts, the last"),
        hotkey("end", "page(100000)", "the first page of charts, the last"),
    ]

    def __init__(self, picture: PanelSnapshot | None, marked: list[str], at: str | None) -> None:
        """`marked`: the runs drawn at first; `at`: the one under the list's cursor."""
        super().__init__()
        self._first_picture = picture
        self._begin_with = marked, at
        self._book = ChartModel()
        self._worker = ThreadPoolExecutor(1, "metrics")
        self._asked = ChartRequest(
            (), 0, 0, ChartOptions(lettered=bool(os.environ.get("NO_COLOR")))
        )
        self._page: ChartPage | None = None
        self._line = ""
        self._about = Text()
        self._hurry = asyncio.Event()
        self._changed = asyncio.Event()

    def compose(self) -> ComposeResult:
        """One line of words, then runs, charts and details side by side."""
        yield Static(id="metrics-line", markup=False)
        with Horizontal(id="metrics-body"):
            yield MetricRunList(id="metrics-runs")
            yield ChartGrid(id="metrics-grid")
        # A line of text, for Textual's own footer takes longer to set up than the curves to draw.
        yield Static(_keys(), id="metrics-keys", markup=False)

    def on_mount(self) -> None:
        """Show what is known at once, and read."""
        runs = self.runs
        runs.begin(*self._begin_with)
        runs.display = self.app.size.width >= _LIST_FROM
        self.grid.focus()
        if self._first_picture is not None:
            runs.show(self._first_picture)
        self._ask()
        self.run_worker(self._read(), exclusive=True, group="metrics-read")
        self.run_worker(self._draw(), exclusive=True, group="metrics-draw")

    def on_unmount(self) -> None:
        """Let the thread go."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    # ── reading and drawing, in the thread ────────────────────────────────────────────────────────

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        drawn = loop.time()
        while True:
            self._hurry.clear()
            more = await loop.run_in_executor(self._worker, self._book.read, self._asked.marks)
            if not more or loop.time() > drawn + _DRAW_EVERY_S:
                drawn = loop.time()
                self._changed.set()
            if not more:
                await self._hurry.wait()
                drawn = loop.time()

    async def _draw(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            asked = self._asked
            if asked.width < 8 or asked.height < 3:
                continue
            page = await loop.run_in_executor(self._worker, self._book.draw, asked)
            self._page = page
            self.grid.show(page, self._nothing(page))
            self._show_line()
            self._show_details()

    def show(self, picture: PanelSnapshot) -> None:
        """A new picture, once a second: runs that came, ended or were removed; live ones are read
        on.
        """
        self.runs.show(picture)
        self._ask()
        if any(mark.run.is_live for mark in self._asked.marks):
            self._hurry.set()

    def _ask(self, **changes: Any) -> None:
        """Ask for the charts as they shall be now; nothing happens when that is as before."""
        asked = self._asked._replace(**changes)
        size = self.grid.size
        asked = asked._replace(marks=self._marks(), width=size.width, height=size.height)
        if asked != self._asked:
            if [mark.run for mark in asked.marks] != [mark.run for mark in self._asked.marks]:
                self._hurry.set()
            self._asked = asked
            self._changed.set()

    def _marks(self) -> tuple[RunCurve, ...]:
        runs = self.runs
        views = {view.run.id: view.run for view in runs.views}
        return tuple(
            RunCurve(
                views[one],
                runs.letters.get(one, "?"),
                run_colour(runs.letters.get(one, "A"), self.app.current_theme),
                one == runs.pinned,
            )
            for one in runs.marked
            if one in views
        )

    # ── what is shown ─────────────────────────────────────────────────────────────────────────────

    @property
    def runs(self) -> MetricRunList:
        """The list of runs."""
        return self.query_one(MetricRunList)

    @property
    def _details(self) -> DOMQuery[Widget]:
        """The settings and environment, where they are shown."""
        return self.query("#metrics-details")

    @property
    def grid(self) -> ChartGrid:
        """The charts."""
        return self.query_one(ChartGrid)

    def on_resize(self) -> None:
        """In a narrow terminal the list of runs is there only while it has the keys."""
        if self.query(MetricRunList):
            self.runs.display = self.size.width >= _LIST_FROM or self.runs.has_focus

    @on(ChartGrid.Resized)
    def _resized(self) -> None:
        self._ask()

    def _nothing(self, page: ChartPage) -> str:
        if not self._asked.marks:
            return "no run is marked: r shows the runs, space marks one"
        if page.hidden:
            return (
                page.problem or f"no metric matches {self._asked.pattern!r}; / changes the filter"
            )
        return "no metrics yet"

    def _show_line(self) -> None:
        page, asked, look = self._page, self._asked, self._asked.look
        if page is None:
            return
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
            words.append(
                f"filter /{asked.pattern}/" + (f" — {page.problem}" if page.problem else "")
            )
        if look.cursor is not None:
            words.append("cursor ← →")
        names = "  ".join(
            f"{mark.letter} {mark.run.name}" + ("★" if mark.pinned else "") for mark in asked.marks
        )
        line = " " + " · ".join(words) + f"   {names}"
        if line != self._line:
            # A text that is set anew has everything laid out and painted again, be it the same.
            self._line = line
            self.query_one("#metrics-line", Static).update(line)

    def _show_details(self) -> None:
        view = self.runs.selected
        if not self._details or view is None:
            return
        told = self._book.settings(view.run.id)
        others = [
            settings_of(mark.run, self._book.settings(mark.run.id))
            for mark in self._asked.marks
            if mark.run.id != view.run.id
        ]
        letter = self.runs.letters.get(view.run.id, "")
        sections = describe(view, told, self._book.notes(view.run.id))
        text = draw_details(
            f"{letter} {view.run.name or view.run.id}",
            sections,
            others,
            min(_DETAILS, self.size.width // 2) - 4,
        )
        if text != self._about:
            self._about = text
            self.query_one("#metrics-details-text", Static).update(text)

    # ── what keys do ──────────────────────────────────────────────────────────────────────────────

    @on(MetricRunList.Changed)
    def _runs_changed(self) -> None:
        self._ask()
        self._show_details()

    @on(ChartGrid.Clicked)
    def _clicked(self, message: ChartGrid.Clicked) -> None:
        if self._page is not None:
            self._ask(focus=self._page.first + message.at)

    def action_back(self) -> None:
        """Leave what is open: the filter's line, the chart alone, the cursor, then the page."""
        if self.query("#metrics-filter"):
            self._close_filter()
        elif self._asked.alone:
            self._ask(alone=False)
        elif self._asked.look.cursor is not None:
            self._look(cursor=None)
        else:
            self.dismiss()

    def action_alone(self) -> None:
        """One chart on the whole page, and back."""
        self._ask(alone=not self._asked.alone)

    def action_page(self, pages: int) -> None:
        """The charts before or after."""
        if self._page is not None:
            focus = self._page.first + pages * self._page.per_page
            self._ask(focus=max(0, min(len(self._page.names) - 1, focus)))

    def action_sideways(self, by: int) -> None:
        """Move the cursor, where there is one, else to the chart beside."""
        cursor = self._asked.look.cursor
        if cursor is not None:
            self._look(cursor=min(1.0, max(0.0, cursor + by / _CURSOR_STEPS)))
        elif self._page is not None:
            self._ask(focus=max(0, min(len(self._page.names) - 1, self._page.focus + by)))

    def action_vertically(self, by: int) -> None:
        """To the chart above or below."""
        if self._page is not None:
            focus = self._page.focus + by * self._page.across
            if 0 <= focus < len(self._page.names):
                self._ask(focus=focus)

    def action_runs(self) -> None:
        """To the list of runs, and back to the charts."""
        runs = self.runs
        if runs.has_focus:
            runs.display = self.size.width >= _LIST_FROM
            self.grid.focus()
        else:
            runs.display = True
            runs.focus()

    def action_mark_all(self) -> None:
        """Draw all live runs and what is marked; when all are, only the run under the cursor."""
        runs = self.runs
        live = [view.run.id for view in runs.views if view.run.is_live] or [
            view.run.id for view in runs.views[:8]
        ]
        every = [*runs.marked, *(one for one in live if one not in runs.marked)]
        selected = runs.selected
        runs.mark(every if every != runs.marked else [selected.run.id] if selected else [])

    def action_pin(self) -> None:
        """The run under the list's cursor on top."""
        self.runs.pin()

    def action_axis(self) -> None:
        """Steps, epochs, time."""
        axis = self._asked.look.axis
        self._look(axis=AXES[(AXES.index(axis) + 1) % len(AXES)])

    def action_log(self) -> None:
        """Logarithmic, and back."""
        self._look(log=not self._asked.look.log)

    def action_smooth(self) -> None:
        """More smoothing, then none."""
        self._ask(smoothing=(self._asked.smoothing + 1) % len(SMOOTHINGS))

    def action_cursor(self) -> None:
        """Values under a cursor instead of the newest, in all charts at once."""
        self._look(cursor=0.5 if self._asked.look.cursor is None else None)

    def action_zoom_x(self, factor: float) -> None:
        """A smaller or larger part of the x axis, around the cursor, else up to its end."""
        look = self._asked.look
        at = look.low + (1.0 if look.cursor is None else look.cursor) * (look.high - look.low)
        width = min(1.0, max(0.001, (look.high - look.low) * factor))
        anchor = 1.0 if look.cursor is None else look.cursor
        low = min(1.0 - width, max(0.0, at - anchor * width))
        self._look(low=low, high=low + width)

    def action_pan(self, by: int) -> None:
        """An earlier or a later part of the x axis."""
        look = self._asked.look
        width = look.high - look.low
        low = min(1.0 - width, max(0.0, look.low + by * width / 4))
        self._look(low=low, high=low + width)

    def action_whole(self) -> None:
        """All of the x axis."""
        self._look(low=0.0, high=1.0)

    def action_columns(self) -> None:
        """One, two, three … charts side by side, then as many as fit."""
        self._ask(columns=(self._asked.columns + 1) % 5)

    def action_details(self) -> None:
        """The settings and environment of the run under the list's cursor, and back."""
        if self._details:
            self._details.remove()
            self._about = Text()
        else:
            text = Static(id="metrics-details-text", markup=False)
            self.query_one("#metrics-body").mount(VerticalScroll(text, id="metrics-details"))
            self.call_after_refresh(self._show_details)

    def _look(self, **changes: Any) -> None:
        self._ask(look=self._asked.look._replace(**changes))

    # ── the filter ────────────────────────────────────────────────────────────────────────────────

    def action_filter(self) -> None:
        """Open the line to type a filter in."""
        if not self.query("#metrics-filter"):
            words = "metrics whose name matches this regular expression"
            self.mount(
                Input(self._asked.pattern, words, id="metrics-filter"), after="#metrics-body"
            )
        self.query_one("#metrics-filter").focus()

    @on(Input.Changed, "#metrics-filter")
    def _filter_changed(self, message: Input.Changed) -> None:
        self._ask(pattern=message.value, focus=0)

    @on(Input.Submitted, "#metrics-filter")
    def _close_filter(self) -> None:
        self.query("#metrics-filter").remove()
        self.grid.focus()


def _keys() -> Text:
    """What keys do, the most needed first: a narrow terminal shows as many as it has room for."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for key, words in _KEYS:
        text.append(f" {key} ", style="bold").append(words, style="dim").append(" ")
    return text
