"""Two small dialogs: a line to type in, and a question to which no is the harmless answer."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static


class AskScreen(ModalScreen[str | None]):
    """Returns what was typed, or None when it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._title, self._value, self._hint = title, value, hint

    def compose(self) -> ComposeResult:
        """A line to type in, and what it means."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Text(self._title)
            dialog.border_subtitle = "Enter takes it · Esc leaves it"
            yield Input(self._value, compact=True, id="answer", select_on_focus=False)
            if self._hint:
                yield Static(Text(self._hint, style="dim"))

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Answer."""
        self.dismiss(message.value)


class ConfirmScreen(ModalScreen[bool]):
    """Returns whether to do it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape", "dismiss(False)", "No"),
    ]

    def __init__(self, title: str, text: str, yes: str) -> None:
        """`yes`: what the button that does it says."""
        super().__init__()
        self._title, self._text, self._yes = title, text, yes

    def compose(self) -> ComposeResult:
        """What happens, and two buttons."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Text(self._title)
            yield Static(Text(self._text))
            with Horizontal(classes="buttons"):
                yield Button(f"{self._yes} (y)", id="yes", variant="warning", compact=True)
                yield Button("No (n)", id="no", compact=True)

    def on_mount(self) -> None:
        """The harmless answer has the focus."""
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer."""
        self.dismiss(event.button.id == "yes")
