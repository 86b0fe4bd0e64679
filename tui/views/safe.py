"""Text from outside made safe for a terminal; every front end passes its text through here.

A name, a path, a metric or another user's command line may hold escape sequences that write to the
clipboard, set the title, or hide and reorder what is shown.
"""

import io
import re
from typing import Any

from runners.model.late_pattern import late_pattern

# C0 but tab and newline, DEL, C1, the line and paragraph separators, what reorders text
# (Unicode Standard Annex 9) or hides in it, and half characters.
_UNSAFE = late_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)
OUTPUT = "the output"
"""As what an OSError names a standard stream that takes no more."""
_BREAKS = late_pattern("[\t\n]")
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_CONTROLS = late_pattern(r"\x1b\[[0-9;:?]*[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""No text in what is pasted; colours go whole, so that nothing is left of them."""
SWITCHED_OFF = (
    "\x1b[<u"  # Kitty's keyboard protocol
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # the mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2048l"  # focus, pasting, updates at once, sizes
    "\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[0m\x1b(B"  # screen, cursor, wrapping, colours, letters
)
"""What a panel switches on, switched off. xterm, "Control Sequences", and Kitty's protocols."""


def safe(text: str) -> str:
    """`text` without anything that a terminal obeys; tabs and newlines stay."""
    return text if text.isprintable() else _UNSAFE.sub(_picture, text)


def safe_cell(text: str) -> str:
    """`text` as one line, for a cell of a table: newlines and tabs are shown too."""
    return text if text.isprintable() else _BREAKS.sub(_picture, _UNSAFE.sub(_picture, text))


def safe_json(text: str) -> str:
    """A JSON document with the same content, in which everything unsafe is spelled as `\\uXXXX`."""
    return text if text.isprintable() else _UNSAFE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def _picture(match: "re.Match[str]") -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    # A byte that was no UTF-8, as Python keeps it in a name.
    return f"‹{code - 0xDC00:02X}›" if 0xDC80 <= code <= 0xDCFF else f"‹U+{code:04X}›"


class SafeStream(io.TextIOWrapper):
    """Standard output or error made safe; `buffer` takes raw bytes, `control` our own sequences."""

    def write(self, text: str) -> int:
        """Write `text`, made safe; the number of its characters. Raises OSError."""
        self._write(safe(text))
        return len(text)

    def control(self, text: str) -> None:
        """Write our own escape sequences."""
        self._write(text)

    def flush(self) -> None:
        """Hand everything on. Raises OSError."""
        try:
            super().flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, OUTPUT) from None

    def _write(self, text: str) -> None:
        try:
            super().write(text)
        except OSError as error:
            raise OSError(error.errno, error.strerror, OUTPUT) from None


def safe_stream(stream: Any) -> SafeStream:
    """`stream`, a standard stream as Python opened it, made safe; it must not be used any more."""
    lines, through = stream.line_buffering, stream.write_through
    return SafeStream(
        stream.detach(),
        # Whatever the locale: terminals are, and JSON is.
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=lines,
        write_through=through,
    )


class PastedText:
    """What comes from a terminal, in pieces, without the control characters of its pastes.

    Textual's parser takes an escape in a paste for the beginning of a key, and types what follows:
    of a copied log with colours `x y` would delete a run.
    """

    def __init__(self) -> None:
        self._paste: str | None = None
        """What came of a paste so far; None outside of one."""
        self._before = ""
        """The end of what went before: a paste's beginning may come in pieces."""

    def cleaned(self, text: str) -> str:
        """The next piece; empty while a paste has not ended."""
        done: list[str] = []
        while text:
            if self._paste is None:
                at = (self._before + text).find(_PASTE)
                cut = len(text) if at < 0 else at + len(_PASTE) - len(self._before)
                done.append(text[:cut])
                self._before = "" if at >= 0 else (self._before + text)[1 - len(_PASTE) :]
                self._paste = None if at < 0 else ""
                text = text[cut:]
            else:
                body, end, text = (self._paste + text).partition(_PASTED)
                self._paste = None if end else body
                if end:
                    done += _CONTROLS.sub("", body), end
        return "".join(done)
