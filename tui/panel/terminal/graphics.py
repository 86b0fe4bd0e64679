"""How the terminal can show a picture: Kitty's graphics, sixel, or coloured half blocks.

Kitty's and sixel need `textual-image` (https://github.com/lnqs/textual-image), which asks the
terminal when it is imported and reads the answer itself: so the panel steps aside meanwhile, once.
`$FRESNEL_PICTURES` says it instead of asking: `kitty`, `sixel` or `blocks`.
"""

import logging
import os
from collections.abc import Sequence
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from textual.app import App, SuspendNotSupported


class Graphics(str, Enum):
    """A way to show pictures, by the name that `$FRESNEL_PICTURES` has for it."""

    KITTY = "kitty"
    SIXEL = "sixel"
    BLOCKS = "blocks"


_CLASSES = {"TGPImage": Graphics.KITTY, "SixelImage": Graphics.SIXEL}
_known: list[Graphics] = []


def terminal_graphics(app: App[Any]) -> Graphics:
    """The best way that this terminal has; asked of it at the first call."""
    if not _known:
        _known.append(_find_out(app))
    return _known[0]


def _find_out(app: App[Any]) -> Graphics:
    word = os.environ.get("FRESNEL_PICTURES", "").lower()
    if word == Graphics.BLOCKS or app.no_color or find_spec("textual_image") is None:
        return Graphics.BLOCKS
    found = _ask(app)
    return Graphics(word) if word in [graphics.value for graphics in Graphics] else found


def _ask(app: App[Any]) -> Graphics:
    # What it has to say of a silent terminal would be written across the screen.
    logging.getLogger("textual_image").addHandler(logging.NullHandler())
    try:
        with app.suspend():
            library = import_module("textual_image.renderable")
            import_module("textual_image._terminal").get_cell_size()
    except (SuspendNotSupported, ImportError, ValueError):
        # ValueError: what somebody typed meanwhile was taken for the answer.
        return Graphics.BLOCKS
    for name, way in _CLASSES.items():
        # The library calls the class that fits this terminal `Image`.
        if library.Image is getattr(library, name):
            return way
    return Graphics.BLOCKS


def cell_numbers() -> Sequence[int]:
    """The marks that number a picture's rows and columns in Kitty's protocol.
    Code points in their order.
    """
    # Private, but Kitty's own table: a copy of it could only go wrong.
    numbers: Sequence[int] = import_module("textual_image.renderable.tgp")._NUMBER_TO_DIACRITIC
    return numbers


def cell_pixels() -> Any:
    """How many pixels a cell of the terminal is wide and high, as `width` and `height`."""
    return import_module("textual_image._terminal").get_cell_size()
