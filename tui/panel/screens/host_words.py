"""What a command on another machine said, to be read and left."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from runners.places.ssh.link import RemoteRequest
from tui.views.safe import safe_cell


class HostWordsScreen(ModalScreen[None]):
    """A text that comes a moment later."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._text = "asking…"

    def compose(self) -> ComposeResult:
        """One text that scrolls."""
        with VerticalScroll(classes="dialog wide") as dialog:
            dialog.border_title = self._title
            dialog.border_subtitle = "Esc closes"
            yield Static(self._text, id="words", markup=False)

    def tell(self, request: RemoteRequest) -> None:
        """Show what the command came to, unless somebody has closed this meanwhile."""
        text = (request.output + request.errors).decode("utf-8", "replace")
        lines = [safe_cell(line) for line in (request.problem or text).splitlines()]
        self._text = "\n".join(lines) or "it said nothing"
        for shown in self.query("#words").results(Static):
            shown.update(self._text)
