"""Our themes can be read: enough contrast, and colours with different meanings told apart by any
colour vision.
"""

import itertools

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import ANSIToTruecolor
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES

from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.app import PanelApp
from tui.panel.theme.legible import legible
from tui.panel.theme.palette import run_colour, run_colours
from tui.panel.theme.themes import THEMES, Named, apply_theme
from tui.panel.widgets.metrics.drawn_runs import small_letter

CONTRAST = [name for name in THEMES if name.startswith("contrast")]
SAFE = [name for name in THEMES if name.startswith("colour-safe")]

# Viénot, Brettel and Mollon, "Digital video colourmaps for checking the legibility of displays by
# dichromats", 1999: linear RGB as a protanope and a deuteranope see it.
PROTANOPIA = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))
DEUTERANOPIA = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))


def linear(text: str) -> tuple[float, float, float]:
    parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return red, green, blue


def luminance(colour: tuple[float, float, float]) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2, from 1 to 21."""
    low, high = sorted((luminance(linear(one)), luminance(linear(other))))
    return (high + 0.05) / (low + 0.05)


def seen(text: str, eyes: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """A colour as these eyes see it, in roughly even steps."""
    rgb = linear(text)
    return tuple(
        max(0.0, sum(a * b for a, b in zip(row, rgb, strict=True))) ** (1 / 2.2) for row in eyes
    )


@pytest.mark.parametrize("name", THEMES)
def test_every_named_colour_can_be_read_on_its_background(name: str) -> None:
    theme, named = THEMES[name]
    assert theme.background is not None and theme.foreground is not None
    least = 7.0 if name in CONTRAST else 4.5
    colours = {field: getattr(named, field) for field in Named.__struct_fields__} | {
        "text": theme.foreground
    }
    poor = {
        field: round(contrast(colour, theme.background), 1) for field, colour in colours.items()
    }
    assert all(ratio >= least for ratio in poor.values()), poor


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("eyes", [PROTANOPIA, DEUTERANOPIA], ids=["protanopia", "deuteranopia"])
def test_failed_running_and_waiting_are_told_apart_by_any_eyes(
    name: str, eyes: tuple[tuple[float, ...], ...]
) -> None:
    _, named = THEMES[name]
    looks = {colour: seen(colour, eyes) for colour in (named.red, named.green, named.yellow)}
    for one, other in itertools.combinations(looks, 2):
        far = sum((a - b) ** 2 for a, b in zip(looks[one], looks[other], strict=True)) ** 0.5
        assert far > 0.2, f"{one} and {other} look alike ({far:.2f})"


WORDS = [
    *sorted({state.style for state in State}),
    *("", "dim", "bold", "reverse", "red", "yellow", "dim green", "bright_blue"),
]
"""How widgets style what they write."""
BACKGROUNDS = [
    *("background", "surface", "panel", "boost", "primary", "accent", "warning", "error"),
    *("block-cursor-background", "block-cursor-blurred-background", "block-hover-background"),
]
"""What words stand on: panes, dialogs, lines of keys, buttons, rows under a cursor."""


@pytest.mark.parametrize(
    "name", [name for name in [*BUILTIN_THEMES, *THEMES] if "ansi" not in name]
)
def test_every_word_can_be_read_on_every_background_of_every_theme(name: str) -> None:
    app = PanelApp(StateDirectory())
    theme = app.available_themes[name]
    apply_theme(app, name)
    values = theme.to_color_system().generate()
    colours = {
        key: Color.parse(values[key]) for key in (*BACKGROUNDS, "foreground", "accent", "primary")
    }
    front = [colours["foreground"], *(colours[key] for key in ("accent", "primary", "error"))]
    least = 7.0 if name in CONTRAST else 4.5
    poor = []
    for background in BACKGROUNDS:
        behind = colours["background"].blend(colours[background], colours[background].a)
        for word, colour in itertools.product(WORDS, front):
            style = Style.from_color(colour.rich_color, behind.rich_color) + Style.parse(word)
            painted = Strip([Segment("done 12", style)])
            painted = painted.apply_filter(ANSIToTruecolor(app.ansi_theme_dark), behind)
            shown = legible(next(iter(painted)).style or Style(), app.painter.screen.least_contrast)
            assert shown.color is not None and shown.bgcolor is not None
            ratio = contrast(shown.color.get_truecolor().hex, shown.bgcolor.get_truecolor().hex)
            if ratio < least:
                poor.append((background, word, round(ratio, 2)))
    assert not poor


@pytest.mark.parametrize("name", ["textual-dark", "textual-light", "ansi-dark"])
def test_curves_that_are_drawn_together_have_colours_of_their_own(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    drawn = ["A", "E"]
    while len(drawn) < len(run_colours(theme)):
        drawn.append(small_letter(drawn, drawn, theme))
    assert len({run_colour(letter, theme) for letter in drawn}) == len(drawn)
    assert small_letter(drawn, drawn, theme) not in drawn
