"""The upper part of the main screen: how large it is, and the line below it."""

from __future__ import annotations

import math

from rich.text import Text
from textual.widget import Widget

from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.panel_memory import recall, remember
from tui.panel.widgets.run_line import cut_reason
from tui.panel.widgets.runs import RunPane
from tui.snapshot.feed import PanelSnapshot

_LEAST_ROWS = 4
_LEAST_LOG = 6
_SHARES = range(15, 86)
_STEP_PERCENT = 5
_STEP_ROWS = 2
_SMALL, _SMALL_SHARE = 72, 36
"""Columns below which the GPUs make way for what a run has reached, and percents for them then."""


class Split:
    """Rows above the log and percents of the width for GPUs, as a person has moved them."""

    def __init__(self, state: StateDirectory, is_kept: bool) -> None:
        """`is_kept`: the next panel begins with what is chosen here."""
        self._state = state
        self._is_kept = is_kept
        before = recall(state).get("split")
        before = before if isinstance(before, dict) else {}
        rows, share = before.get("rows"), before.get("gpus")
        self.rows = rows if isinstance(rows, int) and rows >= _LEAST_ROWS else None
        self.share = share if isinstance(share, int) and share in _SHARES else None

    def height(self, snapshot: PanelSnapshot, others: int, screen: int) -> int:
        """Rows of the upper part on a screen of so many; `others` are runs of other machines."""
        rows = _wanted_height(snapshot, others, screen) if self.rows is None else self.rows
        return min(rows, max(_LEAST_ROWS, screen - _LEAST_LOG))

    def widen(self, gpus: Widget, columns: int) -> None:
        """Give the GPUs the share of the width that somebody chose.
        Else what a small terminal has room for, or what the style sheet says.
        """
        share = self.share or (_SMALL_SHARE if columns < _SMALL else None)
        if share is not None:
            gpus.styles.width = f"{share}%"
        elif gpus.styles.inline.has_rule("width"):
            gpus.styles.width = None

    def move(self, down: int, right: int, rows: int, gpus: Widget) -> bool:
        """Move either border by so many steps from the present `rows` and width of `gpus`.
        Whether there was room for that.
        """
        screen, width = gpus.app.size, gpus.outer_size.width
        has_moved = False
        if down:
            most = max(_LEAST_ROWS, screen.height - _LEAST_LOG)
            self.rows = min(most, max(_LEAST_ROWS, rows + down * _STEP_ROWS))
            has_moved = self.rows != rows
        if right:
            share = round(100 * width / max(1, screen.width)) + right * _STEP_PERCENT
            narrowest = gpus.styles.min_width
            least = math.ceil(100 * narrowest.value / max(1, screen.width)) if narrowest else 0
            self.share = min(_SHARES[-1], max(_SHARES[0], least, share))
            has_moved = round(screen.width * self.share / 100) != width
        if self._is_kept:
            remember(self._state, split={"rows": self.rows, "gpus": self.share})
        return has_moved


def _wanted_height(snapshot: PanelSnapshot, others: int, screen: int) -> int:
    """Never more than half of the screen."""
    reading = snapshot.reading
    gpus = max(4, len(reading.gpus) if reading else 0)
    gpus += bool(reading and reading.problem)
    wanted = max(gpus, min(len(snapshot.runs) + others + 1, 9 if screen < 40 else 15)) + 2
    return max(6, min(wanted, screen // 2))


class ReasonLine(Widget):
    """The reason of the selected run where its row cuts it, or what is wrong with a filter."""

    DEFAULT_CSS = """
    ReasonLine { height: auto; max-height: 3; padding: 0 1; display: none; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = Text()

    def show(self, pane: RunPane) -> None:
        """Take in what the run table shows now; without anything to say there is no line."""
        text = Text(pane.lines.problem, style="yellow")
        row = pane.selected_row
        # In the log's place it is said in full why a run of this machine waits.
        explains_itself = row is not None and row.state is State.QUEUED and not row.machine
        if not text and row is not None and not explains_itself:
            text = cut_reason(row, pane.lines.cells, pane.lines.names.known)
        if text != self._text or text.style != self._text.style:
            self._text = text
            self.display = bool(text)
            self.refresh(layout=True)

    def render(self) -> Text:
        return self._text
