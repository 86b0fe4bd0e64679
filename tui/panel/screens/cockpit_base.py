"""What the cockpit's actions and the pages above it start from: snapshot, choice, commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.panel.remote.side import RemoteSide
from tui.panel.run_commands import RunCommands
from tui.panel.terminal.painting import PaintedOnce
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_view import RunView

if TYPE_CHECKING:
    from tui.panel.money_commands import MoneyCommands


class Cockpit(PaintedOnce[None]):
    """The newest snapshot, the run pane's choice, and who carries out what is asked for."""

    def __init__(self, state: StateDirectory, runs: RunCommands, read_only: bool) -> None:
        super().__init__()
        self.state = state
        self.commands = runs
        self._money: MoneyCommands | None = None
        self.read_only = read_only
        self.snapshot: PanelSnapshot | None = None
        self.remote = RemoteSide(self, state, runs.log)

    @property
    def selected_run(self) -> Run | None:
        """The run under the cursor."""
        view = self.query_one(RunPane).selected
        return view.run if view else None

    @property
    def chosen_runs(self) -> list[Run]:
        """The marked runs, else those of the folded group, else the one under the cursor."""
        pane = self.query_one(RunPane)
        views = [pane.view_of(row.id) for row in pane.chosen]
        return [view.run for view in views if view is not None]

    def chosen_views(self, most: int) -> list[RunView]:
        """The marked runs, else the selected one, in full; at most so many."""
        pane = self.query_one(RunPane)
        views = (pane.view_of(row.id) for row in pane.chosen[:most])
        return [view for view in views if view is not None]

    @property
    def area(self) -> LogArea:
        """The logs."""
        return self.query_one(LogArea)

    @property
    def money(self) -> MoneyCommands:
        """What may be done about session and guard; imported when first asked for."""
        if self._money is None:
            from tui.panel.money_commands import MoneyCommands

            runs = self.commands
            self._money = MoneyCommands(self.app, self.state, runs.feed, runs.log)
        return self._money
