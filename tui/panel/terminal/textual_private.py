"""The private names of Textual that the panel uses: these, and no others.

* `textual._xterm_parser`: `XTermParser`, keys from a terminal's bytes, in a thread of our own.
  Textual's looks ten times a second whether it is to end: a tenth of an idle panel's time.
* `textual._compositor`: `Compositor`, and the two kinds of update that it makes.
* `App._display`: where an update is on its way to the terminal. Textual would send all of a line,
  and whatever the line takes.
* `Screen._compositor`: one of ours in its place.
* `Compositor._dirty_regions`: what changed. Textual would render all that lies between changes.

`tests/unit/test_textual_private.py` tests each, and finds any other.
"""

from typing import Final

from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual._xterm_parser import XTermParser

PRIVATE_NAMES: Final = (
    "_xterm_parser",
    "_compositor",
    "_display",
    "_dirty_regions",
)
"""As they are written: `_compositor` is a module and an attribute."""

__all__ = ["PRIVATE_NAMES", "ChopsUpdate", "Compositor", "LayoutUpdate", "XTermParser"]
