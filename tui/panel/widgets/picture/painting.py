"""A picture as rows of a terminal: half blocks, Kitty's placeholders, or a sixel string."""

from collections.abc import Iterator
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style

from tui.panel.terminal.graphics import Graphics
from tui.panel.widgets.picture.kitty import (
    choose_number,
    forgetting,
    placeholders,
    transmission,
)

if TYPE_CHECKING:
    from PIL.Image import Image

Rows = list[list[Segment]]
_SHADES = " ░▒▓█"
_MOST_CELLS = 250
"""Kitty's placeholders number rows and columns by diacritics, of which there are not many more."""


class Painting(NamedTuple):
    """Rows of cells, and what the terminal is sent for them.
    What is sent before they are shown, and when they are gone; the sixels to draw over them.
    """

    rows: Rows
    width: int
    first: str = ""
    last: str = ""
    sixels: str = ""


def fit(size: tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """The cells that a picture of `size` pixels fills of `width` × `height`.
    Each cell is twice as high as wide.
    """
    wide, high = max(1, size[0]), max(1, size[1])
    scale = min(width / wide, 2 * height / high)
    cells = max(1, round(wide * scale)), max(1, round(high * scale / 2))
    return min(width, cells[0]), min(height, cells[1])


def paint(
    picture: "Image", width: int, height: int, way: Graphics, colours: bool, deep: bool = True
) -> Painting:
    """`picture` in at most `width` × `height` cells; without `colours`, in shades. `deep`: the
    terminal is sent colours of 24 bits.
    """
    columns, rows = fit(picture.size, min(width, _MOST_CELLS), min(height, _MOST_CELLS))
    if not colours:
        return Painting(_shades(picture, columns, rows), columns)
    if way is Graphics.BLOCKS:
        return Painting(_half_blocks(picture, columns, rows), columns)
    if way is Graphics.KITTY:
        number = choose_number(deep)
        return Painting(
            placeholders(number, columns, rows),
            columns,
            transmission(picture, number.value, columns, rows),
            forgetting(number.value),
        )
    drawing = import_module("textual_image.renderable").SixelImage(picture, columns, rows)
    drawn = _rendered(drawing, columns, rows)
    # Only the sixels themselves: the library also moves the cursor, as if it wrote to a plain
    # terminal.
    data = "".join(part.text for part in drawn if part.text.startswith("\x1bP"))
    return Painting([[Segment(" " * columns)]] * rows, columns, sixels=data)


def _half_blocks(picture: "Image", columns: int, rows: int) -> Rows:
    pixels = _pixels(picture, columns, rows * 2)
    painted = []
    for y in range(0, rows * 2, 2):
        cells = (
            Segment("▀", Style.from_color(Color.from_rgb(*upper), Color.from_rgb(*lower)))
            for upper, lower in zip(pixels[y], pixels[y + 1], strict=True)
        )
        # Neighbours of one colour as one segment: each has its colours sent.
        painted.append(list(Segment.simplify(cells)))
    return painted


def _shades(picture: "Image", columns: int, rows: int) -> Rows:
    grey = picture.convert("L").resize((columns, rows)).tobytes()
    top = len(_SHADES) - 1
    lines = (grey[y * columns : (y + 1) * columns] for y in range(rows))
    return [
        [Segment("".join(_SHADES[round(brightness / 255 * top)] for brightness in line))]
        for line in lines
    ]


def _pixels(picture: "Image", width: int, height: int) -> list[list[tuple[int, ...]]]:
    content = picture.resize((width, height)).tobytes()
    triples = [tuple(content[i : i + 3]) for i in range(0, len(content), 3)]
    return [triples[y * width : (y + 1) * width] for y in range(height)]


def _rendered(drawing: Any, columns: int, rows: int) -> Iterator[Segment]:
    console = Console(file=StringIO(), width=columns, height=rows, force_terminal=True)
    for part in drawing.__rich_console__(console, console.options.update(height=rows)):
        if isinstance(part, Segment):
            yield part
