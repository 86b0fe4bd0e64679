"""Launching on another machine: the preset's name, what is changed, and the plan made there."""

import shlex
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
from runners.places.ssh.link import RemoteRequest
from tui.panel.remote.links import LinkedHost
from tui.views.safe import safe_cell

_AFTER_TYPING_S = 0.4


class HostLaunchScreen(ModalScreen[list[str] | None]):
    """Returns the words of the command to run there, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close"),
        Binding("f2,ctrl+s", "launch", "Launch"),
    ]

    def __init__(self, one: LinkedHost, presets: list[str]) -> None:
        super().__init__()
        self.one = one
        self._presets = presets
        self._typing: Timer | None = None
        self._asked: list[str] = []

    def compose(self) -> ComposeResult:
        """Three fields and the plan."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = f"Launch on {self.one.name}"
            dialog.border_subtitle = "F2 launch · Esc close"
            for name, hint in (
                ("preset", "a preset's name; → completes it"),
                ("changes", "epochs=10 lr=1e-4"),
                ("gpus", "a count, or which: 0-3; empty: as the preset says"),
            ):
                with Horizontal(classes="field"):
                    yield Label(name, classes="name")
                    suggester = SuggestFromList(self._presets) if name == "preset" else None
                    yield Input(placeholder=hint, id=name, compact=True, suggester=suggester)
            with VerticalScroll(can_focus=False):
                yield Static("presets there: " + ", ".join(self._presets), id="plan", markup=False)

    def on_mount(self) -> None:
        """The preset first."""
        self.query_one("#preset").focus()

    @on(Input.Changed)
    def _plan_soon(self) -> None:
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_AFTER_TYPING_S, self._plan)

    def _plan(self) -> None:
        try:
            words = self.words("plan")
        except (WrongInput, ValueError) as error:
            self.query_one("#plan", Static).update(str(error))
            return
        if words[1]:
            self._asked = words
            self.one.do(words, lambda done: self._show_plan(words, done))

    def _show_plan(self, words: list[str], done: RemoteRequest) -> None:
        if not self.is_mounted or words != self._asked:
            return
        text = (done.output + done.errors).decode("utf-8", "replace")
        lines = [safe_cell(line) for line in (done.problem or text).splitlines()]
        self.query_one("#plan", Static).update("\n".join(lines))

    def words(self, command: str) -> list[str]:
        """The command that does it there. ValueError for a quote that is not closed."""
        preset, changes, gpus = (
            self.query_one(f"#{name}", Input).value.strip()
            for name in ("preset", "changes", "gpus")
        )
        words = [command, preset]
        overrides = shlex.split(changes)
        for change in overrides:
            words += ["--set", change]
        if gpus:
            words += ["--gpus" if gpus.isdigit() or gpus == "all" else "--gpu-ids", gpus]
        return words + self.one.pushed(preset, overrides)

    def action_launch(self) -> None:
        """Done."""
        try:
            words = self.words("launch")
        except ValueError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if words[1]:
            self.dismiss(words)
