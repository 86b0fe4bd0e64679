"""How rows are painted: in a style worked out once, and only the cells that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

ChangedRow = tuple[int, int, int]
"""A row, and its cells that changed: from and to."""


class Window(NamedTuple):
    """The lines of a screen that rows are seen through: scrolled down by `top` rows."""

    top: int
    width: int
    height: int


class PaintedRows:
    """Rows below a header, and how each looked when it was painted last.

    Rows are numbered from 0, those `above` the list included, whatever is scrolled.
    """

    def __init__(self) -> None:
        self.above: Sequence[Text] = ()
        self.rows: Sequence[Text] = ()
        self.header: Text | None = None
        self._painted: dict[int, Text] = {}

    def replace(
        self,
        above: Sequence[Text],
        rows: Sequence[Text],
        header: Text | None,
        window: Window,
    ) -> list[ChangedRow] | None:
        """Take in other rows; what changed of those that are seen, None: all must be painted."""
        count, before = self.count, self.header
        self.above, self.rows, self.header = above, rows, header
        if header != before or count != self.count:
            self._painted.clear()
            return None
        changed, seen = [], self.seen(window)
        for row, old in list(self._painted.items()):
            # What is scrolled away is drawn anew when it is seen again: the rows may be thousands.
            if row not in seen:
                del self._painted[row]
            elif old != (new := self._row_at(row)):
                self._painted[row] = new
                changed.append((row, *changed_cells(old, new, window.width)))
        return changed

    @property
    def header_height(self) -> int:
        """Lines that the header takes."""
        return 0 if self.header is None else 1

    @property
    def count(self) -> int:
        """All rows, the header not counted."""
        return len(self.above) + len(self.rows)

    def seen(self, window: Window) -> range:
        """The rows on the screen."""
        end = window.top + window.height - self.header_height
        return range(window.top, max(window.top, min(self.count, end)))

    def regions(self, changed: Iterable[ChangedRow], window: Window) -> list[Region]:
        """Where on the screen these cells are; none for what is scrolled away."""
        return [
            Region(start, row + self.header_height - window.top, end - start, 1)
            for row, start, end in changed
            if row >= window.top
        ]

    def strip(self, row: int, width: int, console: Console, style: Style) -> Strip:
        """One row, -1 the header; blank below the last."""
        if row >= self.count:
            return Strip.blank(width, style)
        if row < 0 and self.header is not None:
            return strip_of(self.header, width, console, style)
        text = self._painted.get(row)  # made when it was found to be another one
        if text is None:
            text = self._painted[row] = self._row_at(row)
        return strip_of(text, width, console, style)

    def _row_at(self, row: int) -> Text:
        above = len(self.above)
        return self.above[row] if row < above else self.rows[row - above]


def changed_cells(old: Text, new: Text, width: int) -> tuple[int, int]:
    """Where two rows differ, as cells from and to; all when their styles or lengths do."""
    a, b = old.plain, new.plain
    # Cells are counted as characters below: not with a wide one among them.
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
        # Rows change every second: nothing is measured of what is as wide as that.
        return Strip(_joined(_pieces(cut, spans, row.style, console), style), width)
    return Strip(_joined(pieces, style)).adjust_cell_length(width, style)


def _joined(pieces: Iterable[tuple[str, Style]], style: Style) -> list[Segment]:
    """Segments on top of `style`; neighbours of one look are one, so that it is sent once."""
    segments: list[Segment] = []
    texts: list[str] = []
    last: Style | None = None
    for text, own in pieces:
        combined = style + own
        if last is not None and combined != last:
            segments.append(Segment("".join(texts), last))
            texts = []
        texts.append(text)
        last = combined
    if last is not None:
        segments.append(Segment("".join(texts), last))
    return segments


def _in_turn(spans: list[Span]) -> bool:
    return all(left.end <= right.start for left, right in pairwise(spans))


def _pieces(
    plain: str, spans: list[Span], base: str | Style, console: Console
) -> Iterator[tuple[str, Style]]:
    """The text of each span and that between them, with their styles."""
    base_style = console.get_style(base, default="")
    at = 0
    for start, end, name in spans:
        if at < start:
            yield plain[at:start], base_style
        if piece := plain[start:end]:
            yield piece, base_style + console.get_style(name, default="")
        at = end
    if at < len(plain):
        yield plain[at:], base_style


class StyleOnce(Widget):
    """A widget whose styles are worked out once, not for each line from all widgets around it."""

    _styles: dict[str, Style] | None = None

    def style_of(self, part: str = "") -> Style:
        """By the style sheet: the widget's, or that of a component class."""
        styles = self._styles = self._styles or {}
        if part not in styles:
            styles[part] = self.get_component_rich_style(part) if part else self.rich_style
        return styles[part]

    def notify_style_update(self) -> None:
        """The style sheet, the theme or the focus changed."""
        self._styles = None
        super().notify_style_update()
