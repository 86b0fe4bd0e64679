"""The checks before a launch: PASS, WARN and FAIL, with what to do; launched from here or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Button, Static

from runners.verify.verify import Verification
from tui.panel.hotkeys import hotkey
from tui.panel.launch_planner import LaunchPlanner, LaunchRequest
from tui.panel.screens.dialogs import Dialog, PageScroll, dialog_box, is_open
from tui.snapshot.questions import LaunchQuestion
from tui.views.health.verification_text import counts_text
from tui.views.safe import safe_cell

_ORDER = {"FAIL": 0, "WARN": 1, "PASS": 2}
_STYLES = {"FAIL": "bold red", "WARN": "yellow", "PASS": "dim"}


class VerifyScreen(Dialog[bool]):
    """Returns whether to launch what was checked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,f7", "dismiss(False)", "back to the form"),
        hotkey("f2,ctrl+s", "dismiss(True)", "launch it as it was checked"),
    ]

    def __init__(self, request: LaunchRequest, planner: LaunchPlanner) -> None:
        super().__init__()
        self.request = request
        self.planner = planner

    def compose(self) -> ComposeResult:
        where = f" on {self.planner.name}" if self.planner.name else ""
        title = f"Checks{where}: {', '.join(spec.name for spec in self.request.specs)}"
        with dialog_box(title, "↑↓ scroll · F2 launch · Esc back to the form", "wide"):
            with PageScroll(id="checks"):
                yield Static("checking the interpreter, data and GPUs…", id="found")
            with Horizontal(classes="buttons"):
                yield Button("Launch (F2)", id="launch-checked", variant="success", compact=True)
                yield Button("Back (Esc)", id="back", compact=True)

    def on_mount(self) -> None:
        """Have it checked, which takes seconds."""
        self.query_one("#checks").focus()
        self.planner.ask(
            LaunchQuestion.VERIFY,
            self.request,
            lambda found: self._show(_findings_text(found.runs)),
            lambda problem: self._show(Text(problem, style="red")),
        )

    def _show(self, text: Text) -> None:
        if is_open(self):
            self.query_one("#found", Static).update(text)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "launch-checked")


def _findings_text(found: Sequence[Verification]) -> Text:
    """What fails first, then warnings, then what passes."""
    text = Text()
    for result in found:
        heading = f"{result.name}: " if len(found) > 1 else ""
        text.append(f"{heading}{counts_text(result)}\n", style="bold")
        for _, check in sorted(result.checks, key=lambda judged: _ORDER[judged.check.verdict]):
            text.append(check.verdict, style=_STYLES[check.verdict])
            text.append(f"  {check.name}: {safe_cell(check.message)}\n")
            if check.advice and check.verdict != "PASS":
                text.append(f"      {safe_cell(check.advice)}\n", style="italic")
        text.append("\n")
    return text
