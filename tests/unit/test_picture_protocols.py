"""What terminals are sent of a picture, read by the rules of Kitty's graphics and of sixel.

Facts: https://sw.kovidgoyal.net/kitty/graphics-protocol/; DEC's VT330/VT340 Programmer Reference
Manual, volume 2, chapter 14.
"""

import base64
import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.color import ColorSystem

from tui.panel.terminal.graphics import Graphics
from tui.panel.widgets.picture.kitty import CHUNK, PLACEHOLDER, choose_number
from tui.panel.widgets.picture.painting import Painting, paint

PIL = pytest.importorskip("PIL.Image")
pytest.importorskip("textual_image")
from textual_image._terminal import get_cell_size  # noqa: E402
from textual_image.renderable.tgp import _NUMBER_TO_DIACRITIC  # noqa: E402

COMMAND = re.compile(r"\x1b_G([^;\x1b]*)(?:;([A-Za-z0-9+/=]*))?\x1b\\")
SIXEL = re.compile(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)([?-~])|([?-~])|(\$)|(-)")


def noise(size: tuple[int, int]) -> Any:
    """A picture that no packing makes small."""
    red = PIL.effect_noise(size, 90)
    return PIL.merge("RGB", (red, red.transpose(PIL.Transpose.ROTATE_180), PIL.new("L", size, 60)))


def commands(text: str) -> Iterator[tuple[dict[str, str], str]]:
    """Kitty's commands in `text`, of which it has to consist: keys and payload."""
    at = 0
    while at < len(text):
        found = COMMAND.match(text, at)
        assert found, text[at : at + 60]
        yield dict(pair.split("=") for pair in found[1].split(",")), found[2] or ""
        at = found.end()


@pytest.mark.parametrize("deep", [True, False])
def test_kitty_gets_chunks_a_place_and_cells_that_say_their_part(deep: bool) -> None:
    painting = paint(noise((400, 200)), 60, 15, Graphics.KITTY, colours=True, deep=deep)
    sent = list(commands(painting.first))
    *chunks, (place, nothing) = sent
    assert len(chunks) > 3 and not nothing
    first = chunks[0][0]
    assert (first["a"], first["f"], first["m"]) == ("t", "100", "1")
    number = int(first["i"])
    assert 0 < number < 1 << 32
    for keys, payload in chunks[:-1]:
        assert len(payload) == CHUNK and keys["m"] == "1"
    assert 0 < len(chunks[-1][1]) <= CHUNK and chunks[-1][0]["m"] == "0"
    assert all(set(keys) == {"m", "q"} for keys, _ in chunks[1:]), "only m and q after the first"
    assert all(keys["q"] == "2" for keys, _ in sent), "no answer, which would be taken for keys"
    picture = PIL.open(
        io.BytesIO(base64.b64decode("".join(one for _, one in chunks), validate=True))
    )
    cell = get_cell_size()
    rows = len(painting.rows)
    assert picture.format == "PNG"
    assert picture.size == (painting.width * cell.width, rows * cell.height)
    assert {key: place[key] for key in "aUicr"} == {
        "a": "p", "U": "1", "i": str(number), "c": str(painting.width), "r": str(rows),
    }  # fmt: skip
    ((gone, _),) = commands(painting.last)
    assert (gone["a"], gone["d"], gone["i"]) == ("d", "I", str(number)), "this picture alone"
    check_cells(painting, number, deep)


def check_cells(painting: Painting, number: int, deep: bool) -> None:
    """Each cell has the number of the picture, its row and its column."""
    for y, row in enumerate(painting.rows):
        (segment,) = row
        cells = re.findall(f"{PLACEHOLDER}(.)(.)(.)", segment.text)
        assert len(segment.text) == 4 * painting.width == 4 * len(cells)
        spelled = [tuple(_NUMBER_TO_DIACRITIC.index(ord(mark)) for mark in cell) for cell in cells]
        assert spelled == [(y, x, number >> 24) for x in range(painting.width)]
        assert segment.style is not None and segment.style.color is not None
        colour = segment.style.color
        if deep:
            assert colour.triplet is not None
            red, green, blue = colour.triplet
            assert red << 16 | green << 8 | blue == number & 0xFFFFFF
        else:
            assert colour.downgrade(ColorSystem.EIGHT_BIT).number == number & 0xFFFFFF


def test_numbers_are_spelled_whatever_colours_the_terminal_gets() -> None:
    for number in (choose_number(deep=False) for _ in range(200)):
        assert 16 <= number.value & 0xFFFFFF < 256 and number.value >> 24 == number.high


def pixels_of(text: str) -> tuple[tuple[int, int], dict[tuple[int, int], tuple[int, ...]]]:
    """Size and pixels, in percent of red, green and blue, of one sixel picture."""
    found = re.fullmatch(r'\x1bP([\d;]*)q"(\d+);(\d+);(\d+);(\d+)(.*)\x1b\\', text, re.DOTALL)
    assert found, text[:80]
    assert (found[2], found[3]) == ("1", "1"), "square pixels"
    size = int(found[4]), int(found[5])
    registers: dict[str, tuple[int, ...]] = {}
    drawn: dict[tuple[int, int], tuple[int, ...]] = {}
    at, x, y, colour = 0, 0, 0, ""
    while at < len(found[6]):
        token = SIXEL.match(found[6], at)
        assert token, found[6][at : at + 40]
        at = token.end()
        if token[1]:
            colour = token[1]
            if token[2]:
                registers[colour] = tuple(int(one) for one in token.group(2, 3, 4))
                assert max(registers[colour]) <= 100 and int(colour) < 256
        elif token[8]:
            x = 0
        elif token[9]:
            x, y = 0, y + 6
        else:
            bits = ord(token[6] or token[7]) - 63
            count = int(token[5] or 1)
            rows = [y + i for i in range(6) if bits >> i & 1]
            drawn |= {(x + i, row): registers[colour] for i in range(count) for row in rows}
            x += count
    return size, drawn


def test_sixels_have_the_size_they_say_and_the_colours_of_the_picture() -> None:
    picture = PIL.new("RGB", (40, 40), "red")
    picture.paste((0, 0, 255), (0, 20, 40, 40))
    painting = paint(picture, 10, 4, Graphics.SIXEL, colours=True)
    size, drawn = pixels_of(painting.sixels)
    cell = get_cell_size()
    assert size == (painting.width * cell.width, len(painting.rows) * cell.height)
    assert set(drawn) == {(x, y) for x in range(size[0]) for y in range(size[1])}
    assert drawn[0, 0] == drawn[size[0] - 1, size[1] // 2 - 2] == (100, 0, 0)
    assert drawn[0, size[1] // 2 + 2] == drawn[size[0] - 1, size[1] - 1] == (0, 0, 100)


def test_a_picture_of_many_colours_is_all_drawn() -> None:
    painting = paint(noise((120, 60)), 12, 3, Graphics.SIXEL, colours=True)
    size, drawn = pixels_of(painting.sixels)
    assert len(drawn) == size[0] * size[1] and len(set(drawn.values())) > 16
