"""The cockpit's keys and what the palette offers there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.panel.hotkeys import hotkey, key_name
from tui.panel.widgets.pane_keys import RUN_KEYS

TOUCHING = frozenset({"launch", "runs", "drain", "postpone", "machine"})
"""Actions that change something: a panel that only shows has none of them."""

KEYS: list[BindingType] = [
    hotkey("n", "launch('new')", "launch a run", "Launch"),
    hotkey("a", "launch('again')", "launch the selected run again, or vary it"),
    hotkey("r", "launch('resume')", "continue from the run's newest checkpoint"),
    hotkey("s", "runs('stop')", "stop the selected run; again: the next step now", "Stop"),
    hotkey("d", "runs('remedy')", "why the selected run ended; what to do about it", "Why"),
    hotkey("T", "page('stacks')", "where every rank is, or was when the run hung"),
    hotkey("slash", "ask('search')", "search in the log; text, or /regex/", "Search", display="/"),
    hotkey("ampersand", "ask('filter')", "only the lines that match; Esc: all again", display="&"),
    hotkey("vertical_line", "split", "pin this log beside another; again: unpin", display="|"),
    hotkey("C", "page('chart')", "a chart beside the log, from 160 columns on"),
    hotkey("1", "focus_pane('gpus')", "GPUs, runs, log"),
    hotkey("2", "focus_pane('runs')", "GPUs, runs, log"),
    hotkey("3,l", "focus_pane('log')", "GPUs, runs, log"),
    hotkey("z", "zoom", "zoom the focused pane; again or Esc: back"),
    hotkey("ctrl+up", "move_split(-1, 0)", "move the border of the log"),
    hotkey("ctrl+down", "move_split(1, 0)", "move the border of the log"),
    hotkey("ctrl+left", "move_split(0, -1)", "move the border between GPUs and runs"),
    hotkey("ctrl+right", "move_split(0, 1)", "move the border between GPUs and runs"),
    hotkey("m", "page('metrics')", "metrics: curves of one run or several"),
    hotkey("I", "page('pictures')", "pictures that the selected run wrote, by epoch"),
    hotkey(
        "equals_sign", "page('compare')", "compare the marked runs: what differs", "Compare", "="
    ),
    hotkey("escape", "back", "leave what is open: the zoom, then the log"),
    hotkey("dollar_sign", "money", "money, guard of the machine shown or selected", "Money", "$"),
    hotkey("p", "postpone", "postpone its guard; asks for how long"),
    hotkey("D", "drain", "drain its queue: no new runs start; asks"),
    hotkey("H", "machines", "rented machines: add, set up, retry, launch, end", "Machines"),
    hotkey("h", "next_machine", "the next machine's GPUs: here, each host, all"),
    hotkey("c", "commands", "what was done here, as commands to copy"),
    hotkey("comma", "app.settings", "settings: theme, mouse, notices", display=","),
    hotkey("M", "app.mouse", "give the mouse back to the terminal, or take it"),
    hotkey("question_mark", "app.help", "this page", "Help", display="?"),
    hotkey("q", "app.quit", "quit; runs go on", "Quit"),
]


_KEYLESS = (
    ("stop every live run of this machine", "runs('stop_everything')"),
    ("launch on the rented machine that is shown", "machine('launch')"),
    ("reach a machine again, without waiting for the next try", "machine('retry')"),
    ("add a rented machine, by its ssh address", "machine('add')"),
    ("set up a machine: the panel there, or bring it up to date", "machine('setup')"),
    ("log in to a machine, where a password has to be typed", "machine('connect')"),
    ("end a machine: results first, then its end command", "machine('end')"),
)
"""What only the palette offers."""
_BY_KEY_ALONE = frozenset({"focus_pane", "move_split", "back", "app.quit"})
"""What says nothing in a list: the palette has the keys, and Textual's own way to leave."""


def palette_commands(screen: Screen[None], read_only: bool) -> Iterator[SystemCommand]:
    """What the palette offers of all this: each key in its own words, and what has none."""
    bound = [binding for binding in KEYS if isinstance(binding, Binding)]
    # The run pane's own actions need its cursor: those of the screen work from anywhere.
    bound += [key for key in RUN_KEYS if isinstance(key, Binding) and key.tooltip]
    offered = {
        binding.action.removeprefix("screen."): (binding.tooltip, binding.key)
        for binding in bound
        if binding in KEYS or binding.action.startswith("screen.")
    }
    offered |= {action: (text, "") for text, action in _KEYLESS}
    for action, (text, keys) in offered.items():
        name = action.partition("(")[0]
        if name not in _BY_KEY_ALONE and not (read_only and name in TOUCHING):
            key = f"key {key_name(keys.partition(',')[0])}" if keys else ""
            yield SystemCommand(text[0].upper() + text[1:], key, partial(screen.run_action, action))
