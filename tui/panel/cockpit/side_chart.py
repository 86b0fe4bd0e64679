"""When the chart of the selected run stands beside its log."""

from __future__ import annotations

from typing import Any

from runners.places.run_row import RunRow
from tui.panel.cockpit.cockpit_parts import WIDE, CockpitParts
from tui.panel.panel_memory import recall, remember
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.metrics.run_chart import ChartedRun, RunChart


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
