"""Everything about one run, kept current while it is open."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from runners.model.states import State
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import Dialog, dialog_box, is_open
from tui.panel.terminal.osc import copy_text
from tui.panel.widgets.named_lines import NamedLines
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.code_diff import DiffKind, DiffLine, diff_summary
from tui.views.runs.run_details import RunDetails
from tui.views.safe import safe_cell

_EVERY = 3
"""Of so many snapshots, one has everything read again."""
_DIFF_STYLES: dict[DiffKind, str] = {
    "file": "bold",
    "place": "cyan",
    "added": "green",
    "removed": "red",
    "same": "dim",
    "word": "yellow",
}
_LEAST_NAMES, _NAMES_BESIDE = 16, 30
_WIDE = 160
"""Cells of a terminal where two columns have room."""
_BETWEEN = 4
_LOUD = {"error": "red", "cause": "red", "alert": "yellow", "asks": "yellow", "queue": "cyan"}

Sections = list[tuple[str, list[tuple[str, str]]]]
"""Each with its title, and names and values."""
Read = Callable[[Callable[[RunDetails], None], Callable[[str], None]], None]


class RunDetailScreen(Dialog[str]):
    """One run in sections. Returns what to do next: `log`, or nothing."""

    AUTO_FOCUS = ".dialog"
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,i,enter", "dismiss('')", "close"),
        hotkey("y", "copy", "copy the command"),
        hotkey("l", "dismiss('log')", "go to its log"),
    ]

    def __init__(self, read: Read) -> None:
        """`read` asks for the details, and hands them on when they have come, or what prevents."""
        super().__init__()
        self._read = read
        self._turn = 0
        self._details: RunDetails | None = None
        self._busy = False

    def compose(self) -> ComposeResult:
        keys = "↑ ↓ scroll · y copy command · l log · Esc close"
        with dialog_box("Run", keys, "wide fit", scrolls=True):
            yield Static("reading…", id="run-detail", markup=False)

    def on_mount(self) -> None:
        self._read_again()

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; what lives is read again now and then."""
        self._turn += 1
        lives = self._details is None or self._details.state.is_live
        if lives and self._turn % _EVERY == 0:
            self._read_again()

    def _read_again(self) -> None:
        if not self._busy:
            self._busy = True
            self._read(self._take, self._fail)

    def _take(self, details: RunDetails) -> None:
        self._busy, self._details = False, details
        self.on_resize()

    def on_resize(self) -> None:
        details = self._details
        if details is None or not is_open(self):
            return
        width, columns = self.size.width, _columns(details.sections, self.size.width)
        names = width // 4 - 1 if width >= 100 else _LEAST_NAMES
        names = names if len(columns) == 1 else _NAMES_BESIDE
        drawn: RenderableType
        drawn, *others = (draw_sections(column, details.state, names) for column in columns)
        if others:
            beside = Table.grid(padding=(0, _BETWEEN, 0, 0), expand=True, pad_edge=False)
            for _ in columns:
                beside.add_column(ratio=1)
            beside.add_row(drawn, *others)
            drawn = beside
        if details.changes:
            drawn = Group(drawn, draw_diff(details.changes))
        dialog = self.query_one(".dialog")
        title = Content(details.title)
        if dialog.border_title != title.markup:
            dialog.border_title = title
        self.query_one("#run-detail", Static).update(drawn)

    def _fail(self, problem: str) -> None:
        self._busy, self._details = False, None
        if is_open(self):
            self.query_one("#run-detail", Static).update(Text(safe_cell(problem)))

    def action_copy(self) -> None:
        """Hand the command to the terminal's clipboard."""
        if self._details is not None and self._details.command:
            copy_text(self.app, self._details.command)


def _columns(sections: Sections, width: int) -> list[Sections]:
    """The sections in their order, in two columns of about one length where there is room."""
    if width < _WIDE or not sections:
        return [sections]
    room = width // 2 - _NAMES_BESIDE
    ends = [*accumulate(2 + sum(_rows(value, room) for _, value in pairs) for _, pairs in sections)]
    half = next(i for i, end in enumerate(ends, 1) if 2 * end >= ends[-1])
    return [sections[:half], sections[half:]]


def _rows(value: str, room: int) -> int:
    return sum(1 + len(line) // room for line in value.splitlines() or [""])


def draw_sections(sections: Sections, state: State, names: int) -> NamedLines:
    """Sections with names on the left in at most `names` cells; all is wrapped, nothing cut."""
    width = min(names, max((len(name) for _, pairs in sections for name, _ in pairs), default=0))
    lines = NamedLines(width + 2)
    for title, pairs in sections:
        if title:
            apart = "\n" if str(lines) else ""
            lines.add_text(Text(f"{apart}{title}", style="bold"))
        for name, value in pairs:
            lines.add(name, value, state.style if name == "state" else _LOUD.get(name, ""))
    return lines


def draw_diff(lines: list[DiffLine]) -> Text:
    """A diff in colours; its signs say the same without them."""
    text = Text(overflow="fold")
    text.append(f"\nUncommitted changes: {diff_summary(lines)}\n", "bold")
    for line in lines:
        text.append(f"{line.text}\n", _DIFF_STYLES[line.kind])
    return text
