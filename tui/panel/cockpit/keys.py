"""The cockpit's keys and what the palette offers there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from textual.app import SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from tui.panel.hotkeys import hotkey

TOUCHING = frozenset(
    {
        *("launch", "runs", "drain", "postpone", "machine"),
    }
)
"""Actions that change something: a panel that only shows has none of them."""

KEYS: list[BindingType] = [
    hotkey("n", "launch('new')", "launch a run", "Launch"),
    hotkey("a", "launch('again')", "launch the selected run again, or a variation of it"),
    hotkey("r", "launch('resume')", "continue from the newest checkpoint of the selected run"),
    hotkey("s", "runs('stop')", "stop the selected run; again: its next step, now", "Stop"),
    hotkey("d", "runs('remedy')", "why the selected run ended, and what to do about it"),
    hotkey("T", "page('stacks')", "where every rank of the selected run is, or was when it hung"),
    hotkey("slash", "search", "search in the log; text, or /regex/", "Search", display="/"),
    hotkey("ampersand", "filter", "only the lines that match; Esc: all again", display="&"),
    hotkey("vertical_line", "split", "pin this log beside another; again: unpin", display="|"),
    hotkey("C", "page('chart')", "a chart of the selected run beside its log, from 160 columns on"),
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
        "equals_sign",
        "page('compare')",
        "compare the marked runs: what differs, and which is best",
        display="=",
    ),
    hotkey("escape", "back", "leave what is open: the zoom, then the log"),
    hotkey("dollar_sign", "money", "money and guard of the machine shown or selected", display="$"),
    hotkey("p", "postpone", "postpone the guard of that machine; asks for how long"),
    hotkey("D", "drain", "drain its queue: running jobs finish, no new ones start; asks"),
    hotkey("H", "machines", "rented machines: launch there, retry, add, set up, end"),
    hotkey("h", "next_machine", "the GPUs of the next machine: here, each host, all"),
    hotkey("c", "commands", "what was done here, as commands to copy into a script"),
    hotkey("comma", "app.settings", "settings: theme, mouse, notices", display=","),
    hotkey("M", "app.mouse", "give the mouse back to the terminal, or take it"),
    hotkey("question_mark", "app.help", "this page", "Help", display="?"),
    hotkey("q", "app.quit", "quit; runs go on", "Quit"),
]


_CHANGING = (
    ("Launch a run", "choose a preset, edit it, launch (n)", "launch('new')"),
    ("Launch again", "the selected run, or a variation of it (a)", "launch('again')"),
    ("Resume", "the selected run, from its newest checkpoint (r)", "launch('resume')"),
    ("Remedies", "why the selected run ended, what to do (d)", "runs('remedy')"),
    ("Stop the selected run", "by its stop ladder (s)", "runs('stop')"),
    ("Stop its group", "every live run of the selected run's (S)", "runs('stop_group')"),
    ("Stop all runs", "every live run of this machine", "runs('stop_everything')"),
    ("Pause", "the chosen runs, or let them go on; frees nothing (P)", "runs('pause')"),
    ("Kill now", "the chosen runs, by SIGKILL (K)", "runs('kill')"),
    ("Delete", "the chosen runs, to the trash (x)", "runs('delete')"),
    ("Bring back", "what was deleted last (u)", "runs('undo')"),
    ("Rename", "the selected run (R)", "runs('rename')"),
    ("Tags", "of the chosen runs (t)", "runs('tag')"),
    ("Note", "on the selected run (N)", "runs('note')"),
    ("Star", "the chosen runs, or no longer (*)", "runs('star')"),
    ("Drain", "running jobs finish, no new ones start; asks (D)", "drain"),
    (
        "Launch on a machine",
        "a preset of the rented machine that is shown",
        "machine('launch')",
    ),
    ("Reach a machine again", "without waiting for the next try", "machine('retry')"),
    ("Add a machine", "a rented one, by its ssh address", "machine('add')"),
    ("Set up a machine", "the panel there, or bring it up to date", "machine('setup')"),
    ("Log in to a machine", "where a password has to be typed", "machine('connect')"),
    ("End a machine", "results first, then its end command", "machine('end')"),
    ("Fetch results", "of the selected run, from its machine (w)", "page('fetch')"),
    ("Postpone the guard", "asks for how long (p)", "postpone"),
)
_LOOKING = (
    (
        "Money and guard",
        "costs, session, budget, guard ($)",
        "money",
    ),
    ("Metrics", "curves of one run or several (m)", "page('metrics')"),
    (
        "Pictures",
        "images of the selected run by epoch (I)",
        "page('pictures')",
    ),
    ("Search in the log", "text or /regex/ (/)", "search"),
    ("Filter the log", "only lines that match (&)", "filter"),
    (
        "Stacks",
        "where every rank is, or was when it hung (T)",
        "page('stacks')",
    ),
    ("Chart beside the log", "of the selected run, from 160 columns on (C)", "page('chart')"),
    ("Two logs", "pin this log beside the next one (|)", "split"),
    ("Zoom the focused pane", "and back (z)", "zoom"),
    ("Rented machines", "how each is reached, and what can be done (H)", "machines"),
    ("Next machine", "whose GPUs are shown: here, each host, all (h)", "next_machine"),
    (
        "Command log",
        "what was done here, as commands (c)",
        "commands",
    ),
)


def palette_commands(screen: Screen[None], read_only: bool) -> Iterator[SystemCommand]:
    """What the palette offers of all this."""
    for title, explanation, action in _LOOKING if read_only else _CHANGING + _LOOKING:
        yield SystemCommand(title, explanation, partial(screen.run_action, action))
