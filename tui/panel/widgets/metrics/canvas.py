"""Curves in braille: a cell is two dots wide and four high.
It belongs to the curve drawn last through it.

Own, because the plotting widgets at hand (textual-plot, textual-plotext) bring numpy or plotext
into the panel.
"""

import math
from collections.abc import Iterable

_BLANK = 0x2800
# The dots of a cell's left and right column from top to bottom (Unicode, "Braille Patterns").
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_SPANS = tuple(
    tuple(tuple(sum(column[first : last + 1]) for last in range(4)) for first in range(4))
    for column in _DOTS
)
"""Of a column, the dots from `first` to `last`."""

Point = tuple[float, float]


class Canvas:
    """`width` × `height` cells. Dots count from the upper left; what lies outside is not drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.dots_wide, self.dots_high = width * 2, height * 4
        self._bits = [bytearray(width) for _ in range(height)]
        self._owners = [[-1] * width for _ in range(height)]
        self._letters: dict[tuple[int, int], str] = {}

    def draw(self, points: Iterable[Point], owner: int) -> None:
        """A line through `points` (in dots, x rising); a single point is a dot."""
        before: Point | None = None
        for x, y in points:
            if before is None:
                self._column(math.floor(x + 0.5), y, y, owner)
            else:
                self._segment(before, (x, y), owner)
            before = x, y

    def write(self, column: int, row: int, letter: str, owner: int) -> None:
        """A letter instead of a cell's dots, which says whose curve it is."""
        if 0 <= column < self.width and 0 <= row < self.height:
            self._letters[row, column] = letter
            self._owners[row][column] = owner

    def mark(self, column: int, letter: str, owner: int) -> None:
        """A letter in every cell of a column in which nothing is drawn."""
        if 0 <= column < self.width:
            for row in range(self.height):
                if not self._bits[row][column] and (row, column) not in self._letters:
                    self.write(column, row, letter, owner)

    def row(self, row: int) -> list[tuple[str, int]]:
        """A row's text in pieces that belong to one curve each; -1 is nobody's."""
        pieces: list[tuple[str, int]] = []
        text, known = "", -1
        bits, owners = self._bits[row], self._owners[row]
        for column in range(self.width):
            letter = self._letters.get((row, column))
            owner = owners[column]
            if owner != known and text:
                pieces.append((text, known))
                text = ""
            known = owner
            text += letter or (chr(_BLANK + bits[column]) if bits[column] else " ")
        return [*pieces, (text, known)] if text else pieces

    def _segment(self, a: Point, b: Point, owner: int) -> None:
        (x0, y0), (x1, y1) = a, b
        first, last = math.floor(x0 + 0.5), math.floor(x1 + 0.5)
        if last <= first:
            self._column(first, y0, y1, owner)
            return
        slope = (y1 - y0) / (x1 - x0)
        # Each column has its part of the line, from the middle between it and the one before to
        # that after it.
        for column in range(max(first, 0), min(last, self.dots_wide - 1) + 1):
            start = y0 + slope * (max(x0, column - 0.5) - x0)
            end = y0 + slope * (min(x1, column + 0.5) - x0)
            self._column(column, start, end, owner)

    def _column(self, x: int, y0: float, y1: float, owner: int) -> None:
        """All dots of column `x` between two heights."""
        if not 0 <= x < self.dots_wide:
            return
        top, bottom = (y0, y1) if y0 <= y1 else (y1, y0)
        first, last = max(0, round(top)), min(self.dots_high - 1, round(bottom))
        cell, side = x >> 1, x & 1
        for row in range(first >> 2, (last >> 2) + 1):
            base = row << 2
            self._bits[row][cell] |= _SPANS[side][max(0, first - base)][min(3, last - base)]
            self._owners[row][cell] = owner
