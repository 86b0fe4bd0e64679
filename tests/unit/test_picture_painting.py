"""A picture as a terminal's cells: its shape kept, its colours where they belong."""

import pytest

from tui.panel.terminal.graphics import Graphics
from tui.panel.widgets.picture.painting import fit, paint

PIL = pytest.importorskip("PIL.Image")


def halves(size: tuple[int, int] = (40, 40)) -> "PIL.Image":
    """Red above, blue below."""
    picture = PIL.new("RGB", size, "red")
    picture.paste((0, 0, 255), (0, size[1] // 2, size[0], size[1]))
    return picture


def test_a_picture_keeps_its_shape_in_cells_twice_as_high_as_wide() -> None:
    assert fit((100, 100), 80, 20) == (40, 20)
    assert fit((400, 100), 80, 20) == (80, 10)
    assert fit((10, 1000), 80, 20) == (1, 20)
    assert fit((1000, 1), 80, 20) == (80, 1)


def test_half_blocks_have_the_colours_of_their_pixels() -> None:
    painting = paint(halves(), 20, 5, Graphics.BLOCKS, colours=True)
    assert (painting.width, len(painting.rows)) == (10, 5)
    assert all("".join(one.text for one in row) == "▀" * 10 for row in painting.rows)
    top, bottom = painting.rows[0][0].style, painting.rows[-1][-1].style
    assert top is not None and top.color is not None and bottom is not None
    assert top.color.triplet == (255, 0, 0)
    assert bottom.bgcolor is not None and bottom.bgcolor.triplet == (0, 0, 255)


def test_without_colours_there_are_shades() -> None:
    picture = PIL.linear_gradient("L").convert("RGB")
    rows = paint(picture, 8, 4, Graphics.KITTY, colours=False).rows
    shades = [row[0].text[0] for row in rows]
    assert all(row[0].style is None for row in rows) and shades == sorted(shades)
    assert len(set(shades)) >= 2


def test_sixels_are_for_blank_cells() -> None:
    pytest.importorskip("textual_image")
    painting = paint(halves(), 20, 5, Graphics.SIXEL, colours=True)
    assert [row[0].text for row in painting.rows] == [" " * 10] * 5
    assert painting.sixels.startswith("\x1bP") and painting.sixels.endswith("\x1b\\")
