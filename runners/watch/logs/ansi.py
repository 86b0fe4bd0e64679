"""Colours and terminal commands of a log line (ECMA-48; ITU T.416 for 38;5;n and 38;2;r;g;b)."""

import re
from typing import NamedTuple

from runners.model.late_pattern import late_pattern

Colour = int | tuple[int, int, int] | None
"""0–255 of the palette, red-green-blue, or None: the terminal's own."""


class TextStyle(NamedTuple):
    """How a part of a text is drawn."""

    fg: Colour = None
    bg: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


PLAIN = TextStyle()

# Each alternative consumes at least its first character, and what it can without looking back, so a
# line is read once however hostile it is. A string (OSC, DCS, APC, PM, SOS) without its end goes up
# to the next escape or the line's end, as a terminal would take it.
TOKEN = late_pattern(
    "(?P<string>(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x9c|\x1b\\\\)?)"
    "|(?P<csi>(?:\x1b\\[|\x9b)(?P<args>[0-?]*)(?P<mid>[ -/]*)(?P<final>[@-~]?))"
    "|(?P<escape>\x1b[ -/]*[0-~]?|[\x80-\x9f])"
    "|(?P<control>[\x07-\x0d])"
    "|(?P<picture>[\x00-\x06\x0e-\x1f\x7f]+)"
    "|(?P<mark>[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f])"
)
"""Everything in a decoded line that is not plain text; `mark` are invisible format characters."""

_FLAGS = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    29: {"strike": False},
}
# 8 colours from 30 and 40 on, their bright forms, 8 to 15 of the palette, from 90 and 100 on.
_NUMBERS = [*enumerate(range(30, 38)), *enumerate(range(90, 98), 8)]
_FOREGROUND: dict[int, Colour] = {39: None, **{code: number for number, code in _NUMBERS}}
_BACKGROUND = {code + 10: colour for code, colour in _FOREGROUND.items()}


def apply_sgr(style: TextStyle, arguments: str) -> TextStyle:
    """The style after `ESC [ arguments m`; what is not understood changes nothing."""
    # A number of six digits or more is no code, and converting a very long one would take long.
    codes = [
        int(part) if part.isdigit() and len(part) < 6 else 0 for part in re.split("[;:]", arguments)
    ]
    at = 0
    while at < len(codes):
        code = codes[at]
        if code in (38, 48):
            colour, used = _extended(codes[at + 1 : at + 6], ":" in arguments)
            if colour is not None:
                style = style._replace(fg=colour) if code == 38 else style._replace(bg=colour)
            at += used
        elif code == 0:
            style = PLAIN
        elif code in _FLAGS:
            style = style._replace(**_FLAGS[code])
        elif code in _FOREGROUND:
            style = style._replace(fg=_FOREGROUND[code])
        elif code in _BACKGROUND:
            style = style._replace(bg=_BACKGROUND[code])
        at += 1
    return style


def _extended(rest: list[int], colons: bool) -> tuple[Colour, int]:
    """The colour after 38 or 48, and how many arguments it took; colons may name a colour space."""
    if rest[:1] == [5] and len(rest) >= 2:
        return (rest[1] if rest[1] < 256 else None), 2
    if rest[:1] == [2] and len(rest) >= 4:
        # `38:2::r:g:b` has an empty colour space, `38;2;r;g;b` has none.
        skip = 1 if colons and len(rest) >= 5 else 0
        red, green, blue = (min(part, 255) for part in rest[1 + skip : 4 + skip])
        return (red, green, blue), 4 + skip
    # An unknown colour model: the rest belongs to it, and must not be read as other codes.
    return None, len(rest)
