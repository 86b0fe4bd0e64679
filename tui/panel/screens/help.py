"""The help screen: every key, and the words for what is seen."""

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from runners.model.states import SIGNS
from tui.panel.theme.palette import STATE_STYLES

KEYS = {
    "Everywhere": [
        ("n", "launch a run"),
        ("a", "launch the selected run again, or a variation of it"),
        ("s", "stop the selected run; again: the next rung of its ladder, now"),
        ("/", "search in the log; text, or /regex/"),
        ("&", "only the lines that match; Esc: all again"),
        ("|", "pin this log beside another; again: unpin"),
        ("1  2  3", "GPUs, runs, log"),
        ("z", "zoom the focused pane; again or Esc: back"),
        ("m", "metrics: curves of one run or several"),
        ("Tab", "next pane"),
        ("p", "let the guard hold back for an hour"),
        ("c", "what was done here, as commands to copy into a script"),
        ("M", "give the mouse back to the terminal, or take it"),
        ("Ctrl+P", "palette: every action, themes"),
        ("Ctrl+Z", "suspend; `fg` in the shell comes back"),
        ("q", "quit; runs go on"),
    ],
    "Runs": [("↑ ↓ j k", "choose a run; its log is shown"), ("Enter", "go to its log")],
    "Metrics (m)": [
        ("↑ ↓ ← →  [ ]", "choose a chart; page before, after"),
        ("Enter z", "one chart alone; Esc: back"),
        ("r", "the runs: Space draws one, p pins it on top"),
        ("a", "draw all live runs; again: only one"),
        ("c", "values under a cursor, moved by ← →"),
        ("+ - , . 0", "part of the x axis: in, out, earlier, later, all"),
        ("x  L  s", "steps, epochs or time; logarithmic; smoothing"),
        ("/  o  g", "filter by name; settings and environment; columns"),
    ],
    "GPUs": [("↑ ↓", "choose a GPU"), ("Enter", "everything about it; ← → the next one")],
    "Log": [
        ("↑ ↓ PgUp PgDn j k", "scroll; scrolling up stops following"),
        ("G End", "follow again"),
        ("g Home", "start"),
        ("n N", "next and previous match"),
        ("e E", "next and previous error"),
        ("R", "lines of all ranks, of rank 0, of rank 1 …"),
        (":  Ctrl+G", "go to a line or a percentage: 1200, 50%"),
        ("y", "copy the middle line, or the selection"),
        ("v", "select lines: ↑ ↓ j k extend, Esc ends"),
        ("w", "write log, filter or selection to a file"),
        ("W", "wrap long lines"),
        ("← →", "scroll sideways"),
    ],
}


class HelpScreen(ModalScreen[None]):
    """All keys; any of Esc, q, ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """Keys by place, then the signs."""
        with VerticalScroll(classes="dialog") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "Esc closes"
            yield Static(_keys())
            yield Static(_signs())


def _keys() -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for place, keys in KEYS.items():
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
