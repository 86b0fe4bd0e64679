"""Launching at another place: what, what is changed, on which GPUs, and the plan made there."""

import shlex
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.timer import Timer
from textual.widgets import Input, Label, Static

from runners.model.errors import WrongInput
from runners.places.actions import Outcome
from runners.places.place import Place
from tui.views.safe import safe_cell

_AFTER_TYPING_S = 0.4


class PlaceLaunchScreen(ModalScreen[list[str] | None]):
    """Returns the words of the command to run there, or None.

    With `again` (`--again RUN` or `--resume RUN`) that run is launched, else one of `presets`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close"),
        Binding("f2,ctrl+s", "launch", "Launch"),
        Binding("f7", "check", "Check"),
    ]

    def __init__(
        self,
        place: Place,
        title: str,
        presets: Sequence[str] = (),
        again: Sequence[str] = (),
        arguments_for: Callable[[str, list[str]], list[str]] = lambda preset, given: [],
    ) -> None:
        """`arguments_for` has the flags with which a preset finds its files on the machine."""
        super().__init__()
        self._place = place
        self._title = title
        self._presets = presets
        self._again = list(again)
        self._arguments_for = arguments_for
        self._typing: Timer | None = None
        self._shown_command: list[str] = []

    def compose(self) -> ComposeResult:
        """The fields and the plan."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = self._title
            dialog.border_subtitle = "F2 launch · F7 check · Esc close"
            hints = {
                "preset": "a preset's name; → completes it",
                "changes": "epochs=10 lr=1e-4",
                "gpus": "a count, or which: 0-3; empty: as it says itself",
            }
            for name, hint in hints.items():
                if name == "preset" and self._again:
                    continue
                with Horizontal(classes="field"):
                    yield Label(name, classes="name")
                    suggester = SuggestFromList(self._presets) if name == "preset" else None
                    yield Input(placeholder=hint, id=name, compact=True, suggester=suggester)
            with VerticalScroll(can_focus=False):
                known = f"presets there: {', '.join(self._presets)}" if self._presets else ""
                yield Static(known, id="plan", markup=False)

    def on_mount(self) -> None:
        """The first field has the keys; what needs no preset is planned at once."""
        self.query(Input).first().focus()
        if self._again:
            self._plan()

    @on(Input.Changed)
    def _plan_soon(self) -> None:
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_AFTER_TYPING_S, self._plan)

    def _plan(self) -> None:
        self._show("plan")

    def action_check(self) -> None:
        """Check there what stands in the fields: programs, GPUs, data."""
        self._show("verify")

    def _show(self, command: str) -> None:
        """Run a command that only looks, and show what it says."""
        try:
            command_line = self._arguments(command)
        except (WrongInput, ValueError) as error:
            self.query_one("#plan", Static).update(str(error))
            return
        if command_line is not None:
            self._shown_command = command_line
            app = self.app

            def done(outcome: Outcome) -> None:  # in any thread
                if app.is_running:
                    app.call_later(self._take_text, command_line, outcome)

            self._place.command(command_line, done)

    def _take_text(self, command_line: list[str], outcome: Outcome) -> None:
        if not self.is_mounted or command_line != self._shown_command:
            return
        text = "\n".join(part for part in (outcome.output, outcome.problem) if part)
        shown = "\n".join(safe_cell(line) for line in text.splitlines())
        self.query_one("#plan", Static).update(shown)

    def _value(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def _arguments(self, command: str) -> list[str] | None:
        """The command that does it there; None while no preset is named.

        Raises ValueError for a quote that is not closed.
        """
        overrides, gpus = shlex.split(self._value("changes")), self._value("gpus")
        arguments = [command]
        if self._again:
            arguments += self._again
        elif preset := self._value("preset"):
            arguments += [preset, *self._arguments_for(preset, overrides)]
        else:
            return None
        for change in overrides:
            arguments += ["--set", change]
        if gpus:
            arguments += ["--gpus" if gpus.isdigit() or gpus == "all" else "--gpu-ids", gpus]
        return arguments

    def action_launch(self) -> None:
        """Return the command."""
        try:
            arguments = self._arguments("launch")
        except ValueError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if arguments is not None:
            self.dismiss(arguments)
