"""The metrics page: curves of the marked runs, their settings and environment beside them."""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input, Static

from runners.host.files import current_folder
from runners.state.layout import StateDirectory
from runners.watch.metrics.judging import JudgeByMetric, next_judging
from tui.panel.hotkeys import HintLine
from tui.panel.screens.dialogs import SCREEN_STYLES
from tui.panel.terminal.repainting import panel_screen
from tui.panel.widgets.metrics.chart_model import ChartModel, ChartPage
from tui.panel.widgets.metrics.chart_request import (
    ChartOptions,
    ChartRequest,
    moved,
    turned,
    why_unturned,
)
from tui.panel.widgets.metrics.curve_source import CurveSource
from tui.panel.widgets.metrics.drawn_runs import LIST_WIDTH, MetricRunList
from tui.panel.widgets.metrics.grid import ChartGrid, nothing_line, page_line
from tui.panel.widgets.metrics.page_keys import PAGE_KEYS
from tui.panel.widgets.metrics.settings_pane import SettingsPane
from tui.snapshot.feed import PanelSnapshot
from tui.views.metrics.pinned_charts import keep_pinned_charts, pinned_charts
from tui.views.runs.run_view import RunView

_DRAW_EVERY_S = 0.5  # while a long log is still being read
_LIST_FROM = 100
_LINES = 2  # of words, above and below the charts


