"""Themes of our own beside Textual's, and what each makes of named colours.
High contrast, and safe for any colour vision.

`ansi-dark` and `ansi-light` are Textual's own: they use the terminal's sixteen colours and nothing
else. States are always a sign and a word too. Contrast by WCAG 2.2 (success criterion 1.4.6 asks
for 7:1); colours that everybody tells apart by Okabe and Ito, "Color Universal Design", 2008.
"""

import os
from typing import TYPE_CHECKING

import msgspec
from rich.terminal_theme import TerminalTheme
from textual.theme import Theme

from runners.state.layout import StateDirectory
from tui.panel.panel_memory import recall
from tui.panel.theme.legible import HIGH, TEXT

if TYPE_CHECKING:
    from textual.app import App

    from tui.panel.terminal.terminal_app import TerminalApp

DEFAULT = "textual-dark"


class Named(msgspec.Struct, frozen=True):
    """What `red`, `green` … are in a theme, as `#rrggbb`.
    `quiet` is for what has ended (bright black).
    """

    red: str
    green: str
    yellow: str
    blue: str
    magenta: str
    cyan: str
    quiet: str


_PLAIN_DARK = Named("#f4005f", "#98e024", "#fd971f", "#9d65ff", "#f4005f", "#58d1eb", "#a09c84")
_PLAIN_LIGHT = Named("#aa3731", "#448c27", "#9b6e00", "#325cc0", "#7a3e9d", "#0083b2", "#606060")

_OWN: tuple[tuple[Theme, Named], ...] = (
    (
        Theme(
            name="contrast-dark",
            primary="#ffffff",
            accent="#ffff00",
            warning="#ffff00",
            error="#ff8080",
            success="#40ff40",
            foreground="#ffffff",
            background="#000000",
            surface="#000000",
            panel="#202020",
            text_alpha=1.0,
        ),
        Named("#ff8080", "#40ff40", "#ffff00", "#80b0ff", "#ff90ff", "#40ffff", "#c0c0c0"),
    ),
    (
        Theme(
            name="contrast-light",
            primary="#000000",
            accent="#0000a0",
            warning="#5f4300",
            error="#9b0000",
            success="#005500",
            foreground="#000000",
            background="#ffffff",
            surface="#ffffff",
            panel="#e0e0e0",
            text_alpha=1.0,
            dark=False,
        ),
        Named("#9b0000", "#005500", "#5f4300", "#0000a0", "#7a007a", "#00505f", "#404040"),
    ),
    (
        Theme(
            name="colour-safe-dark",
            primary="#0072b2",
            accent="#e69f00",
            warning="#f0e442",
            error="#e8743b",
            success="#56b4e9",
            foreground="#e8e8e8",
            background="#14161a",
        ),
        Named("#e8743b", "#56b4e9", "#f0e442", "#7aa6ff", "#cc79a7", "#8fd3c1", "#a0a0a0"),
    ),
    (
        Theme(
            name="colour-safe-light",
            primary="#0072b2",
            accent="#a34000",
            warning="#806600",
            error="#600020",
            success="#0060a0",
            foreground="#1a1a1a",
            background="#fafafa",
            surface="#ffffff",
            dark=False,
        ),
        Named("#600020", "#0060a0", "#806600", "#003f87", "#8a3f68", "#006b4f", "#5a5a5a"),
    ),
)
THEMES = {theme.name: (theme, named) for theme, named in _OWN}


def default_theme(app: "App[None]") -> str:
    """The theme where none was chosen: of sixteen colours or fewer, the terminal's own are best.

    Made of them, other themes lose what tells a selected row's state from its background.
    """
    is_poor = bool(os.environ.get("TERM")) and app.console.color_system in (None, "standard")
    return "ansi-dark" if is_poor else DEFAULT


def register_themes(app: "App[None]") -> None:
    """Make our themes known to the application."""
    for theme, _ in THEMES.values():
        app.register_theme(theme)


def apply_theme(app: "TerminalApp", name: str) -> None:
    """Give the named colours that widgets write in the meaning they have in theme `name`."""
    theme = app.available_themes[name]
    # Textual's own themes have none: there are those that Textual begins with.
    plain = _PLAIN_DARK if theme.dark else _PLAIN_LIGHT
    named = THEMES[name][1] if name in THEMES else plain
    app.painter.screen.least_contrast = HIGH if name.startswith("contrast") else TEXT
    app.ansi_theme_dark = app.ansi_theme_light = _terminal_theme(theme, named)


def remembered_theme(state: StateDirectory) -> str | None:
    """The theme that was chosen in the panel last, or None."""
    name = recall(state).get("theme")
    return name if isinstance(name, str) else None


def theme_problem(app: "App[None]", name: str) -> str:
    """What is wrong with `panel.theme` in the settings; empty where it is a theme, or none."""
    known = app.available_themes
    if not name or name in known:
        return ""
    return f"panel.theme: no theme {name!r}; themes: {', '.join(sorted(known))}"


def _terminal_theme(theme: Theme, named: Named) -> TerminalTheme:
    back, front = "#000000" if theme.dark else "#ffffff", "#ffffff" if theme.dark else "#000000"
    if theme.background is not None and theme.background.startswith("#"):
        back = theme.background
    if theme.foreground is not None and theme.foreground.startswith("#"):
        front = theme.foreground
    normal = [back, *msgspec.structs.astuple(named)[:-1], front]
    bright = [named.quiet, *normal[1:]]
    return TerminalTheme(
        _rgb(back),
        _rgb(front),
        [_rgb(colour) for colour in normal],
        [_rgb(colour) for colour in bright],
    )


def _rgb(text: str) -> tuple[int, int, int]:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
