"""`NO_COLOR`: not a single colour is written. What only a background showed, such as the row of a
cursor, is reversed.

Textual 8.2.8 turns colours into greys then, which are colours to a terminal all the same.
https://no-color.org
"""

from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

_APART = 40.0
"""Backgrounds further apart than this, in steps of 255 a channel, are told apart by a person: a
cursor, a selection.
"""


class Colourless(LineFilter):
    """Takes every colour out of a line; bold, underline and the like stay."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text without colours.
        It is reversed where its background stood out from the widget's.
        """
        return [
            Segment(text, style and _plain(style, background), control)
            for text, style, control in segments
        ]


@lru_cache(4096)
def _plain(style: Style, background: Color) -> Style:
    plain = style.without_color
    if style.bgcolor is not None and _distance(style.bgcolor, background) > _APART:
        return plain + Style(reverse=not style.reverse)
    return plain


def _distance(colour: RichColor, background: Color) -> float:
    if colour.is_default:
        return 0.0
    ours, theirs = colour.get_truecolor(), background.rgb
    return float(sum((own - other) ** 2 for own, other in zip(ours, theirs, strict=True)) ** 0.5)
