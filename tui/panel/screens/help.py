"""The help screen: every key, and the words for what is seen."""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, ClassVar

from rich.console import Console
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from runners.model.states import State
from tui.panel.hotkeys import key_lines, key_name
from tui.panel.screen_keys import (
    CHART_KEYS,
    COMMAND_KEYS,
    CURVE_KEYS,
    HELP_KEYS,
    LAUNCH_KEYS,
    MONEY_KEYS,
    PICTURES_KEYS,
    SETTINGS_KEYS,
)
from tui.panel.screens.dialogs import TEXT_KEYS, Dialog, ScrollsByKeys
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.metrics.page_keys import PAGE_KEYS
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.row_painting import strip_of
from tui.panel.widgets.runs import RunPane

_PALETTE = "palette: every action, themes"
_HERE = ": here"
_SLOW_LINES = 25
"""Each line costs bytes: about as many as a key's effect can have within a second."""
_KEYS_WIDTH = 18
"""Cells for keys; a long list of them wraps rather than narrow the words."""
_COLUMN = 55
"""Cells of a column of keys and the space behind it: as many stand side by side as have room."""
_BETWEEN = 2
_WIDE = 120

_PLACES: tuple[tuple[str, tuple[str, ...], list[BindingType]], ...] = (
    ("GPUs, runs", ("RowList",), RowList.BINDINGS),
    ("GPUs", ("GpuPane",), GpuPane.BINDINGS),
    ("Runs", ("RunPane",), RunPane.BINDINGS),
    ("Log", ("LogPane", "LogArea"), [*LogPane.BINDINGS, *LogArea.BINDINGS]),
    ("Launch form (n)", ("LaunchScreen",), LAUNCH_KEYS),
    ("Money and guard ($)", ("MoneyScreen",), MONEY_KEYS),
    (
        "Metrics (m)",
        ("MetricsScreen", "ChartGrid", "MetricRunList"),
        [*PAGE_KEYS, *CHART_KEYS, *CURVE_KEYS],
    ),
    ("Settings (,)", ("SettingsScreen",), SETTINGS_KEYS),
    ("Pictures (I)", ("PicturesScreen",), PICTURES_KEYS),
    ("Command log (c)", ("CommandScreen",), COMMAND_KEYS),
    ("This page (?)", ("HelpScreen",), HELP_KEYS),
)
"""Names of the classes where keys are bound, in the order of the page."""


def key_tables(
    app: App[Any], screen: Screen[Any] | None = None, focused: Widget | None = None
) -> dict[str, list[tuple[str, str]]]:
    """The keys by place, as they are bound there, and what they do.
    Those of the `screen` and of the pane that is `focused` stand first.
    """
    is_cockpit = screen is None or screen is app.screen_stack[0]
    # A page has keys of its own: those of the main screen do something else there, or nothing.
    everywhere = key_lines([*(app.screen_stack[0].BINDINGS if is_cockpit else ()), *app.BINDINGS])
    everywhere += [("Tab", "next pane"), (key_name(app.COMMAND_PALETTE_BINDING), _PALETTE)]
    tables = {"Everywhere": everywhere}
    for name, _, bindings in _PLACES:
        tables[name] = key_lines(bindings)
    kinds = {kind.__name__ for thing in (screen, focused) for kind in type(thing).__mro__}
    nearby = {name: tables.pop(name) for name, owners, _ in reversed(_PLACES) if kinds & {*owners}}
    here = {f"{name}{_HERE}": lines for name, lines in nearby.items()}
    return {**here, **(tables if is_cockpit else {"Everywhere": everywhere})}


