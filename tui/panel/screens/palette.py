"""Textual's command palette, where keys and clicks come faster than it opens and closes."""

from typing import Any

from textual.command import CommandList, CommandPalette
from textual.worker import Worker

from tui.panel.terminal.repainting import panel_screen
from tui.panel.widgets.choice_list import acts_on_what_is_seen

acts_on_what_is_seen(CommandList)


@panel_screen
class Palette(CommandPalette):
    """Everything by its name. A search that ends after it has closed ends nothing else."""

    def run_worker(self, work: Any, *options: Any, **named: Any) -> Worker[Any]:
        """As any screen does."""
        return super().run_worker(work, *options, **named | {"exit_on_error": False})
