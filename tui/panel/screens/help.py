"""The help screen: every key, and the words for what is seen."""

import textwrap
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
from tui.panel.screens.dialogs import Dialog
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.metrics.page_keys import PAGE_KEYS
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.row_painting import strip_of
from tui.panel.widgets.runs import RunPane

_PALETTE = "palette: every action, themes"
_SLOW_LINES = 25
"""Each line costs bytes: about as many as a key's effect can have within a second."""
_KEYS_WIDTH = 22
"""Cells for keys; a long list of them wraps rather than narrow the words."""

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
    here = {f"{name}: here": lines for name, lines in nearby.items()}
    return {**here, **(tables if is_cockpit else {"Everywhere": everywhere})}


class HelpScreen(Dialog[None]):
    """All keys; any of Esc, q, ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def __init__(self, screen: Screen[Any] | None = None, focused: Widget | None = None) -> None:
        super().__init__()
        self._below, self._focused_before = screen, focused

    def compose(self) -> ComposeResult:
        """Keys by place, then the signs."""
        yield _KeyPage(key_tables(self.app, self._below, self._focused_before))


class _KeyPage(ScrollView):
    """The page, drawn line by line: a table of all keys would be laid out anew for each frame."""

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
            self._lines = [*_key_lines(self._tables, width), Text(), *_signs(width)]
        return self._lines

    def render_line(self, y: int) -> Strip:
        """One line; blank below the last."""
        width, style = self.scrollable_content_region.width, self.rich_style
        line, lines = y + round(self.scroll_offset.y), self._wrapped(width)
        if line >= len(lines):
            return Strip.blank(width, style)
        return strip_of(lines[line], width, self.app.console, style)


def _key_lines(tables: dict[str, list[tuple[str, str]]], width: int) -> list[Text]:
    lines = []
    for place, keys in tables.items():
        lines.append(Text(place, style="bold"))
        for key, what in keys:
            left = textwrap.wrap(key, _KEYS_WIDTH - 4)
            right = textwrap.wrap(what, max(10, width - _KEYS_WIDTH))
            for i in range(max(len(left), len(right))):
                shown = "".join(left[i : i + 1])
                lines.append(Text(f"  {shown:<{_KEYS_WIDTH - 2}}{''.join(right[i : i + 1])}"))
    return lines


def _signs(width: int) -> list[Text]:
    text = Text("Signs  ", style="bold")
    for state in State:
        text.append(f"{state.sign} {state}  ", style=state.style)
    explanation = (
        "A:0 behind a GPU: run A holds it, and sees it as device 0. Costs are estimates of "
    )
    text.append(f"\n{explanation}GPU time.")
    return list(text.wrap(Console(width=width), width))
