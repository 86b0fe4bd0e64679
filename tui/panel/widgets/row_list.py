"""A list of rows with a cursor: one way to move, to click and to paint for every list of the panel.

Rows are painted one by one: over SSH, what did not change is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.panel.hotkeys import hotkey
from tui.panel.terminal.painting import TitledBorder
from tui.panel.widgets.style_once import StyleOnce


class RowList(TitledBorder, StyleOnce, ScrollView):
    """Rows, each with a key; the cursor stays on its key whatever comes before it.

    Subclasses build the rows (`set_rows`) and say what a move or a click does besides.
    """

    can_focus = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("down,j", "move(1)", "choose a row"),
        hotkey("up,k", "move(-1)", "choose a row"),
        hotkey("home,g", "go_first", "the first row, the last"),
        hotkey("end,G", "go_last", "the first row, the last"),
        hotkey("pagedown", "page(1)", "a screen of rows down or up"),
        hotkey("pageup", "page(-1)", "a screen of rows down or up"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.keys: tuple[str, ...] = ()
        self.key: str | None = None
        """The key that the cursor is on; a list that has not got it has the cursor at its top."""
        self._above: Sequence[Text] = ()
        self._rows: Sequence[Text] = ()
        self._header: Text | None = None
        self._painted: dict[int, Text] = {}

    @property
    def cursor(self) -> int:
        """The number, from 0, of the row under the cursor, those above the list not counted."""
        return self.keys.index(self.key) if self.key in self.keys else 0

    def set_rows(
        self,
        keys: Sequence[str],
        rows: Sequence[Text],
        above: Sequence[Text] = (),
        header: Text | None = None,
    ) -> None:
        """Show these rows, a key for each; `above` them rows that cannot be chosen, and `header`
        on top, which stays there.

        Only the rows that are seen are looked at: `rows` may make each when it is asked for.
        """
        count, cursor = self._count, self._cursor_row
        self.keys = keys if isinstance(keys, tuple) else tuple(keys)
        self._above, self._rows = above, rows
        whole = header != self._header or count != self._count
        self._header = header
        height = max(1, self._count + self._top)
        if self.virtual_size.height != height:
            self.virtual_size = Size(self.size.width, height)
        if whole:
            self._painted.clear()
            self.refresh()
            return
        width, seen = self.scrollable_content_region.width, self._rows_seen
        changed = []
        for row, old in list(self._painted.items()):
            if row not in seen:
                del self._painted[row]
            elif old != (new := self._row_at(row)):
                self._painted[row] = new
                changed.append((row, *changed_cells(old, new, width)))
        if cursor != self._cursor_row:
            changed += [(row, 0, width) for row in (cursor, self._cursor_row) if row is not None]
        self._refresh_cells(changed)

    def put_cursor(self, key: str) -> bool:
        """Put the cursor on a key and scroll to it; whether it was elsewhere."""
        if key == self.key:
            return False
        before, self.key = self._cursor_row, key
        row = self._cursor_row
        if row is not None:
            # The line above it too, where a header would else lie over it.
            self.scroll_to_region(Region(0, row, 1, 1 + self._top), animate=False)
        self._refresh_row(before)
        self._refresh_row(row)
        return True

    def moved(self) -> None:
        """The cursor is on another row: nothing more happens unless a subclass says so."""

    def clicked(self) -> None:
        """The row under the cursor was clicked: nothing more happens unless a subclass says so."""

    def header_clicked(self, x: int) -> None:
        """The header was clicked: nothing happens unless a subclass says so."""

    # ---- keys and mouse

    def action_move(self, by: int) -> None:
        """Move the cursor by so many rows, at most to either end."""
        if self.keys:
            self._go(self.cursor + by)

    def action_go_first(self) -> None:
        """To the first row."""
        self._go(0)

    def action_go_last(self) -> None:
        """To the last row."""
        self._go(len(self.keys) - 1)

    def action_page(self, pages: int) -> None:
        """A screen of rows down or up, one of them kept."""
        self._go(self.cursor + pages * max(1, self.scrollable_content_region.height - 1))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row that was clicked."""
        offset = event.get_content_offset(self)
        y = offset.y if offset else -1
        if offset is not None and y < self._top:
            self.header_clicked(offset.x)
            return
        row = y - self._top + round(self.scroll_offset.y) - len(self._above)
        if 0 <= row < len(self.keys):
            self._go(row)
            self.clicked()

    def on_focus(self) -> None:
        """The cursor shows."""
        self._refresh_row(self._cursor_row)

    def on_blur(self) -> None:
        """The cursor goes, or fades."""
        self._refresh_row(self._cursor_row)

    def _go(self, row: int) -> None:
        if self.keys and self.put_cursor(self.keys[min(len(self.keys) - 1, max(0, row))]):
            self.moved()

    # ---- painting

    def render_line(self, y: int) -> Strip:
        """One row, that of the cursor in its colours; blank below the last."""
        width, style = self.scrollable_content_region.width, self.own_style
        if y < self._top and self._header is not None:
            return strip_of(self._header, width, self.app.console, style)
        row = y - self._top + round(self.scroll_offset.y)
        if row >= self._count:
            return Strip.blank(width, style)
        if row == self._cursor_row:
            name = "rows--cursor" if self.has_focus else "rows--blurred"
            style = self.get_component_rich_style(name)
        text = self._painted.get(row)  # made when it was found to be another one
        if text is None:
            text = self._painted[row] = self._row_at(row)
        return strip_of(text, width, self.app.console, style)

    @property
    def _top(self) -> int:
        """Lines that the header takes."""
        return 0 if self._header is None else 1

    @property
    def _count(self) -> int:
        return len(self._above) + len(self._rows)

    @property
    def seen(self) -> range:
        """The rows on the screen, those above the list not counted."""
        first = max(0, round(self.scroll_offset.y) - len(self._above))
        height = self.scrollable_content_region.height - self._top
        return range(first, max(first, min(len(self._rows), first + height)))

    @property
    def _rows_seen(self) -> range:
        first = round(self.scroll_offset.y)
        height = self.scrollable_content_region.height - self._top
        return range(first, min(self._count, first + height))

    def _row_at(self, row: int) -> Text:
        above = len(self._above)
        return self._above[row] if row < above else self._rows[row - above]

    @property
    def _cursor_row(self) -> int | None:
        return len(self._above) + self.cursor if self.keys else None

    def _refresh_row(self, row: int | None) -> None:
        if row is not None:
            self._refresh_cells([(row, 0, self.scrollable_content_region.width)])

    def _refresh_cells(self, changed: Iterable[tuple[int, int, int]]) -> None:
        """Paint of each row the cells from one number to another, all at once."""
        above = self._top - round(self.scroll_offset.y)
        regions = [
            Region(start, row + above, end - start, 1)
            for row, start, end in changed
            if row + above >= self._top
        ]
        if regions:  # without any, Textual would paint all of it
            self.refresh(*regions)


