"""Cells of the terminal: what stands in each, and the least text that changes some of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style

from tui.views.safe import safe_cell

_COLOUR: Final = re.compile(
    r"(?:^|;)(?:([34])8;(?:5;\d+|2;\d+;\d+;\d+)|(?:[39]|([49]|10))\d)(?=;|$)"
)
_SHOWS_ON_BLANKS: Final = {"4", "5", "6", "7", "9", "21", "51", "52", "53"}
"""Attributes of which a blank shows something: underlines, blinking, reverse, strikes, frames."""
_NEAR: Final = 4
"""Unchanged cells that are cheaper to send again than to pass over."""
_MOST_INKS: Final = 256
_LONG_BLANK: Final = 9
"""Blank cells from which erasing is shorter than writing them."""


class Ink(NamedTuple):
    """How a cell is drawn, as SGR's numbers: attributes, foreground, background."""

    attributes: str
    foreground: str
    background: str
    plain: bool = True
    """Whether a blank shows nothing but the background."""


class ScreenCell(NamedTuple):
    """One cell: its characters ("" behind a wide one), and how they are drawn."""

    text: str
    ink: Ink


Inks = tuple[Ink, Ink]
"""Of one style: how frames, bars and curves are drawn, and how words are written."""
Row = list["ScreenCell | None"]
"""A row of the screen; None where it is not known what stands there."""
Run = tuple[int, int]
"""Cells of a row, from the first to before the second."""
NO_INK: Final = Ink("", "", "")
_DRAWN: Final = re.compile("[\u2500-\u259f\u2800-\u28ff]")
"""Lines, blocks and dots, of which frames, bars and curves are made."""


Place = tuple[int, int]
"""Row and column of a cell, from 0."""
_UNSURE: Final = re.compile(r"[^ -~\u2500-\u257f]")


class InkRun(NamedTuple):
    """Cells of one row in one ink, or so many blanks."""

    y: int
    x: int
    ink: Ink
    text: str
    blanks: int = 0


@lru_cache(4096)
def ink_of(codes: str) -> Ink:
    """SGR's numbers of a style, apart."""
    attributes, foreground, background = codes, "", ""
    while found := _COLOUR.search(attributes):
        colour = found.group().strip(";")
        if (found[1] or "") == "4" or found[2]:
            background = colour
        else:
            foreground = colour
        attributes = (attributes[: found.start()] + attributes[found.end() :]).strip(";")
    plain = not _SHOWS_ON_BLANKS & set(attributes.split(";"))
    return Ink(attributes, foreground, background, plain)


@lru_cache(4096)
def _blank(ink: Ink) -> ScreenCell:
    # Of a blank only its background is seen: the same background is the same cell.
    return ScreenCell(" ", Ink("", "", ink.background) if ink.plain else ink)


@lru_cache(1 << 14)
def _cell(text: str, ink: Ink) -> ScreenCell:
    return _blank(ink) if text == " " else ScreenCell(text, ink)


class _CellsInInk(dict[str, ScreenCell]):
    """The cells of single characters in one ink: each change of the screen asks for hundreds."""

    def __init__(self, ink: Ink) -> None:
        super().__init__()
        self._ink = ink

    def __missing__(self, char: str) -> ScreenCell:
        cell = self[char] = _cell(char, self._ink)
        return cell


class _CellsInInks(dict[Ink, _CellsInInk]):
    def __missing__(self, ink: Ink) -> _CellsInInk:
        if len(self) >= _MOST_INKS:
            self.clear()  # pictures have thousands
        found = self[ink] = _CellsInInk(ink)
        return found


_cells_in = _CellsInInks()


def _made_safe(text: str) -> str:
    """The text of a line without control characters, which take no place in it.

    Textual and Rich let ESC and C1 pass in a widget's text: it is thought of once, as it leaves.
    """
    if text.isprintable():
        return text
    # What is dropped had no width when the line was laid out: the columns stay where they are.
    return "".join(char for char in text if safe_cell(char) == char)


def cells_of(segments: Iterable[Segment], inks_of: Mapping[Style | None, Inks]) -> list[ScreenCell]:
    """The cells that segments fill; `inks_of` has the inks of their styles."""
    cells: list[ScreenCell] = []
    for segment in segments:
        if segment.control:
            continue
        draws, ink = inks_of[segment.style]
        text = _made_safe(segment.text)
        if text.isascii():
            cells += map(_cells_in[ink].__getitem__, text)
            continue
        begin = len(cells)
        for char in text:
            width = get_character_cell_size(char)
            if width == 0 and len(cells) > begin:
                at = -1 if cells[-1].text else -2
                cells[at] = _cell(cells[at].text + char, ink)
            else:
                used = draws if draws is not ink and _DRAWN.match(char) else ink
                if width == 1:
                    cells.append(_cell(char, used))
                elif width > 1:
                    cells += [_cell(char, used), *[ScreenCell("", ink)] * (width - 1)]
        if len(cells) - begin != cell_len(text):
            # Characters that make one together: the stretch is kept whole.
            cells[begin:] = [_cell(text, ink), *[ScreenCell("", ink)] * (cell_len(text) - 1)]
    return cells


