"""Kitty's graphics: a picture that is sent once, and cells of text that stand for it.

Facts: https://sw.kovidgoyal.net/kitty/graphics-protocol/ (chunks of at most 4,096 characters, of
which only the first has all keys; Unicode placeholders, whose colour and third diacritic are the
picture's number; `d=I` frees it). `textual-image` knows the diacritics and asks for the size of a
cell; what it sends itself goes past Textual's own writing, and its deletion is of everything.
"""

import io
import random
from base64 import standard_b64encode
from typing import TYPE_CHECKING, NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from tui.panel.terminal.graphics import cell_numbers, cell_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

CHUNK = 4096
PLACEHOLDER = "\U0010eeee"
_LEVELS = (0, 95, 135, 175, 215, 255)
"""The steps of each colour among the 256 of xterm's palette, from its number 16."""


class PictureNumber(NamedTuple):
    """A picture's number for the terminal, and the colour and diacritic that spell it."""

    value: int
    colour: tuple[int, int, int]
    high: int


def choose_number(deep: bool) -> PictureNumber:
    """A number that hardly another picture has.
    The terminal gets its colour with 24 bits (`deep`) or as one of 256.
    """
    high, red, green = random.randrange(256), random.randint(1, 5), random.randint(0, 5)
    # Without blue it is a full colour, which is brought to exactly its place in the palette.
    colour = _LEVELS[red], _LEVELS[green], 0
    low = colour[0] << 16 | colour[1] << 8 if deep else 16 + 36 * red + 6 * green
    return PictureNumber(high << 24 | low, colour, high)


def transmission(picture: "Image", number: int, columns: int, rows: int) -> str:
    """What gives the terminal the picture as `number`, to be shown in `columns` × `rows` cells."""
    cell = cell_pixels()
    png = io.BytesIO()
    # Resized here: over SSH a photo of many megapixels would take seconds to arrive.
    picture.resize((columns * cell.width, rows * cell.height)).save(png, "PNG")
    data = standard_b64encode(png.getvalue()).decode()
    chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    parts = []
    for i, chunk in enumerate(chunks):
        keys = f"a=t,f=100,i={number}," if i == 0 else ""
        parts.append(f"\x1b_G{keys}q=2,m={int(i < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(parts) + f"\x1b_Ga=p,U=1,i={number},c={columns},r={rows},q=2\x1b\\"


def forgetting(number: int) -> str:
    """What frees the terminal's memory of a picture."""
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"


def placeholders(number: PictureNumber, columns: int, rows: int) -> list[list[Segment]]:
    """The cells that stand for a picture: each says which part of it is there."""
    table = cell_numbers()
    style = Style(color=Color.from_rgb(*number.colour))
    return [
        [
            Segment(
                "".join(
                    f"{PLACEHOLDER}{chr(table[row])}{chr(table[column])}{chr(table[number.high])}"
                    for column in range(columns)
                ),
                style,
            )
        ]
        for row in range(rows)
    ]
