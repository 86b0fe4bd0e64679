"""The help screen: every key, and the words for what is seen."""

from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from runners.model.states import SIGNS
from tui.panel.hotkeys import key_lines, key_name
from tui.panel.screens.cockpit import CockpitScreen
from tui.panel.screens.launch import LaunchScreen
from tui.panel.screens.metrics import MetricsScreen
from tui.panel.screens.money import MoneyScreen
from tui.panel.screens.pictures import PicturesScreen
from tui.panel.screens.settings import SettingsScreen
from tui.panel.theme.palette import STATE_STYLES
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.metrics.grid import ChartGrid
from tui.panel.widgets.metrics.run_list import MetricRunList
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.runs import RunPane

_PALETTE = "palette: every action, themes"


_PLACES: tuple[tuple[str, tuple[type[Any], ...]], ...] = (
    ("GPUs, runs", (RowList,)),
    ("GPUs", (GpuPane,)),
    ("Runs", (RunPane,)),
    ("Log", (LogPane, LogArea)),
    ("Launch form (n)", (LaunchScreen,)),
    ("Money and guard ($)", (MoneyScreen,)),
    ("Metrics (m)", (MetricsScreen, ChartGrid, MetricRunList)),
    ("Settings (,)", (SettingsScreen,)),
    ("Pictures (I)", (PicturesScreen,)),
)
"""Where keys are bound, in the order of the page."""


def key_tables(
    app: App[Any], screen: Screen[Any] | None = None, focused: Widget | None = None
) -> dict[str, list[tuple[str, str]]]:
    """The keys by place, as they are bound there, and what they do; those of the `screen` and of
    the pane that is `focused` stand first.
    """
    everywhere = key_lines([*CockpitScreen.BINDINGS, *app.BINDINGS])
    everywhere += [("Tab", "next pane"), (key_name(app.COMMAND_PALETTE_BINDING), _PALETTE)]
    tables = {"Everywhere": everywhere}
    for name, owners in _PLACES:
        tables[name] = key_lines([binding for owner in owners for binding in owner.BINDINGS])
    here = {
        name: tables.pop(name)
        for name, owners in reversed(_PLACES)
        if isinstance(focused, owners) or isinstance(screen, owners)
    }
    return {**{f"{name}: here": lines for name, lines in here.items()}, **tables}


class HelpScreen(ModalScreen[None]):
    """All keys; any of Esc, q, ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "Close")]

    def __init__(self, screen: Screen[Any] | None = None, focused: Widget | None = None) -> None:
        super().__init__()
        self._below, self._focused_before = screen, focused

    def compose(self) -> ComposeResult:
        """Keys by place, then the signs."""
        with VerticalScroll(classes="dialog") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "Esc closes"
            yield Static(_keys(key_tables(self.app, self._below, self._focused_before)))
            yield Static(_signs())


def _keys(tables: dict[str, list[tuple[str, str]]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(max_width=22)  # a long list of keys wraps rather than narrow the words
    table.add_column(ratio=1)
    for place, keys in tables.items():
        table.add_row(Text(place, style="bold"), "")
        for key, what in keys:
            table.add_row(f"  {key}", what)
    return table


def _signs() -> Text:
    text = Text("\nSigns  ", style="bold")
    for state, sign in SIGNS.items():
        text.append(f"{sign} {state}  ", style=STATE_STYLES[state])
    text.append(
        "\nA:0 behind a GPU: run A holds it, and sees it as device 0. Costs are estimates of "
        "GPU time."
    )
    return text
