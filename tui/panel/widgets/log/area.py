"""The place of the logs: the selected run's, another one beside it, and the line to type in."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widgets import Input

from runners.host.files import current_folder
from tui.panel.hotkeys import hotkey
from tui.panel.terminal.osc import describe_sent, osc52, send
from tui.panel.widgets.log.messages import (
    InputWanted,
    LinesCopied,
    LogNotice,
)
from tui.panel.widgets.log.pane import LogPane

_BESIDE = 120  # columns from which two logs stand side by side


PROMPTS = {
    "search": "search in the log: text, or /regex/",
    "filter": "show only lines with: text, or /regex/; empty: all",
    "goto": "go to: a line's number, or a percentage as 50%",
    "write": "write to the file: (a ! at the end overwrites)",
}
"""What may be asked for, and the words above the line."""


class SearchBar(Input):
    """A line to type in. Text between slashes is a regular expression: `/loss: nan|inf/`."""

    purpose = "search"

    def open(self, purpose: str, value: str) -> None:
        """Show up and take the keys, asking for this."""
        self.purpose = purpose
        self.border_title = PROMPTS[purpose]
        self.value = value
        self.display = True
        self.focus()

    @property
    def wanted(self) -> tuple[str, bool]:
        """The pattern, and whether it is a regular expression."""
        text = self.value
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            return text[1:-1], True
        return text, False


class LogArea(Vertical):
    """Log panes and what they need of the screen: a line to type in, notices, the clipboard."""

    DEFAULT_CSS = """
    LogArea {
        height: 1fr;
        #logs { layout: horizontal; height: 1fr; }
        &.narrow #logs { layout: vertical; }
        LogPane { width: 1fr; height: 1fr; }
        &.one LogPane { display: none; }
        &.one LogPane.only { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape", "leave", "end the selection, or else the filter")
    ]
    ALLOW_MAXIMIZE: ClassVar[bool | None] = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._folder = current_folder()
        self._path: Path | None = None
        self._title = ""
        self._asking_pane: LogPane | None = None
        self._insist = ""

    def compose(self) -> ComposeResult:
        with Container(id="logs"):
            yield LogPane(id="log")
        yield SearchBar(id="search")

    def on_mount(self) -> None:
        self.bar.display = False

    def on_resize(self, event: events.Resize) -> None:
        """Two logs side by side where there is room, else one above the other."""
        self.set_class(event.size.width < _BESIDE, "narrow")

    @property
    def log_pane(self) -> LogPane:
        """The selected run's log."""
        return self.query_one("#log", LogPane)

    @property
    def bar(self) -> SearchBar:
        """The line to type in."""
        return self.query_one("#search", SearchBar)

    @property
    def current(self) -> LogPane:
        """The log that keys mean: the focused one, else the selected run's."""
        focused = self.screen.focused
        return focused if isinstance(focused, LogPane) else self.log_pane

    def show(self, path: Path | None, title: str) -> None:
        """Show another run's log, or none; a pinned one stays."""
        self._path, self._title = path, title
        self.log_pane.show(path, title)

    @property
    def shown_paths(self) -> list[Path]:
        """The files that are shown, pinned ones too."""
        found = (pane.reader.document.path for pane in self.query(LogPane))
        return [path for path in found if path is not None]

    def explain(self, lines: tuple[str, ...]) -> None:
        """Say this in the selected run's log as long as nothing is written there."""
        if lines != self.log_pane.explanation:
            self.log_pane.explanation = lines
            self.log_pane.refresh()

    async def toggle_split(self) -> None:
        """Pin the log that is shown to the left of the next one chosen; again: close it."""
        pinned = self.query("#pinned")
        if pinned:
            focused = self.screen.focused is pinned.first()
            await pinned.remove()
            if focused:
                self.log_pane.focus()
        elif self._path is not None:
            pane = LogPane(id="pinned")
            await self.query_one("#logs").mount(pane, before=self.log_pane)
            pane.show(self._path, f"pinned: {self._title}")
        else:
            self._notify("no log is shown that could be pinned")

    def show_only(self, pane: LogPane | None) -> None:
        """Give one of two logs the whole place, or both again."""
        self.set_class(pane is not None, "one")
        for each in self.query(LogPane):
            each.set_class(each is pane, "only")

    # ---- the line to type in

    @on(InputWanted)
    def _ask(self, message: InputWanted) -> None:
        self.ask(message.purpose)

    def ask(self, purpose: str) -> None:
        """Open the line to type in, for this."""
        pane = self._asking_pane = self.current
        self._insist = value = ""
        chosen = pane.reader.document.filter
        if purpose == "filter" and chosen is not None:
            value = f"/{chosen.text}/" if chosen.regex else chosen.text
        elif purpose == "write":
            name = self._title.partition(" · ")[0] if pane is self.log_pane else "pinned"
            # A run's name may hold slashes and blanks; this is to be a file in this folder.
            value = re.sub(r"[^\w.+-]+", "-", name).strip("-.") + ".log"
        self.bar.open(purpose, value)

    @property
    def asking(self) -> bool:
        """Whether the line to type in is open."""
        return self.bar.display

    @on(SearchBar.Submitted)
    def _answer(self, message: SearchBar.Submitted) -> None:
        message.stop()
        pane = self._asking_pane or self.log_pane
        text, regex = self.bar.wanted
        if self.bar.purpose == "write":
            self._write(pane, message.value)
            return
        self.close_bar()
        if self.bar.purpose == "filter":
            pane.filter(text, regex)
        elif self.bar.purpose == "goto":
            self._go_to(pane, text)
        else:
            pane.search(text, regex)

    def close_bar(self) -> None:
        """Close the line to type in; the log it was opened for has the keys again."""
        self.bar.display = False
        pane = self._asking_pane
        # A pinned log may have been closed meanwhile.
        (pane if pane is not None and pane.is_attached else self.log_pane).focus()

    def action_leave(self) -> None:
        """Esc: close the line to type in, else end the selection, else the filter.

        With none of them open, Esc is the screen's: it leaves the zoom, then the log.
        """
        if self.asking:
            self.close_bar()
        elif not self.current.leave():
            # Textual goes on to the screen's own binding of the key then.
            raise SkipAction

    def _go_to(self, pane: LogPane, text: str) -> None:
        # Bounded: eighteen digits fit a file's offset, and `int` of more takes its time.
        found = re.fullmatch(r"\s*:?\s*([\d,_]{1,18}|\d{1,3}(?:\.\d{1,6})?\s*(%))\s*", text)
        if found is None:
            if text.strip():
                self._notify("expected a line number or a percentage", severe=True)
        elif found[2]:
            pane.go_percent(float(found[1].rstrip("% ")))
        elif digits := re.sub(r"\D", "", found[1]):
            pane.go_line(int(digits))

    def _write(self, pane: LogPane, file_name: str) -> None:
        log = pane.reader.document.path
        if log is None:
            self.close_bar()
            return
        # The same name again, after it was refused because the file exists, means to overwrite it.
        insisted = file_name if file_name != self._insist else f"{file_name}!"
        from runners.watch.logs.extract import ExtractRefused, check_target

        try:
            path, overwrite = check_target(insisted, self._folder, log)
        except ExtractRefused as why:
            self._insist = file_name if why.may_insist else ""
            self._notify(str(why), severe=not why.may_insist)
            return
        self.close_bar()
        pane.write_to(path, overwrite)

    # ---- what the logs say

    @on(LogNotice)
    def _notice(self, message: LogNotice) -> None:
        self._notify(message.text, message.severe, message.seconds)

    @on(LinesCopied)
    def _send(self, message: LinesCopied) -> None:
        send(self.app, osc52(message.text, os.environ))
        self._notify(describe_sent(message.what, len(message.text), message.cut, os.environ))

    def _notify(self, text: str, severe: bool = False, seconds: float = 4) -> None:
        self.notify(
            text, severity="error" if severe else "information", timeout=seconds, markup=False
        )
