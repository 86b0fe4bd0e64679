"""Settings and environment of one run beside the charts.
What other marked runs have otherwise is marked.
"""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from tui.panel.widgets.metrics.chart_request import RunCurve
from tui.panel.widgets.metrics.run_environment import describe, draw_details
from tui.snapshot.curve_store import CurveStore
from tui.views.runs.run_settings import settings_of
from tui.views.runs.run_view import RunView

_WIDTH = 44
_FRAME = 4


class SettingsPane(VerticalScroll):
    """What a run was started with, and where; painted when it differs."""

    def compose(self) -> ComposeResult:
        """One text; it scrolls."""
        yield Static(id="metrics-details-text", markup=False)

    def show(
        self, view: RunView, letter: str, marks: tuple[RunCurve, ...], store: CurveStore
    ) -> None:
        """Show `view`'s, beside those of the other marked runs."""
        reported, notes = store.settings(view.run.id), store.notes(view.run.id)
        others = [
            settings_of(mark.run, store.settings(mark.run.id))
            for mark in marks
            if mark.run.id != view.run.id
        ]
        title = f"{letter} {view.run.name or view.run.id}"
        width = min(_WIDTH, self.screen.size.width // 2) - _FRAME
        text = draw_details(title, describe(view, reported, notes), others, width)
        # None yet while the page is being made: the next snapshot, a second later, says it.
        for lines in self.query(Static):
            if text != lines.content:
                lines.update(text)
