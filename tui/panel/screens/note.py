"""A note on a run: a text of several lines."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static, TextArea

from runners.lifecycle.control.labels import checked_note
from runners.model.errors import FresnelError
from runners.model.run import Run
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import Dialog, dialog_box

_KEYS = "Ctrl+S or F2 save · Enter new line · Esc cancel"


class NoteScreen(Dialog[str | None]):
    """The note of one run to write on; returns the text, or None when it is to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the text area, which would take them as text or for itself.
        hotkey("ctrl+s,f2", "save", "save the note", priority=True),
        hotkey("escape", "leave", "close; asks before a changed text is lost", priority=True),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._leaving = False

    def compose(self) -> ComposeResult:
        with dialog_box(f"Note on {self._run.name}", _KEYS, "note"):
            yield TextArea(self._run.labels.note, compact=True, id="note", tab_behavior="focus")
            yield Static(id="wrong")

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    def on_text_area_changed(self) -> None:
        """A text that goes on changing is not about to be given up."""
        self._leaving = False
        self.query_one("#wrong", Static).update("")

    def action_save(self) -> None:
        """Take it, unless it will not do."""
        text = self.query_one(TextArea).text
        try:
            self.dismiss(checked_note(text))
        except FresnelError as error:
            self.query_one("#wrong", Static).update(Text(str(error), style="red"))

    def action_leave(self) -> None:
        """Leave; what was changed is given up only when Esc comes again."""
        changed = self.query_one(TextArea).text.strip() != self._run.labels.note
        if changed and not self._leaving:
            self._leaving = True
            notice = "changed: Ctrl+S saves it, Esc again discards the changes"
            self.query_one("#wrong", Static).update(Text(notice, style="yellow"))
        else:
            self.dismiss(None)
