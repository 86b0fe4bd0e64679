"""Where a run shall be launched: this machine, each of the others, or whichever suits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import ListDialog, dialog_box
from tui.panel.widgets.choice_list import ChoiceList
from tui.views.safe import safe_cell

if TYPE_CHECKING:
    from tui.panel.launch_planner import LaunchPlanner


class MachineOption(NamedTuple):
    """A machine in the list: its name, how it stands, and why nothing starts there now."""

    name: str
    about: str
    obstacle: str = ""

    @property
    def line(self) -> Text:
        """Name and state, without colour alone saying anything."""
        text = Text("⚠ " if self.obstacle else "  ", style="yellow" if self.obstacle else "")
        text.append(f"{safe_cell(self.name or 'this machine'):<16}", style="bold")
        return text.append(safe_cell(f"  {self.obstacle or self.about}"))


class MachineChoiceScreen(ListDialog[int | None]):
    """Returns the number of the machine in the list, from 0; None when none was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,f8", "dismiss(None)", "close; the machine stays"),
    ]

    def __init__(self, machines: Sequence[MachineOption], at: int) -> None:
        """`at` is the one that is chosen now."""
        super().__init__()
        self._machines = machines
        self._at = at

    def compose(self) -> ComposeResult:
        with dialog_box("Launch on", "Enter choose · Esc close"):
            options = [Option(machine.line) for machine in self._machines]
            yield ChoiceList(*options, id="launch-machines")

    def on_mount(self) -> None:
        machines = self.query_one(OptionList)
        machines.highlighted = self._at
        machines.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter, or a click; nothing starts on one that is not reached."""
        chosen = self._machines[event.option_index]
        if chosen.obstacle:
            self.notify(chosen.obstacle, severity="warning", timeout=4, markup=False)
        else:
            self.dismiss(event.option_index)


def choose_machine(
    app: App[Any],
    planners: Sequence[LaunchPlanner],
    present: LaunchPlanner,
    then: Callable[[LaunchPlanner], None],
) -> None:
    """Have one of these chosen; `then` is called with another one than the present."""
    if len(planners) < 2:
        app.notify("there is no other machine: H adds one", timeout=4)
        return

    def chosen(number: int | None) -> None:
        if number is not None and planners[number] is not present:
            then(planners[number])

    machines = [MachineOption(each.name, each.about, each.obstacle) for each in planners]
    app.push_screen(MachineChoiceScreen(machines, planners.index(present)), chosen)
