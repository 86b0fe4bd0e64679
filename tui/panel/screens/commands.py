"""The command log: what was done here, as commands to copy or to write into a script."""

import os
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from runners.host.clock import local_time
from runners.host.files import current_folder
from tui.panel.command_log import CommandLog, Undone
from tui.panel.screen_keys import COMMAND_KEYS
from tui.panel.screens.dialogs import ListDialog, dialog_box
from tui.panel.terminal.osc import describe_sent, osc52, send
from tui.panel.widgets.choice_list import ChoiceList

_SCRIPT = "fresnel-commands.sh"
_SHOWN = 240
"""Letters of a command: one about forty runs would leave no room for the others."""


class CommandScreen(ListDialog[None]):
    """A line per command; `y` copies the one under the cursor, `w` writes them all."""

    BINDINGS: ClassVar[list[BindingType]] = COMMAND_KEYS

    def __init__(self, log: CommandLog) -> None:
        super().__init__()
        self.log_ = log

    def compose(self) -> ComposeResult:
        keys = "y copy · w write a script · Esc close"
        with dialog_box("This session's actions as commands", keys):
            if not self.log_.lines:
                yield Static("nothing yet: launching and stopping runs will stand here")
            options = [
                Option(_line(when, line, self.log_.undone.get(number)))
                for number, (when, line) in enumerate(self.log_.lines)
            ]
            yield ChoiceList(*options, id="commands")

    def on_mount(self) -> None:
        lines = self.query_one(OptionList)
        lines.display = bool(self.log_.lines)
        lines.highlighted = len(self.log_.lines) - 1 if self.log_.lines else None
        lines.focus()

    def action_copy(self) -> None:
        """Send the command under the cursor to the clipboard."""
        place = self.query_one(OptionList).highlighted
        if place is None:
            self.notify("no command to copy yet", timeout=4)
            return
        line = self.log_.lines[place][1].encode()
        send(self.app, osc52(line, os.environ))
        self.notify(
            describe_sent("1 command", len(line), False, os.environ), timeout=4, markup=False
        )

    def action_write(self) -> None:
        """Write all of them into a script in the folder the panel was started in."""
        path = current_folder() / _SCRIPT
        try:
            path.write_text(self.log_.script)
            path.chmod(0o755)
        except OSError as error:
            self.notify(f"{path}: {error.strerror}", severity="error", markup=False)
        else:
            self.notify(f"wrote {len(self.log_.lines)} commands to {path}", timeout=4, markup=False)


def _line(when: float, line: str, undone: Undone | None) -> Text:
    text = Text.assemble((local_time(when, "%H:%M:%S  "), "dim"))
    if len(line) > _SHOWN:
        shown = line[:_SHOWN].rpartition(" ")[0]
        line = f"{shown} … and {len(line[len(shown) :].split())} words more"
    if undone is None:
        return text.append(line)
    text.append(f"{undone.mark} ", style="red" if undone.is_whole else "yellow").append(line)
    for why in undone.why.splitlines():
        text.append(f"\n          {why}", style="dim")
    return text
