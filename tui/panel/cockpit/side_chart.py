"""The chart of the selected run beside its log: when it stands there, and how it is drawn."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from textual import on

from runners.places.run_row import RunRow
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.panel.cockpit.cockpit_parts import WIDE, CockpitParts
from tui.panel.panel_memory import recall, remember
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.metrics.chart_model import ChartModel, ChartPage
from tui.panel.widgets.metrics.chart_request import ChartOptions, ChartRequest, RunCurve
from tui.panel.widgets.metrics.grid import ChartGrid

_SETTLES_S = 0.15
"""Who passes over twenty runs looks at the last."""
_AGAIN_S = 5.0
"""A live run's curve is drawn anew so often: beside a log nobody reads single steps off it."""


class ChartedRun(NamedTuple):
    """The run of this machine that is drawn, and by which metric."""

    run_id: str
    metric: str
    letter: str
    colour: str


class RunChart(ChartGrid, can_focus=False, inherit_bindings=False):
    """Draws what it is given; a thread reads the curve."""

    DEFAULT_CSS = """
    RunChart { width: 50; height: 1fr; border: round $foreground 35%; }
    """

    def __init__(self, state: StateDirectory) -> None:
        super().__init__()
        self._state = state
        self._model = ChartModel()
        # One thread: it owns the series, so that nothing is locked.
        self._thread = ThreadPoolExecutor(1, "run-chart")
        self._charted: ChartedRun | None = None
        self._changed = asyncio.Event()
        self._drawn_at = 0.0

    def on_mount(self) -> None:
        self.run_worker(self._draw_on(), group="run-chart")

    def on_unmount(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def chart(self, charted: ChartedRun, is_live: bool) -> None:
        """Draw this from now on; what lives, again and again."""
        is_old = is_live and asyncio.get_running_loop().time() > self._drawn_at + _AGAIN_S
        if charted != self._charted or is_old:
            self._charted = charted
            self._changed.set()

    @on(ChartGrid.Resized)
    def _resized(self, message: ChartGrid.Resized) -> None:
        message.stop()
        self._changed.set()

    async def _draw_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLES_S)
            # Not before the pause: runs that were passed over in it would each be drawn.
            self._changed.clear()
            charted, size = self._charted, self.size
            if charted is None or size.width < 8 or size.height < 3:
                continue
            page = await loop.run_in_executor(self._thread, self._draw, charted, *size)
            self._drawn_at = loop.time()
            # Else another run is looked at by now: this chart would be seen beside its log.
            if not self._changed.is_set():
                self.show(page, "no values")

    def _draw(self, charted: ChartedRun, width: int, height: int) -> ChartPage:
        run = read_run(self._state, charted.run_id)
        marks = (RunCurve(run, charted.letter, charted.colour),)
        while self._model.read(marks) and not self._changed.is_set():
            pass  # in pieces: somebody may look at another run meanwhile
        request = ChartRequest(marks, width, height, ChartOptions(), alone=True, focused=False)
        return self._model.draw(request._replace(follow=charted.metric))


class SideChart:
    """There where it is wanted, the screen is wide, and the line is not slow."""

    def __init__(self, parts: CockpitParts) -> None:
        self._parts = parts
        self._is_wanted = recall(parts.state).get("chart") is not False
        self._was_slow = False

    def toggle(self) -> None:
        """Show it, or no longer; the next panel begins with that."""
        row, why = self._parts.pane.selected_row, ""
        if self._app.size.width < WIDE:
            why = f"the chart stands beside the log from {WIDE} columns on"
        elif self._app.painter.is_slow:
            why = "the line is slow: no chart is painted"
        elif row is not None and row.machine:
            why = "runs of other machines have none beside the log: m shows their curves"
        elif row is None or not self._metric(row):
            why = "the chart stands beside the log of runs that report a metric"
        if why:
            self._parts.screen.notify(why, timeout=4)
            return
        self._is_wanted = self._was_slow or not self._is_wanted
        self._was_slow = False
        if not self._parts.read_only:
            remember(self._parts.state, chart=self._is_wanted)
        self.show()

    def show(self) -> None:
        """Draw the run under the cursor, if it is to be drawn."""
        row = self._parts.pane.selected_row
        # It does not come back by itself: a log that changes its width is sent anew, as a whole.
        self._was_slow |= self._app.painter.is_slow
        metric = self._metric(row) if row is not None and not row.machine else None
        is_shown = self._is_wanted and not self._was_slow and bool(metric)
        is_shown &= self._app.size.width >= WIDE
        charts = self._parts.area.query(RunChart)
        chart = charts.first() if charts else None
        if chart is not None:
            chart.set_class(not is_shown, "-away")
        if not is_shown or row is None or not metric:
            return
        if chart is None:
            chart = RunChart(self._parts.state)
            self._parts.area.query_one("#logs").mount(chart)
        snapshot = self._parts.snapshot
        letter = snapshot.letters.get(row.id, "") if snapshot is not None else ""
        colour = run_colour(letter or "A", self._app.current_theme)
        chart.chart(ChartedRun(row.run_id, metric, letter, colour), row.is_live)

    @property
    def _app(self) -> Any:
        return self._parts.app

    def _metric(self, row: RunRow) -> str | None:
        """The metric whose best value the table shows."""
        return self._parts.pane.lines.choice.metric or row.judge
