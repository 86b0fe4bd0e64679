"""The last line of a screen: the keys that work now, and what they do.

One widget that draws a line of text: Textual's own footer is a widget for each key, which takes
longer to set up than everything else on the first screen.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.screen import Screen
from textual.widget import Widget

from tui.panel.terminal.repainting import PaintedOnce

_ALWAYS_LAST = 2
"""So many hints at the end of the line stay where not all have room: help and quit."""
_BEFORE_PALETTE = "▏"
_PALETTE_FROM = 72
"""Columns that have room for the palette's hint."""


class KeyHint(NamedTuple):
    """A key as it is written, what it does in a word or two, and in full."""

    key: str
    shown: str
    label: str
    tooltip: str
    is_enabled: bool

    @property
    def width(self) -> int:
        """Cells that the hint takes, blanks around included."""
        return cell_len(self.shown) + cell_len(self.label) + 3


class KeyBar(Widget):
    """The keys of the screen and of what is in focus; a click on one presses it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-bar--key", "key-bar--words"}
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyBar {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;
        .key-bar--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        .key-bar--words {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints: tuple[KeyHint, ...] = ()
        self._palette: KeyHint | None = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._take_in)

    def _take_in(self, screen: Screen[object]) -> None:
        # Without the focus of the terminal, as a browser may begin, an empty line is still filled.
        is_wanted = screen.app.app_focus or not self._hints
        if not (self.is_attached and screen is self.screen and is_wanted):
            return
        if isinstance(screen, PaintedOnce) and not screen.paints:
            return  # working them out takes longer than to draw them; they are told again
        palette_key = self.app.COMMAND_PALETTE_BINDING
        hints: dict[str, KeyHint] = {}
        palette = None
        for key, (_, binding, is_enabled, tooltip) in screen.active_bindings.items():
            shown = self.app.get_key_display(binding)
            tooltip = tooltip or binding.tooltip or binding.description
            hint = KeyHint(binding.key, shown, binding.description, tooltip, is_enabled)
            if key == palette_key:
                palette = hint
            elif binding.show:
                hints.setdefault(binding.action, hint)
        found = tuple(hints.values()), palette
        if found != (self._hints, self._palette):
            self._hints, self._palette = found
            self.refresh()

    def _places(self) -> list[tuple[int, KeyHint]]:
        """The hints that have room, each with its first cell.
        The palette's stands at the right edge.
        """
        width, hints, palette = self.size.width, list(self._hints), self._palette
        # On a small terminal it makes way for the keys of runs.
        if width < _PALETTE_FROM:
            palette = None
        if palette is not None:
            width -= palette.width
        while len(hints) > _ALWAYS_LAST and sum(hint.width for hint in hints) > width:
            del hints[-1 - _ALWAYS_LAST]
        places, start = [], 0
        for hint in hints:
            if start + hint.width <= width:
                places.append((start, hint))
                start += hint.width
        if palette is not None and width >= start:
            places.append((width, palette))
        return places

    def render(self) -> Text:
        keys = self.get_component_rich_style("key-bar--key")
        style = self.get_component_rich_style("key-bar--words")
        line = Text(no_wrap=True, end="")
        for start, hint in self._places():
            line.append(" " * (start - cell_len(line.plain)))
            line.append(_BEFORE_PALETTE if hint is self._palette else " ", keys)
            line.append(hint.shown, keys)
            line.append(f" {hint.label} ", style)
            if not hint.is_enabled:
                line.stylize("dim", start)
        return line

    def _hint_at(self, x: int) -> KeyHint | None:
        places = self._places()
        return next((hint for start, hint in places if start <= x < start + hint.width), None)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say in full what the key does that the mouse is over."""
        hint = self._hint_at(event.x)
        tooltip = hint.tooltip if hint is not None else None
        if tooltip != self.tooltip:
            self.tooltip = tooltip

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key that was clicked."""
        hint = self._hint_at(event.x)
        if hint is not None and hint.is_enabled:
            self.app.simulate_key(hint.key)
        elif hint is not None:
            self.app.bell()