@panel_screen
class MetricsScreen(Screen[None]):
    """Charts, runs, details; a thread reads and draws, this screen only shows."""

    CSS_PATH = SCREEN_STYLES
    AUTO_FOCUS = "#metrics-grid"
    BINDINGS: ClassVar[list[BindingType]] = PAGE_KEYS

    def __init__(
        self,
        state: StateDirectory,
        snapshot: PanelSnapshot | None,
        marked: Sequence[RunView],
        source: CurveSource | None = None,
        judge: JudgeByMetric | None = None,
    ) -> None:
        """`marked`: the runs drawn at first, of which the first is under the list's cursor.

        `source`: where runs and curves come from, when not from this machine alone. `judge` has
        runs judged by a metric; None in a panel that only shows.
        """
        super().__init__()
        self._state = state
        self._first_snapshot = snapshot
        self._begin_with = marked
        self._source = source or CurveSource()
        self._judge = judge
        self._charts = ChartModel(self._source.store)
        # One thread: it owns the series, so that nothing is locked.
        self._worker = ThreadPoolExecutor(1, "metrics")
        options = ChartOptions(lettered=bool(os.environ.get("NO_COLOR")))
        self._request = ChartRequest((), 0, 0, options, pinned=pinned_charts(state))
        self._page: ChartPage | None = None
        # Held, not asked for: what was drawn while the page was being closed has charts to go to.
        self.runs = MetricRunList(id="metrics-runs")
        self.grid = ChartGrid(id="metrics-grid")
        self._title_line = Static(id="metrics-line", markup=False)
        self._line = ""
        self._hurry = asyncio.Event()
        self._changed = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield self._title_line
        with Horizontal(id="metrics-body"):
            yield self.runs
            yield self.grid
        # A line of text, for Textual's own footer takes longer to set up than the curves to draw.
        yield HintLine(PAGE_KEYS)

    def on_mount(self) -> None:
        runs = self.runs
        runs.begin(self._begin_with)
        runs.display = self.app.size.width >= _LIST_FROM
        self.grid.focus()
        if self._first_snapshot is not None:
            runs.show(self._source.add_runs(self._first_snapshot))
        self._source.changed = self._curves_came
        self._ask()
        self.run_worker(self._read(), exclusive=True, group="metrics-read")
        self.run_worker(self._draw(), exclusive=True, group="metrics-draw")

    def on_unmount(self) -> None:
        self._source.close()
        # Without waiting: a piece of a log on a slow disk may still be read.
        self._worker.shutdown(wait=False, cancel_futures=True)

    # ── reading and drawing, in the thread ────────────────────────────────────────────────────────

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        drawn = loop.time()
        while True:
            self._hurry.clear()
            more = await loop.run_in_executor(self._worker, self._charts.read, self._request.marks)
            if not more or loop.time() > drawn + _DRAW_EVERY_S:
                drawn = loop.time()
                self._changed.set()
            if not more:
                await self._hurry.wait()
                drawn = loop.time()  # or, after a long pause, the first piece is drawn by itself

    async def _draw(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            request = self._request
            # No room for any chart, as while a window is dragged small.
            if request.width < 8 or request.height < 3:
                continue
            page = await loop.run_in_executor(self._worker, self._charts.draw, request)
            self._page = page
            self.grid.show(page, nothing_line(page, request))
            self._show_line()
            self._show_settings()

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot, once a second; live runs are read on."""
        self.runs.show(self._source.add_runs(snapshot))
        self._ask()
        self._show_line()
        if any(mark.run.is_live for mark in self._request.marks):
            self._hurry.set()

    def _curves_came(self) -> None:
        if self.app.is_running:
            self.app.call_later(self._changed.set)

    def _ask(self, **changes: Any) -> None:
        """Ask for the charts as they shall be now; nothing happens when that is as before."""
        width, height = self.grid.size
        if not width:
            # Not laid out yet: charts of the size to come are drawn meanwhile, for the first paint.
            width, height = self.app.size.width, self.app.size.height - _LINES
            width -= LIST_WIDTH if self.runs.display else 0
        request = self._request._replace(**changes)
        request = request._replace(marks=self.runs.curves, width=width, height=height)
        if request != self._request:
            if [mark.run for mark in request.marks] != [mark.run for mark in self._request.marks]:
                self._hurry.set()
            self._request = request
            self._changed.set()

    # ── what is shown ─────────────────────────────────────────────────────────────────────────────

    def on_resize(self) -> None:
        """In a narrow terminal the list of runs is there only while it has the keys."""
        self.runs.display = self.size.width >= _LIST_FROM or self.runs.has_focus

    @on(ChartGrid.Resized)
    def _resized(self) -> None:
        self._ask()

    def _show_line(self) -> None:
        status = self._source.status([mark.run.id for mark in self._request.marks])
        room = self.size.width - cell_len(status)
        line = page_line(self._page, self._request, room) if self._page is not None else ""
        line += status
        if line != self._line:
            # A text that is set anew has everything laid out and painted again, be it the same.
            self._line = line
            text = Text(line, no_wrap=True, overflow="ellipsis")
            self._title_line.update(text)

    def _show_settings(self) -> None:
        view = self.runs.selected
        for pane in self.query(SettingsPane):
            if view is not None and pane.is_mounted:
                letter = self.runs.letters.get(view.run.id, "")
                pane.show(view, letter, self._request.marks, self._charts.store)

    # ── what keys do ──────────────────────────────────────────────────────────────────────────────

    @on(MetricRunList.Changed)
    def _runs_changed(self) -> None:
        self._ask()
        self._show_settings()

    @on(ChartGrid.Clicked)
    def _clicked(self, message: ChartGrid.Clicked) -> None:
        if self._page is not None:
            self._focus(self._page.first + message.at)

    def action_back(self) -> None:
        """Close the innermost of what is open, the page last.
        In order: the filter's line, the settings, the list where it has no room of its own, the
        chart alone, the cursor, then the page.
        """
        if self.query("#metrics-filter"):
            self._close_filter()
        elif self.query(SettingsPane):
            self.action_settings()
        elif self.runs.has_focus and self.size.width < _LIST_FROM:
            self.action_runs()
        elif self._request.alone:
            self._ask(alone=False)
        elif self._request.options.cursor is not None:
            self.action_turn("cursor")
        else:
            self.dismiss()

    def action_alone(self) -> None:
        """One chart on the whole page, and back."""
        self._ask(alone=not self._request.alone)

    def action_page(self, pages: int) -> None:
        """The charts before or after."""
        page = self._page
        if page is None:
            return
        first = page.first + pages * page.per_page
        if abs(pages) == 1 and not 0 <= first < len(page.names):
            self.notify("there is no further page of charts", timeout=3)
        else:
            self._focus(first)

    def action_sideways(self, by: int) -> None:
        """Move the cursor, where there is one, else to the chart beside."""
        if self._request.options.cursor is not None:
            self._ask(options=self._request.options.cursor_moved(by))
        elif self._page is not None:
            self._focus(self._focused_at + by)

    def action_vertically(self, by: int) -> None:
        """To the chart above or below."""
        if self._page is not None:
            focus = self._focused_at + by * self._page.across
            if 0 <= focus < len(self._page.names):
                self._focus(focus)

    def action_runs(self) -> None:
        """To the list of runs, and back to the charts."""
        runs = self.runs
        if runs.has_focus:
            runs.display = self.size.width >= _LIST_FROM
            self.set_focus(self.grid)
        else:
            runs.display = True
            self.set_focus(runs)  # at once: the next key is for the list

    def action_mark_more(self) -> None:
        """Draw more runs: all live ones, then ended ones of the same preset, then only one."""
        if not self.runs.mark_more():
            self.notify("all live runs and those of this preset are drawn", timeout=3)

    def action_pin(self) -> None:
        """The run under the list's cursor on top."""
        self.runs.pin()

    def action_pin_chart(self) -> None:
        """This chart before all that are not pinned, for good; or no longer."""
        name, pinned = self._focused_chart(), self._request.pinned
        if name and name in pinned:
            self._keep_order(name, tuple(chart for chart in pinned if chart != name))
        elif name:
            self._keep_order(name, (*pinned, name))

    def action_move_chart(self, by: int) -> None:
        """A pinned chart before or after its neighbour."""
        name = self._focused_chart()
        pinned = self._request.pinned
        if name in pinned and moved(pinned, name, by) != pinned:
            self._keep_order(name, moved(pinned, name, by))
        elif name in pinned:
            self.notify("this chart is at that end of those pinned", timeout=3)
        elif name:
            self.notify("P pins this chart; pinned charts can be moved", timeout=3)

    def action_judge(self) -> None:
        """Judge the drawn runs by this chart's metric: by more, by less, then as by default."""
        name, marks = self._focused_chart(), self._request.marks
        if self._judge is None:
            self.notify("this panel only shows (--read-only)", timeout=4)
        elif name and marks:
            run = marks[0].run
            metric, upwards = next_judging(run, name)
            self._judge([mark.run.id for mark in marks], metric, upwards)
            judged = f"judged by {name}: {'more' if upwards else 'less'} is better"
            self.notify(judged if metric else "judged as by default", timeout=4, markup=False)

    def action_write(self, every: bool) -> None:
        """Write the chart under the cursor, or all that match, as files into this folder."""
        # The thread may wait for a disk, and keys are not to wait with it.
        self.run_worker(self._write(every), group="metrics-write")

    async def _write(self, every: bool) -> None:
        shown = self._page.names if every and self._page else [self._focused_chart()]
        names = [name for name in shown if name]
        folder = current_folder()
        loop = asyncio.get_running_loop()
        try:
            paths = await loop.run_in_executor(
                self._worker, self._charts.write, self._request, names, folder
            )
        except OSError as error:
            problem = f"cannot write into {folder}: {error.strerror}"
            self.notify(problem, severity="error", markup=False)
            return
        written = " and ".join(path.name for path in paths[:2])
        written += f" and {len(paths) - 2} more files" if len(paths) > 2 else ""
        self.notify(f"wrote {written or 'nothing'} in {folder}", timeout=8, markup=False)

    def action_turn(self, what: str) -> None:
        """Draw all charts otherwise: another axis, logarithmic, smoothed, a part of the axis …"""
        axes = self._page.axes if self._page else ("step",)
        if what == "axis" and len(axes) < 2:
            self.notify("these runs report steps only", timeout=3)
            return
        changes = turned(self._request, what, axes)
        has_resumed = self._page is not None and self._page.resumed
        after = self._request._replace(**changes)
        if why := why_unturned(self._request, after, what, has_resumed):
            self.notify(why, timeout=3)
        else:
            self._ask(**changes)

    def action_settings(self) -> None:
        """The settings and environment of the run under the list's cursor, and back."""
        if self.query(SettingsPane):
            self.query(SettingsPane).remove()
        else:
            self.query_one("#metrics-body").mount(SettingsPane(id="metrics-details"))
            # Mounting is only asked for here: what the pane consists of comes later.
            self.call_after_refresh(self._show_settings)

    def _focus(self, at: int) -> None:
        count = len(self._page.names) if self._page is not None else 0
        self._ask(focus=max(0, min(count - 1, at)), follow="")

    def _focused_chart(self) -> str:
        """The name of the chart under the cursor; empty without any."""
        page = self._page
        return page.names[self._focused_at] if page is not None and page.names else ""

    @property
    def _focused_at(self) -> int:
        """Where the cursor is to be: keys may come faster than charts are drawn."""
        names = self._page.names if self._page is not None else ()
        if self._request.follow in names:
            return names.index(self._request.follow)
        return max(0, min(self._request.focus, len(names) - 1))

    def _keep_order(self, name: str, pinned: tuple[str, ...]) -> None:
        """Take in and keep an order; the cursor stays on chart `name`."""
        keep_pinned_charts(self._state, pinned)
        self._ask(pinned=pinned, follow=name)

    # ── the filter ────────────────────────────────────────────────────────────────────────────────

    def action_filter(self) -> None:
        """Open the line to type a filter in."""
        if not self.query("#metrics-filter"):
            hint = "metrics whose name matches this regular expression"
            self.mount(
                Input(self._request.pattern, hint, id="metrics-filter"), after="#metrics-body"
            )
        self.query_one("#metrics-filter").focus()

    @on(Input.Changed, "#metrics-filter")
    def _filter_changed(self, message: Input.Changed) -> None:
        self._ask(pattern=message.value, focus=0, follow="")

    @on(Input.Submitted, "#metrics-filter")
    def _close_filter(self) -> None:
        self.query("#metrics-filter").remove()
        self.grid.focus()
