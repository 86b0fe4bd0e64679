"""Colours with a meaning, kept in one place; a sign and a word always say the same."""

from collections.abc import Iterator
from itertools import count
from string import ascii_lowercase

from textual.theme import Theme

# Blue, orange, teal, pink …: told apart with any colour vision (Okabe and Ito, "Color Universal
# Design", 2008).
_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2")
_ON_LIGHT = ("#0072B2", "#9A5B00", "#00785A", "#A0527B", "#6E6400", "#B34A00", "#2A5DB0")
_ANSI = ("bright_blue", "yellow", "green", "magenta", "cyan", "red", "blue")
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def run_colours(theme: Theme) -> tuple[str, ...]:
    """The runs' colours on a theme's background, or the terminal's own where the theme has none."""
    if theme.ansi:
        return _ANSI
    return _ON_DARK if theme.dark else _ON_LIGHT


def run_colour(letter: str, theme: Theme) -> str:
    """The colour that goes with a run's letter."""
    colours = run_colours(theme)
    return colours[(sum(map(ord, letter)) - 65) % len(colours)] if letter else ""


def small_letters() -> Iterator[str]:
    """`a` to `z`, then `a2` and so on."""
    for turn in count(1):
        yield from (f"{letter}{turn if turn > 1 else ''}" for letter in ascii_lowercase)


def bar(fraction: float | None, width: int) -> str:
    """A bar of `width` cells in steps of an eighth; dots where the value is unknown."""
    if fraction is None:
        return "·" * width
    eighths = round(min(1.0, max(0.0, fraction)) * width * 8)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text.ljust(width, "░")[:width]
