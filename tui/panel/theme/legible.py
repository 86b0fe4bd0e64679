"""Text that stands out from its background in every theme, by as much as a reader needs.

Themes mix their colours: dim text, a state's colour on the cursor's row, a key's letter on a bar.
Where such a pair has too little contrast (WCAG 2.2, success criteria 1.4.3 and 1.4.6), the text's
colour is moved towards white or black until it has enough, and no further.

This is done where styles become a terminal's codes, once for each style: painted lines are many.
"""

from rich.color import Color
from rich.style import Style

TEXT = 4.5
HIGH = 7.0
"""What the themes of high contrast promise."""
_STEPS = 24


def contrast(front: tuple[int, int, int], behind: tuple[int, int, int]) -> float:
    """The contrast ratio of WCAG 2.2 between two colours, from 1 to 21."""
    low, high = sorted((_luminance(front), _luminance(behind)))
    return (high + 0.05) / (low + 0.05)


def legible(style: Style, least: float) -> Style:
    """The style, its text in another colour where it has not the contrast `least`."""
    behind, before = style.bgcolor, style.color
    if style.reverse:
        behind, before = before, behind
    if behind is None or before is None or behind.triplet is None or before.triplet is None:
        return style  # the terminal's own colours, whatever they are
    better = _moved((*before.triplet,), (*behind.triplet,), least)
    if better == (*before.triplet,):
        return style
    colour = Color.from_rgb(*better)
    return style + (Style(bgcolor=colour) if style.reverse else Style(color=colour))


def _moved(
    colour: tuple[int, int, int], behind: tuple[int, int, int], least: float
) -> tuple[int, int, int]:
    """The colour, moved away from what is behind it until the contrast is enough."""
    if contrast(colour, behind) >= least:
        return colour
    end = max(((0, 0, 0), (255, 255, 255)), key=lambda end: contrast(end, behind))
    for step in range(1, _STEPS):
        red, green, blue = (
            round(begin + (goal - begin) * step / _STEPS)
            for begin, goal in zip(colour, end, strict=True)
        )
        if contrast((red, green, blue), behind) >= least:
            return red, green, blue
    return end


def _luminance(colour: tuple[int, int, int]) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
