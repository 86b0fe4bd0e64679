"""Textual's command palette, where keys and clicks come faster than it opens and closes."""

from typing import Any

from textual.app import App
from textual.command import CommandList, CommandPalette
from textual.theme import ThemeProvider
from textual.worker import Worker

from tui.panel.terminal.repainting import panel_screen
from tui.panel.widgets.choice_list import ignore_a_stale_click

CommandList.on_click = ignore_a_stale_click  # type: ignore[attr-defined]


@panel_screen
class Palette(CommandPalette):
    """Everything by its name. A search that ends after it has closed ends nothing else."""

    def run_worker(self, work: Any, *options: Any, **named: Any) -> Worker[Any]:
        """As any screen does."""
        return super().run_worker(work, *options, **named | {"exit_on_error": False})


class OpensPalettes(App[Any]):
    """An application of which this is the palette."""

    def action_command_palette(self) -> None:
        """Open it."""
        if not Palette.is_open(self):
            self.push_screen(Palette(id="--command-palette"))

    def search_themes(self) -> None:
        """Open one with the themes alone."""
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))
