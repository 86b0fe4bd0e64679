"""A list of rows with a cursor: one way to move and to click for every list of the panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.panel.hotkeys import hotkey, paging_keys
from tui.panel.terminal.repainting import TitledBorder
from tui.panel.widgets.row_painting import ChangedRow, PaintedRows, StyleOnce, Window

ROW_KEYS: list[BindingType] = [
    hotkey("down,j", "move(1)", "choose a row"),
    hotkey("up,k", "move(-1)", "choose a row"),
    hotkey("home,g", "go(False)", "the first row, the last"),
    hotkey("end,G", "go(True)", "the first row, the last"),
    *paging_keys("pagedown,ctrl+f"),
]


class RowList(TitledBorder, StyleOnce, ScrollView):
    """Rows, each with a key; the cursor stays on its key, and in its place where that is gone.

    Subclasses build the rows (`set_rows`) and say what a move or a click does besides.
    """

    can_focus = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--blurred"}
    BINDINGS: ClassVar[list[BindingType]] = ROW_KEYS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.keys: tuple[str, ...] = ()
        self.key: str | None = None
        """The key that the cursor is on; a list that has not got it has the cursor at its top."""
        self.painted = PaintedRows()

    @property
    def cursor(self) -> int:
        """The number, from 0, of the row under the cursor, those above the list not counted."""
        # By key: rows come and go above it, and the cursor is to stay on its run.
        return self.keys.index(self.key) if self.key in self.keys else 0

    def set_rows(
        self,
        keys: Sequence[str],
        rows: Sequence[Text],
        above: Sequence[Text] = (),
        header: Text | None = None,
    ) -> None:
        """Show these rows, a key for each, below `above`, rows that cannot be chosen.

        `header` stays on top. `rows` may make each row on demand: only what is seen is read.
        """
        before = self._cursor_row
        was_seen = before in self.painted.seen(self._window)
        self.keys, self.key = tuple(keys), _nearest(self.keys, self.key, keys)
        changed = self.painted.replace(above, rows, header, self._window)
        height = max(1, self.painted.count + self.painted.header_height)
        if self.virtual_size.height != height:
            self.virtual_size = Size(self.size.width, height)
        if changed is None:
            self.refresh()
        else:
            if before != self._cursor_row:
                self._refresh_rows(before, self._cursor_row)
            self._refresh_cells(changed)
        # Whoever has not scrolled away from it acts on it, wherever it stands now.
        if was_seen and self._cursor_row not in self.painted.seen(self._window):
            self._scroll_to_cursor()

    def put_cursor(self, key: str) -> bool:
        """Put the cursor on a key and scroll to it; whether it was elsewhere."""
        is_new = key != self.key
        before, self.key = self._cursor_row, key
        self._scroll_to_cursor()
        if is_new:
            self._refresh_rows(before, self._cursor_row)
        return is_new

    @on(events.Resize)
    def _scroll_to_cursor(self) -> None:
        if (row := self._cursor_row) is not None:
            # The line above too: a header may lie over it. By force: it may not be laid out yet.
            region = Region(0, row, 1, 1 + self.painted.header_height)
            self.scroll_to_region(region, animate=False, force=True)

    def select(self, key: str) -> None:
        """Put the cursor on a key and announce it."""
        if self.put_cursor(key):
            self.moved()

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

    def action_go(self, to_end: bool) -> None:
        """To the first row, or the last."""
        self._go(len(self.keys) - 1 if to_end else 0)

    def action_page(self, pages: float) -> None:
        """A screen of rows down or up, one of them kept; or a part of it."""
        self._go(self.cursor + int(pages * max(2, self.scrollable_content_region.height - 1)))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        row = offset.y - self.painted.header_height
        if row < 0:
            self.header_clicked(offset.x)
        elif 0 <= (row := row + self._window.top - len(self.painted.above)) < len(self.keys):
            self._go(row)
            self.clicked()

    @on(events.Focus)
    @on(events.Blur)
    def _show_focus(self) -> None:
        self._refresh_rows(self._cursor_row)

    def _go(self, row: int) -> None:
        if self.keys:
            self.select(self.keys[min(len(self.keys) - 1, max(0, row))])

    # ---- painting

    def render_line(self, y: int) -> Strip:
        """One row, that of the cursor in its colours; blank below the last."""
        top, style, window = self.painted.header_height, self.style_of(), self._window
        row = y - top + window.top if y >= top else -1
        if row == self._cursor_row:
            name = "rows--cursor" if self.has_focus else "rows--blurred"
            style = self.style_of(name)
        return self.painted.strip(row, window.width, self.app.console, style)

    @property
    def seen(self) -> range:
        """The rows on the screen, those above the list not counted."""
        seen, above = self.painted.seen(self._window), len(self.painted.above)
        return range(max(0, seen.start - above), max(0, seen.stop - above))

    @property
    def _window(self) -> Window:
        region = self.scrollable_content_region
        return Window(round(self.scroll_offset.y), region.width, region.height)

    @property
    def _cursor_row(self) -> int | None:
        return len(self.painted.above) + self.cursor if self.keys else None

    def _refresh_rows(self, *rows: int | None) -> None:
        width = self._window.width
        self._refresh_cells([(row, 0, width) for row in rows if row is not None])

    def _refresh_cells(self, changed: Iterable[ChangedRow]) -> None:
        """Paint of each row the cells from one number to another, all at once."""
        regions = self.painted.regions(changed, self._window)
        if regions:  # without any, Textual would paint all of it
            self.refresh(*regions)


def _nearest(before: Sequence[str], key: str | None, keys: Sequence[str]) -> str | None:
    """`key`; where it has gone from the list, what stood behind it or before and is still there."""
    if key is None or key in keys or key not in before:
        return key
    at, left = before.index(key), frozenset(keys)
    return next((near for near in (*before[at:], *before[:at][::-1]) if near in left), key)
