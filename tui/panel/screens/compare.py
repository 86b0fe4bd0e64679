"""Runs compared side by side, and means over seeds.
What differs in settings, code, environment and machine, and the metrics.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import Dialog, PageScroll, dialog_box
from tui.views.format import cells_of, fitted
from tui.views.runs.comparison import Comparison, compare, label_of
from tui.views.runs.comparison_text import agreements, tables_of
from tui.views.runs.run_facts import ComparedRuns, RunFacts

_NUMBERS = re.compile("metrics|by |mean")
"""Titles of tables whose numbers stand in full."""
_NAMES = ("run", "runs")
_NARROW = 12
"""Cells that a column keeps."""


class CompareScreen(Dialog[None]):
    """The comparison, read once in a thread.
    `b` makes the next run the baseline, `a` shows what agrees too.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q", "dismiss", "close"),
        hotkey("a", "all", "all settings, or those that differ"),
        hotkey("b", "baseline", "which run the others are compared with"),
        hotkey("left", "scroll(-8)", "scroll sideways"),
        hotkey("right", "scroll(8)", "scroll sideways"),
    ]
    DEFAULT_CSS = """
    CompareScreen .dialog { overflow-x: auto; }
    CompareScreen #comparison { width: auto; }
    """

    def __init__(self, count: int, pinned: Sequence[str] = ()) -> None:
        """How many runs there are, and the metrics that their user wants before others."""
        super().__init__()
        self._pinned = pinned
        self._count = count
        self._facts: list[RunFacts] = []
        self._problem = ""
        self._all = False
        self._baseline: str | None = None

    def compose(self) -> ComposeResult:
        title, keys = f"{self._count} runs compared", "a all settings · b baseline · Esc closes"
        with dialog_box(title, keys, "wide", scrolls=True):
            yield Static("reading…", id="comparison")

    def take(self, compared: ComparedRuns) -> None:
        """Take in the facts of some of the runs, which are read where these are."""
        self._facts += compared.facts
        self._show()

    def fail(self, problem: str) -> None:
        """Say why some of them do not come."""
        self._problem = problem
        self._show()

    def on_mount(self) -> None:
        self._show()

    def action_all(self) -> None:
        """Show the settings that agree too, or only those that differ."""
        self._all = not self._all
        self._show()

    def action_baseline(self) -> None:
        """Measure the runs by the next one; after the last by none."""
        ids = [facts.run.id for facts in self._facts]
        place = ids.index(self._baseline) + 1 if self._baseline in ids else 0
        self._baseline = ids[place] if place < len(ids) else None
        self._show()

    def action_scroll(self, columns: int) -> None:
        self.query_one(PageScroll).scroll_relative(x=columns, animate=False)

    def _show(self) -> None:
        # It is laid out before its parts stand.
        for place in self.query("#comparison").results(Static):
            if self._problem:
                place.update(Text(self._problem, style="red"))
            elif len(self._facts) >= self._count:
                comparison = compare(self._facts, self._baseline, None, self._all, self._pinned)
                room = self.query_one(PageScroll).scrollable_content_region.width
                place.update(draw_comparison(comparison, room))

    def on_resize(self) -> None:
        """Let names and settings have what room there is."""
        self._show()


def draw_comparison(comparison: Comparison, room: int) -> Text:
    """The tables as one text.
    Names and settings are shortened where `room` cells are not enough; numbers never are: the view
    is moved to them.
    """
    text = Text(no_wrap=True)
    if comparison.baseline is not None:
        text.append(f"measured by {label_of(comparison, comparison.baseline)}\n\n", style="italic")
    for title, rows in tables_of(comparison, ids=False):
        text.append(f"{title}\n", style="bold underline")
        widths = _widths(rows, room, _NUMBERS.match(title) is not None)
        for i, row in enumerate(rows):
            for cell, width in zip(row, widths, strict=True):
                style = "green" if cell.endswith("★") else ""
                if i == 0:
                    style = "bold"
                text.append(f"{fitted(_shortened(cell, width), width)}  ", style=style)
            text.append("\n")
        text.append("\n")
    same = agreements(comparison)
    if same:
        text.append(f"no difference in {', '.join(same)}", style="dim")
    return text


def _widths(rows: Sequence[tuple[str, ...]], room: int, numbers: bool) -> list[int]:
    """The cells of each column, the widest made narrower until all have room or are narrow."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells_of, column)) for column in columns]
    least = [
        max(_NARROW, max(map(cells_of, column[1:]), default=0))
        if numbers and column[0] not in _NAMES
        else _NARROW
        for column in columns
    ]
    while sum(widths) + 2 * len(widths) > room:
        wide = [i for i, width in enumerate(widths) if i and width > least[i]]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _shortened(text: str, width: int) -> str:
    """`text` without its middle where it is longer: names differ at their ends."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