class HelpScreen(Dialog[None]):
    """All keys; any of Esc, q, ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def __init__(self, screen: Screen[Any] | None = None, focused: Widget | None = None) -> None:
        super().__init__()
        self._below, self._focused_before = screen, focused

    def compose(self) -> ComposeResult:
        self.on_resize()  # a class that comes with the first size would be laid out once more
        yield _KeyPage(key_tables(self.app, self._below, self._focused_before))

    def on_resize(self) -> None:
        """Take the width there is where keys stand side by side in it."""
        self.set_class(self.app.size.width >= _WIDE, "-spread")


class _KeyPage(ScrollView, ScrollsByKeys):
    """The page, drawn line by line: a table of all keys would be laid out anew for each frame."""

    BINDINGS: ClassVar[list[BindingType]] = TEXT_KEYS
    DEFAULT_CSS = "_KeyPage { scrollbar-gutter: stable; }"

    def __init__(self, tables: dict[str, list[tuple[str, str]]]) -> None:
        super().__init__(classes="dialog")
        self._tables = tables
        self._lines: list[Text] = []
        self._width = 0
        self.border_title = "Keys"
        self.border_subtitle = "Esc closes"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The lines that it has, known before it is laid out: else a page of none came first."""
        lines = len(self._wrapped(width - self.styles.scrollbar_size_vertical))
        return min(lines, _SLOW_LINES) if self.app.has_class("-slow") else lines

    def on_resize(self) -> None:
        """Have it as long as it is in the room there is."""
        width = self.scrollable_content_region.width
        self.virtual_size = Size(width, len(self._wrapped(width)))

    def _wrapped(self, width: int) -> list[Text]:
        if width != self._width:
            self._width = width
            self._lines = [*_key_columns(self._tables, width), Text(), *_signs(width)]
        return self._lines

    def render_line(self, y: int) -> Strip:
        width, style = self.scrollable_content_region.width, self.rich_style
        line, lines = y + round(self.scroll_offset.y), self._wrapped(width)
        if line >= len(lines):
            return Strip.blank(width, style)
        return strip_of(lines[line], width, self.app.console, style)


def _key_columns(tables: dict[str, list[tuple[str, str]]], width: int) -> list[Text]:
    """The tables side by side: what is near first, then the longest first into the shortest."""
    count = max(1, (width + _BETWEEN) // _COLUMN)
    room = (width + _BETWEEN) // count - _BETWEEN
    drawn = [_key_lines(place, keys, room) for place, keys in tables.items()]
    if count > 1:
        drawn.sort(key=len, reverse=True)
        drawn.sort(key=lambda lines: not lines[0].plain.endswith(_HERE))
    columns: list[list[Text]] = [[] for _ in range(count)]
    for lines in drawn:
        shortest = min(columns, key=len)
        shortest += lines
    return [_beside(row, room) for row in zip_longest(*columns, fillvalue=Text())]


def _beside(row: Sequence[Text], room: int) -> Text:
    line = Text()
    for number, part in enumerate(row):
        line.append(" " * (number * (room + _BETWEEN) - line.cell_len))
        line.append_text(part)
    return line


def _key_lines(place: str, keys: Sequence[tuple[str, str]], width: int) -> list[Text]:
    lines = [Text(place, style="bold underline")]
    longest = min(_KEYS_WIDTH, max(len(key) for key, _ in keys) + 3)
    for key, what in keys:
        left = textwrap.wrap(key, longest - 3)
        right = textwrap.wrap(what, max(10, width - longest))
        for i in range(max(len(left), len(right))):
            shown = "".join(left[i : i + 1])
            line = Text.assemble((f" {shown:<{longest - 1}}", "bold"), *right[i : i + 1])
            lines.append(line)
    return lines


def _signs(width: int) -> list[Text]:
    text = Text.assemble(("Signs", "bold underline"), "  ")
    for state in State:
        text.append(f"{state.sign} {state}  ", style=state.style)
    explanation = (
        "A:0 behind a GPU: run A holds it, and sees it as device 0. Costs are estimates of "
    )
    text.append(f"\n{explanation}GPU time.")
    return list(text.wrap(Console(width=width), width))
