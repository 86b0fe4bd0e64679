"""pyte's screen and stream, several times as fast for what a panel writes, and to the same effect.

Tests wait for what a terminal shows: most of their own processor time went into it.
"""

import re
from functools import lru_cache
from typing import Any

import pyte
from pyte import charsets, modes
from pyte.screens import Char, wcwidth

_COMMAND = re.compile(r"\x1b\[([0-9;]*)([mH])")
"""Colours and places to write at: nearly all of a panel's commands."""

_PRIVATE = re.compile(rb"\x1b\[[<>=?][0-9;]*\$?[a-zA-Z]|\x1bP[^\x1b]*\x1b\\")


def known_to_pyte(block: bytes) -> bytes:
    """What a program wrote, without the queries and modes that pyte would write on its screen."""
    return _PRIVATE.sub(_keep_known, block)


def _keep_known(found: re.Match[bytes]) -> bytes:
    command = found.group()
    return command if command.startswith(b"\x1b[?") and command[-1:] in b"hl" else b""


class QuickScreen(pyte.Screen):
    """A screen that writes stretches of ordinary characters at once, and renders changed rows."""

    def __init__(self, columns: int, lines: int) -> None:
        self._cells: dict[Char, dict[str, Char]] = {}
        self._styles: dict[tuple[Char, tuple[int, ...]], Char] = {}
        self._rows: list[str] = []
        super().__init__(columns, lines)

    @property
    def display(self) -> list[str]:
        """The screen's rows as text."""
        if len(self._rows) != self.lines:
            self._rows = [""] * self.lines
            self.dirty.update(range(self.lines))
        for row in self.dirty:
            if row < self.lines:
                self._rows[row] = self._render(row)
        self.dirty.clear()
        return list(self._rows)

    def _render(self, row: int) -> str:
        line = self.buffer[row]
        cells = [line[x].data for x in range(self.columns)]
        if all(cells) and not any(map(_is_wide, cells)):
            return "".join(cells)
        # Half of a wide character whose other half was overwritten is a blank, as in a terminal;
        # pyte's own rows lose the character beside it there, or raise IndexError.
        text = []
        for x, cell in enumerate(cells):
            if not _is_second_half(cell):
                is_cut = _is_wide(cell) and not any(map(_is_second_half, cells[x + 1 : x + 2]))
                text.append(" " if is_cut else cell)
            elif not (x and _is_wide(cells[x - 1])):
                text.append(" ")
        return "".join(text)

    def draw(self, data: str) -> None:
        """Write characters at the cursor."""
        cursor = self.cursor
        plain = self.charset == 0 and self.g0_charset is charsets.LAT1_MAP
        fits = cursor.x + len(data) <= self.columns and modes.IRM not in self.mode
        if not (plain and fits and all(map(_is_single, data))):
            self.dirty.update((cursor.y, max(0, cursor.y - 1)))
            super().draw(data)
            return
        cells = self._cells.setdefault(cursor.attrs, {})
        line = self.buffer[cursor.y]
        for x, character in enumerate(data, cursor.x):
            cell = cells.get(character)
            if cell is None:
                cell = cells[character] = cursor.attrs._replace(data=character)
            line[x] = cell
        cursor.x += len(data)
        self.dirty.add(cursor.y)

    def select_graphic_rendition(self, *attributes: int, **flags: Any) -> None:
        """Change the colours in which is written from now on."""
        key = (self.cursor.attrs, attributes)
        style = self._styles.get(key)
        if style is None or flags:
            super().select_graphic_rendition(*attributes, **flags)
            self._styles[key] = self.cursor.attrs
        else:
            self.cursor.attrs = style


class QuickStream(pyte.ByteStream):
    """A stream that takes whole colours and places to its screen, not each character."""

    def feed(self, data: bytes) -> None:
        """Play what a program has written."""
        text = self.utf8_decoder.decode(data)
        done = 0
        for command in _COMMAND.finditer(text):
            if command.start() > done:
                pyte.Stream.feed(self, text[done : command.start()])
            done = command.start()
            # Within another sequence the parser decides what these characters mean.
            if self._taking_plain_text is not True:
                continue
            numbers = [min(int(number or 0), 9999) for number in command[1].split(";")]
            if command[2] == "m":
                self.listener.select_graphic_rendition(*numbers)
            else:
                self.listener.cursor_position(*numbers)
            done = command.end()
        if done < len(text):
            pyte.Stream.feed(self, text[done:])


@lru_cache(maxsize=4096)
def _is_single(character: str) -> bool:
    return bool(wcwidth(character) == 1)


@lru_cache(maxsize=4096)
def _is_wide(data: str) -> bool:
    return bool(data) and bool(wcwidth(data[0]) == 2)


@lru_cache(maxsize=4096)
def _is_second_half(data: str) -> bool:
    # An accent that follows a wide character is kept in the cell of its second half.
    return not data or wcwidth(data[0]) == 0