def changed_cells(old: Text, new: Text, width: int) -> tuple[int, int]:
    """Where two rows differ, as cells from and to; the whole row when their styles or lengths
    do.
    """
    a, b = old.plain, new.plain
    if old.spans != new.spans or len(a) != len(b) or cell_len(b) != len(b):
        return 0, width
    differing = [i for i, (left, right) in enumerate(zip(a, b, strict=True)) if left != right]
    return min(differing[0], width - 1), min(differing[-1] + 1, width)


def strip_of(row: Text, width: int, console: Console, style: Style) -> Strip:
    """A row as a strip of `width` cells, its end cut with an ellipsis."""
    plain, spans = row.plain, row.spans
    # Text after text, each a cell a character, as nearly all rows are: rich's own rendering, which
    # knows of spans within spans, takes several times as long.
    pieces: Iterable[tuple[str, Style]]
    if (not plain.isascii() and cell_len(plain) != len(plain)) or not _in_turn(spans):
        text = row.copy()
        text.truncate(width, overflow="ellipsis", pad=True)
        pieces = [(s.text, s.style or Style()) for s in text.render(console) if s.text]
    else:
        cut = f"{plain[: width - 1]}…" if len(plain) > width else plain.ljust(width)
        pieces = _pieces(cut, spans, row.style, console)
    segments: list[Segment] = []
    for words, own in pieces:
        look = style + own
        # Neighbours of one style as one: each has its colours sent, though they are the same.
        if segments and segments[-1].style == look:
            segments[-1] = Segment(segments[-1].text + words, look)
        else:
            segments.append(Segment(words, look))
    return Strip(segments).adjust_cell_length(width, style)


def _in_turn(spans: list[Span]) -> bool:
    return all(left.end <= right.start for left, right in pairwise(spans))


def _pieces(
    plain: str, spans: list[Span], base: str | Style, console: Console
) -> Iterator[tuple[str, Style]]:
    """The words of each span and those between them, with their styles."""
    plainly = console.get_style(base, default="")
    at = 0
    for start, end, name in spans:
        if at < start:
            yield plain[at:start], plainly
        if words := plain[start:end]:
            yield words, plainly + console.get_style(name, default="")
        at = end
    if at < len(plain):
        yield plain[at:], plainly
