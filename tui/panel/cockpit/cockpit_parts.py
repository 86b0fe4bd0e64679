"""What the cockpit's actions and the pages above it start from: snapshot, choice, commands."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.screen import Screen

from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.panel.cockpit.remote_side import RemoteSide
from tui.panel.run_commands import RunCommands
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_view import RunView, view_run

WIDE = 160
"""Columns from which a log has some to give away to a chart."""


class CockpitParts:
    """The cockpit's screen and panes, the newest snapshot, and who does what is asked for."""

    def __init__(
        self, screen: Screen[None], state: StateDirectory, commands: RunCommands, read_only: bool
    ) -> None:
        self.screen = screen
        self.state = state
        self.commands = commands
        self.read_only = read_only
        self.snapshot: PanelSnapshot | None = None
        self.remote = RemoteSide(screen, state)

    @property
    def app(self) -> App[Any]:
        """The panel."""
        return self.screen.app

    @property
    def pane(self) -> RunPane:
        """The runs."""
        return self.screen.query_one(RunPane)

    @property
    def area(self) -> LogArea:
        """The logs."""
        return self.screen.query_one(LogArea)

    def view_of(self, run_id: str) -> RunView | None:
        """A run of this machine in full, read anew when it ended long ago; None when it is gone."""
        runs = self.snapshot.runs if self.snapshot else ()
        found = next((view for view in runs if view.run.id == run_id), None)
        if found is None and self.state.run(run_id).path.is_dir():
            return view_run(read_run(self.state, run_id))
        return found
