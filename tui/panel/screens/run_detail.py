"""Everything about one run, kept current while it is open."""

from __future__ import annotations

import asyncio
import os
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.panel.hotkeys import hotkey
from tui.panel.terminal.osc import describe_copied, osc52, send
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.code_diff import DiffKind, DiffLine, diff_lines, diff_words
from tui.views.runs.run_details import describe_details
from tui.views.runs.run_text import command_of
from tui.views.runs.run_view import view_run

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
_NAMES = 24
_LOUD = {"error": "red", "cause": "red", "alert": "yellow", "asks": "yellow", "queue": "cyan"}


class RunDetailScreen(ModalScreen[str]):
    """One run in sections, read in a thread. Returns what to do next: `log`, or nothing."""

    AUTO_FOCUS = ".dialog"
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,i,enter", "dismiss('')", "close"),
        hotkey("y", "copy", "copy the command"),
        hotkey("l", "dismiss('log')", "go to its log"),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, state: StateDirectory, run_id: str, snapshot: PanelSnapshot | None) -> None:
        super().__init__()
        self._state = state
        self._run_id = run_id
        self._snapshot = snapshot
        self._turn = 0
        self._command = ""
        self._busy = False

    def compose(self) -> ComposeResult:
        """One text that scrolls."""
        with VerticalScroll(classes="dialog wide") as dialog:
            dialog.border_title = "Run"
            dialog.border_subtitle = "↑ ↓ scroll · y copy command · l log · Esc close"
            yield Static("reading…", id="run-detail")

    def on_mount(self) -> None:
        """Read everything."""
        self._look()

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; what lives is read again now and then."""
        self._snapshot = snapshot
        self._turn += 1
        lives = any(one.run.is_live for one in snapshot.runs if one.run.id == self._run_id)
        if lives and self._turn % _EVERY == 0:
            self._look()

    def _look(self) -> None:
        if not self._busy:
            self._busy = True
            self.run_worker(self._read(), group="details")

    async def _read(self) -> None:
        try:
            title, body = await asyncio.to_thread(self._describe)
        finally:
            self._busy = False
        dialog = self.query_one(".dialog")
        if dialog.border_title != title:
            dialog.border_title = title
        self.query_one("#run-detail", Static).update(body)

    def _describe(self) -> tuple[str, RenderableType]:
        if not self._state.run(self._run_id).path.is_dir():
            return "Run", Text("This run has been removed.")
        snapshot = self._snapshot
        run = read_run(self._state, self._run_id)
        known = next(
            (one for one in (snapshot.runs if snapshot else ()) if one.run.id == run.id), None
        )
        # What lives has been followed by the panel since it began, and says more than one look.
        view = known if known is not None and known.run.is_live else view_run(run, thorough=True)
        live = [one for one in snapshot.runs if one.run.is_live] if snapshot else []
        sections = describe_details(view, self._state, live, snapshot.leases if snapshot else {})
        self._command = command_of(run.plan) if run.plan else ""
        drawn = draw_sections(sections, run.state, _NAMES if self.size.width >= 100 else 14)
        changes = diff_lines(self._state.run(run.id))
        if changes:
            drawn = Group(drawn, draw_diff(changes))
        return f"{run.state.sign} {run.name or run.id}", drawn

    def action_copy(self) -> None:
        """Hand the command to the terminal's clipboard."""
        if self._command:
            send(self.app, osc52(self._command.encode(), os.environ))
            self.notify(describe_copied(self._command, os.environ), timeout=6, markup=False)

    def action_scroll(self, by: int) -> None:
        """A line down or up."""
        self.query_one(".dialog").scroll_relative(y=by, animate=False)


def draw_sections(
    sections: list[tuple[str, list[tuple[str, str]]]], state: State, names: int = _NAMES
) -> Group:
    """Sections with names on the left in at most `names` cells; all is wrapped, nothing cut."""
    width = min(names, max(len(name) for _, pairs in sections for name, _ in pairs))
    parts: list[RenderableType] = []
    for title, pairs in sections:
        if title:
            parts.append(Text(f"\n{title}", style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(width=width, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        before = ""
        for name, value in pairs:
            style = _LOUD.get(name, "")
            if name == "state":
                style = state.style
            table.add_row(Text(name if name != before else "", style="dim"), Text(value, style))
            before = name
        parts.append(table)
    return Group(*parts)


def draw_diff(lines: list[DiffLine]) -> Text:
    """A diff in colours; its signs say the same without them."""
    text = Text(overflow="fold")
    text.append(f"\nUncommitted changes: {diff_words(lines)}\n", "bold")
    for line in lines:
        text.append(f"{line.text}\n", _DIFF_STYLES[line.kind])
    return text
