"""Lines of a log → rows of cells: wrapping, colours, marks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from runners.watch.logs.ansi import Colour, TextStyle
from runners.watch.logs.reader import LogLine
from runners.watch.logs.render import SafeLine, read_line
from tui.views.format import cells_of

if TYPE_CHECKING:
    from runners.watch.logs.expressions import Expression

_MARK = Style(reverse=True)
_CURRENT_MARK = Style(reverse=True, bold=True, underline=True)
_SELECTED = Style(reverse=True)
_KEPT_STRIPS = 300


class Row(NamedTuple):
    """One row of the screen: characters of a line."""

    line: ShownLine
    start: int
    end: int


class ShownLine:
    """One line of the log, ready to be cut into rows."""

    __slots__ = ("_wrapped", "end", "safe", "start")

    def __init__(self, line: LogLine) -> None:
        self.start = line.start
        self.end = line.end
        self.safe: SafeLine = read_line(line.data, line.more)
        self._wrapped: tuple[int, list[int]] = (0, [])

    def rows(self, width: int) -> list[int]:
        """Where its rows begin (characters), `width` cells wide; one row for width 0. Never
        empty.
        """
        if not width:
            return [0]
        if self._wrapped[0] != width:
            self._wrapped = (width, list(_breaks(self.safe.text, width)))
        return self._wrapped[1]

    def width(self) -> int:
        """Cells it would take on one row."""
        return cells_of(self.safe.text)


class StripStyle(NamedTuple):
    """How rows are drawn.
    Shifted to the left by so many cells, so wide, in which style, with what marked.
    """

    left: int
    width: int
    base: Style
    marks: Expression | None


class StripCache:
    """The strips of the rows that were drawn last."""

    def __init__(self) -> None:
        self._strips: dict[tuple[int, int, int, bool, bool], Strip] = {}
        self._style: StripStyle | None = None

    def clear(self) -> None:
        """The bytes are others."""
        self._strips.clear()

    def strip(self, row: Row, style: StripStyle, current: bool, selected: bool) -> Strip:
        """A row as a strip; its marks stand out in the line gone to last."""
        if style != self._style or len(self._strips) > _KEPT_STRIPS:
            self._strips.clear()
            self._style = style
        key = (row.line.start, row.line.end, row.start, current, selected)
        strip = self._strips.get(key)
        if strip is None:
            strip = _draw_row(row, style, _CURRENT_MARK if current else _MARK)
            if selected:
                strip = strip.apply_style(_SELECTED)
            self._strips[key] = strip
        return strip


def _draw_row(row: Row, style: StripStyle, mark: Style) -> Strip:
    left, width, base, marks = style
    safe, start, end = row.line.safe, row.start, row.end
    if safe.text.isascii():
        # One cell a character: what lies beside the screen need not be drawn.
        start, end, left = start + left, min(end, start + left + width), 0
        if not safe.runs and marks is None:
            return Strip([Segment(safe.text[start:end].ljust(width), base)], width)
    strip = draw(safe, min(start, end), end, base, marks, mark)
    return strip.crop_extend(left, left + width, base)


def _breaks(text: str, width: int) -> Iterator[int]:
    widths = {} if text.isascii() else {character: cell_len(character) for character in set(text)}
    if all(cells == 1 for cells in widths.values()):
        yield from range(0, max(1, len(text)), width)
        return
    yield 0
    used = 0
    for at, character in enumerate(text):
        cells = widths[character]
        if used + cells > width and used:
            yield at
            used = 0
        used += cells


def draw(
    safe: SafeLine,
    start: int,
    end: int,
    base: Style,
    marks: Expression | None = None,
    mark: Style = _MARK,
) -> Strip:
    """Characters `start` to `end` of a line as a strip.
    What `marks` matches is drawn over its colours.
    """
    text = safe.text
    if not safe.runs and marks is None:
        return Strip([Segment(text[start:end], base)])
    styles = [base] * (end - start)
    for run in safe.runs:
        low, high = max(start, run.start) - start, min(end, run.end) - start
        if low < high:
            styles[low:high] = [base + style_of(run.style)] * (high - low)
    for found in marks.finditer(text) if marks is not None else ():
        low, high = max(start, found.start()) - start, min(end, found.end()) - start
        if low < high:
            styles[low:high] = [style + mark for style in styles[low:high]]
    segments: list[Segment] = []
    at = start
    for style, same in groupby(styles):
        length = sum(1 for _ in same)
        segments.append(Segment(text[at : at + length], style))
        at += length
    return Strip(segments)


@lru_cache(1024)
def style_of(text_style: TextStyle) -> Style:
    """A look in rich's terms."""
    return Style(
        color=_colour(text_style.fg),
        bgcolor=_colour(text_style.bg),
        bold=text_style.bold or None,
        dim=text_style.dim or None,
        italic=text_style.italic or None,
        underline=text_style.underline or None,
        reverse=text_style.reverse or None,
        strike=text_style.strike or None,
    )


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


def explanation_line(paragraphs: tuple[str, ...], y: int, width: int, style: Style) -> Strip:
    """Line `y` of what stands in an empty log's place, wrapped to `width` cells; blank below."""
    lines = _explanation(paragraphs, width)
    if y >= len(lines):
        return _blank(width, style)
    return Strip([Segment(lines[y], style)]).adjust_cell_length(width, style)


@lru_cache(8)
def _blank(width: int, style: Style) -> Strip:
    # One for all rows: whatever is made of a strip is made once.
    return Strip.blank(width, style)


@lru_cache(8)
def _explanation(paragraphs: tuple[str, ...], width: int) -> list[str]:
    lines: list[str] = []
    for text in paragraphs:
        wrapped = textwrap.wrap(text, max(1, width - 1), subsequent_indent="  ")
        lines += [f" {line}" for line in wrapped] or [""]
    return lines
