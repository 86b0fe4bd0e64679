"""The rented machines: how each is reached, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.panel.hotkeys import HintRows, hotkey, key_hints
from tui.panel.screens.dialogs import ListDialog, dialog_box
from tui.panel.widgets.choice_list import ChoiceList
from tui.views.safe import safe_cell

_EVERY_S = 1.0
_RETRY = "retry"
_NONE_YET = "no rented machine yet: a adds one"


class MachineLine(NamedTuple):
    """A machine's name, and how it stands in words."""

    name: str
    summary: str
    is_reached: bool


class MachinesScreen(ListDialog[tuple[str, str] | None]):
    """Returns what to do and the machine's name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,H", "dismiss(None)", "close"),
        hotkey("n,enter", "choose('launch')", "launch on the machine", "launch there"),
        hotkey("t", "choose('retry')", "retry the connection", _RETRY),
        hotkey("a", "choose('add')", "add a machine", "add"),
        hotkey("u", "choose('setup')", "set it up, or bring it up to date", "set up"),
        hotkey("c", "choose('connect')", "log in, where a password has to be typed", "log in"),
        hotkey("e", "choose('end')", "end it: results first, then the end command", "end"),
    ]

    def __init__(self, read: Callable[[], Sequence[MachineLine]], read_only: bool) -> None:
        """`read` has the machines as they stand now."""
        super().__init__()
        self._read = read
        self._read_only = read_only
        self._lines: tuple[MachineLine, ...] = ()

    def compose(self) -> ComposeResult:
        with dialog_box("Rented machines", "Esc close", "wide fit"):
            yield ChoiceList(id="machines")
            hints = key_hints(self.BINDINGS)
            shown = [hint for hint in hints if hint[1] == _RETRY or not self._read_only]
            yield HintRows(shown, id="machine-keys")

    def on_mount(self) -> None:
        self.set_interval(_EVERY_S, self._refresh)
        self._refresh()
        self.query_one(OptionList).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A panel that only shows reaches for machines, and does nothing to them."""
        return not (self._read_only and action == "choose" and parameters != ("retry",))

    def _refresh(self) -> None:
        lines = tuple(self._read())
        if lines == self._lines and self.query_one(OptionList).option_count:
            return
        machines = self.query_one(OptionList)
        is_first, chosen, self._lines = not self._lines, self._chosen, lines
        machines.clear_options()
        machines.add_options([Option(_text(line)) for line in lines])
        if not lines:
            machines.add_option(Option(Text(_NONE_YET, style="dim"), disabled=True))
        elif is_first:
            machines.highlighted = 0
        elif chosen is not None:
            # On its machine; on none where that is gone: no key is meant for another one.
            names = [line.name for line in lines]
            machines.highlighted = names.index(chosen.name) if chosen.name in names else None

    @property
    def _chosen(self) -> MachineLine | None:
        """The machine under the cursor."""
        at = self.query_one(OptionList).highlighted
        return self._lines[at] if at is not None and at < len(self._lines) else None

    def on_option_list_option_selected(self) -> None:
        """Enter, or a click, launches there."""
        if not self._read_only:
            self.action_choose("launch")

    def action_choose(self, what: str) -> None:
        """Answer with this and the machine under the cursor."""
        chosen = self._chosen
        if what == "add":
            self.dismiss((what, ""))
        elif chosen is not None:
            self.dismiss((what, chosen.name))
        else:
            self.notify("choose a machine" if self._lines else _NONE_YET, timeout=4)


def _text(line: MachineLine) -> Text:
    text = Text("● " if line.is_reached else "○ ", style="green" if line.is_reached else "yellow")
    text.append(line.name, style="bold").append(f"  {safe_cell(line.summary)}")
    text.no_wrap, text.overflow = False, "fold"
    return text
