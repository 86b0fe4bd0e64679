"""The raw bytes of one log line → text that is safe to show, and its colours.

The result is what a terminal would have shown at the end: redraws over `\\r` and `\\b` are
played, colours kept, and all other commands to a terminal dropped. Control characters become
pictures (␀) and invisible format characters their names (‹U+202E›), so that nothing is hidden
in a log. Every line begins without colours: it can be read from the middle of a file, where
nobody knows what came before.
"""

import re
from typing import NamedTuple

from runners.watch.logs.ansi import PLAIN, TOKEN, TextStyle, apply_sgr

LIMIT = 64 * 1024
"""Bytes of a line that are read, and characters that are shown."""

# Of a long progress line only the last redraws matter; a day of them is one line.
_REDRAWS = 8 * 1024

_ZEROS = bytes(16)
"""As many zeros as no program writes on purpose: a hole, cut by output_limit or a crash."""
_MANY_ZEROS = re.compile(rb"\0{16,}")

_TAB = 8
_PICTURES = {code: 0x2400 + code for code in range(32)} | {0x07: None, 0x7F: 0x2421}


class Span(NamedTuple):
    """Characters `start` to `end` of a line's text, drawn in one style."""

    start: int
    end: int
    style: TextStyle


class SafeLine(NamedTuple):
    """Text without control characters, and the parts of it that are not drawn plainly."""

    text: str
    runs: tuple[Span, ...] = ()


def read_line(line: bytes, more: int = 0) -> SafeLine:
    """What a line looks like; `more` bytes were not read, as the note at its end says."""
    if _ZEROS in line:
        # A hole of gigabytes becomes one note: as pictures it would fill the line.
        line = _MANY_ZEROS.sub(lambda zeros: f"␀×{len(zeros[0]):,}".encode(), line)
    line, cut = shorten(line.removesuffix(b"\n").rstrip(b"\r"))
    more += cut
    note = f"… (+{more:,} bytes)" if more else ""
    text = line.decode("utf-8", "replace")
    # Most lines hold nothing special: they are done here.
    first = TOKEN.search(text)
    if first is None:
        return SafeLine(text + note)
    row = _Row()
    _apply(text, first, row)
    return SafeLine("".join(row.cells) + note, row.runs())


def plain(line: bytes) -> str:
    """The text of a line, without colours."""
    return read_line(line).text


def shorten(line: bytes) -> tuple[bytes, int]:
    """At most `LIMIT` bytes of a line, or its last redraws; and how many were left off its end."""
    if len(line) > _REDRAWS:
        redraw = line.find(b"\r", len(line) - _REDRAWS)
        if 0 <= redraw < len(line) - 1:
            return line[redraw + 1 :], 0
    return line[:LIMIT], max(0, len(line) - LIMIT)


class _Row:
    """One row of a terminal: cells that redraws overwrite. A cell is a character, however wide."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.styles: list[TextStyle] = []
        self.at = 0
        self.style = PLAIN

    def write(self, text: str) -> None:
        # Cursor movements cannot make a row longer than what is shown.
        text = text[: LIMIT - self.at]
        end = self.at + len(text)
        self.cells[self.at : end] = text
        self.styles[self.at : end] = [self.style] * len(text)
        self.at = end

    def control(self, character: str) -> None:
        if character == "\r":
            self.at = 0
        elif character == "\b":
            self.at = max(0, self.at - 1)
        elif character == "\t":
            stop = self.at // _TAB * _TAB + _TAB
            # A tab moves the cursor over what is there; only beyond the end it becomes blanks.
            self.at = min(stop, len(self.cells))
            self.write(" " * (stop - self.at))
        else:
            self.write(character.translate(_PICTURES))

    def erase(self, how: str) -> None:
        """ESC [ how K: erase; erasing the whole line also moves to its start, as programs want."""
        if how == "2":
            self.at = 0
        if how in ("", "0", "2"):
            del self.cells[self.at :], self.styles[self.at :]

    def runs(self) -> tuple[Span, ...]:
        runs: list[Span] = []
        start = 0
        for at in range(1, len(self.styles) + 1):
            if at == len(self.styles) or self.styles[at] != self.styles[start]:
                if self.styles[start] != PLAIN:
                    runs.append(Span(start, at, self.styles[start]))
                start = at
        return tuple(runs)


def _apply(text: str, token: "re.Match[str] | None", row: _Row) -> None:
    done = 0
    while token is not None:
        if token.start() > done:
            row.write(text[done : token.start()])
        done = token.end()
        kind = token.lastgroup
        if kind == "picture":
            row.write(token.group().translate(_PICTURES))
        elif kind == "control":
            row.control(token.group())
        elif kind == "mark":
            # Such characters can reverse or hide text in a terminal.
            row.write(f"‹U+{ord(token.group()):04X}›")
        elif (
            token.group("final") == "m"
            and not token.group("mid")
            and not token.group("args").startswith(("<", "=", ">", "?"))  # some terminal's own
        ):
            row.style = apply_sgr(row.style, token.group("args"))
        elif token.group("final") == "K":
            row.erase(token.group("args"))
        token = TOKEN.search(text, done)
    row.write(text[done:])