def changed_runs(shown: Row, wanted: Row) -> list[Run]:
    """The cells to send so that a row shows what it is to; what is not known is not sent."""
    if shown.count(None) == len(shown) and None not in wanted:
        return [(0, len(wanted))]
    changed = [
        x
        for x, (old, new) in enumerate(zip(shown, wanted, strict=True))
        if old is not new and new is not None and old != new
    ]
    if not changed:
        return []
    first = changed[0]
    if _has_odd(shown) or _has_odd(wanted):
        # Terminals differ in how wide such characters are, and half of one takes the other half
        # with it: what stands behind is written again.
        while first and (_is_second(shown[first]) or _is_second(wanted[first])):
            first -= 1
        return [(first, len(wanted))]
    runs = [(first, first + 1)]
    for x in changed[1:]:
        begin, last = runs[-1]
        if x - last <= _NEAR and None not in wanted[last:x]:
            runs[-1] = begin, x + 1
        else:
            runs.append((x, x + 1))
    return runs


def _has_odd(row: Row) -> bool:
    """Whether some cell has not one character: a wide one's second half, or several that join."""
    return bool([cell for cell in row if cell is not None and len(cell.text) != 1])


def _is_second(cell: ScreenCell | None) -> bool:
    return cell is not None and not cell.text


def pieces_of(y: int, row: Row, run: Run, erases: bool) -> list[InkRun]:
    """A run as pieces of one ink each; long blanks as such where the terminal erases in colour."""
    pieces: list[InkRun] = []
    x, end = run
    while x < end:
        cell = row[x]
        if cell is None:
            x += 1
            continue
        stop = x
        while stop < end and row[stop] is cell:
            stop += 1
        if erases and cell.text == " " and cell.ink.plain and stop - x >= _LONG_BLANK:
            pieces.append(InkRun(y, x, cell.ink, "", stop - x))
            x = stop
            continue
        begin, ink = x, cell.ink
        text: list[str] = []
        while x < end and (cell := row[x]) is not None:
            joined = _joined(ink, cell.ink, text, cell.text)
            if joined is None or (erases and _blank_from(row, x, end)):
                break
            ink = joined
            text.append(cell.text)
            x += 1
            if not cell.text and (x == end or not _is_second(row[x])):
                break  # behind a wide character the place is told anew
        pieces.append(InkRun(y, begin, ink, "".join(text)))
    return _erased_at_once(pieces, row)


def _erased_at_once(pieces: Sequence[InkRun], row: Row) -> list[InkRun]:
    """The pieces of a row, neighbouring blanks as one: what stands between is written later."""
    merged: list[InkRun] = []
    last: int | None = None
    for piece in pieces:
        before = merged[last] if last is not None else None
        if piece.blanks and before is not None and last is not None:
            end = piece.x + piece.blanks
            background = piece.ink.background
            if all(c is not None and c.ink.background == background for c in row[before.x : end]):
                merged[last] = before._replace(blanks=end - before.x)
                continue
        if piece.blanks:
            last = len(merged)
        merged.append(piece)
    return merged


def _blank_from(row: Row, x: int, end: int) -> bool:
    cell = row[x]
    return (
        cell is not None
        and cell.text == " "
        and cell.ink.plain
        and x + _LONG_BLANK <= end
        and all(other is cell for other in row[x : x + _LONG_BLANK])
    )


def _joined(ink: Ink, other: Ink, text: Sequence[str], char: str) -> Ink | None:
    """The ink in which both can be written; None: none."""
    if ink is other or ink == other:
        return ink
    if ink.background == other.background and ink.plain and other.plain:
        if char == " ":
            return ink
        if all(before == " " for before in text):
            return other
    return None


def sgr(before: Ink, after: Ink) -> str:
    """What changes one ink to another."""
    numbers = []
    if before.attributes != after.attributes:
        if before.attributes:
            numbers.append("0")
            before = NO_INK
        numbers += [after.attributes] if after.attributes else []
    if before.foreground != after.foreground:
        numbers.append(after.foreground or "39")
    if before.background != after.background:
        numbers.append(after.background or "49")
    return f"\x1b[{';'.join(numbers)}m" if numbers else ""


def written(pieces: Sequence[InkRun], columns: int) -> str:
    """The sequences for pieces of a screen with `columns`; those of one ink one after the other.

    Blanks come before what stands on the same background: they may reach over it.
    """
    # A place costs eight bytes, a colour of 24 bits nineteen.
    grounds: dict[str, dict[Ink | None, list[InkRun]]] = {}
    for piece in pieces:
        ground = grounds.setdefault(piece.ink.background, {None: []})
        ground.setdefault(None if piece.blanks else piece.ink, []).append(piece)
    sent: list[str] = []
    ink = NO_INK
    place: Place | None = None
    for piece in (
        piece for ground in grounds.values() for group in ground.values() for piece in group
    ):
        sent.append(_moved(place, (piece.y, piece.x)))
        if piece.blanks:
            wanted = Ink("", ink.foreground, piece.ink.background)
            change = sgr(ink, wanted)
            ink = wanted
            sent += [change, f"\x1b[{piece.blanks}X"]
            place = piece.y, piece.x
        else:
            sent += [sgr(ink, piece.ink), piece.text]
            ink = piece.ink
            # Terminals agree on how wide these are, not on where the last cell leaves the cursor.
            end = piece.x + len(piece.text)
            sure = end < columns and not _UNSURE.search(piece.text)
            place = (piece.y, end) if sure else None
    if ink != NO_INK:
        sent.append("\x1b[m")
    return "".join(sent)


def _moved(before: Place | None, after: Place) -> str:
    """The shortest sequence from one place to another."""
    if before == after:
        return ""
    (y, x), absolute = after, f"\x1b[{after[0] + 1};{after[1] + 1}H"
    if before is None:
        return absolute
    down, right = y - before[0], x - before[1]
    if down == 0 and right > 0:
        return f"\x1b[{right}C"
    if down > 0 and right in (0, -1):
        return "\b" * -right + f"\x1b[{down if down > 1 else ''}B"
    return absolute
