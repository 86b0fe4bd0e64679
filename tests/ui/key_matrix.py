"""Every key in every screen, with no run, one and many, at three sizes: it does something, or says
why not; nothing breaks; Esc leads back. Forms and dialogs about live runs, GPUs and machines are
driven where there are such: two simulated GPUs, runs that sleep, a machine that is not reached.

`python -m tests.ui.key_matrix` drives all of it and prints what is silent (about half an hour);
`python -m tests.ui.key_matrix 80 "stop dialog"` one size and place of it, `make test` a part
(`test_key_matrix.py`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from textual.binding import Binding
from textual.pilot import Pilot

from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.state.layout import StateDirectory
from tests.support import CEILING_S
from tests.terminal import headless
from tui.panel.app import PanelApp

COUNTS = (0, 1, 200)
SIZES = ((80, 24), (120, 40), (200, 60))
PLACES: dict[str, tuple[str, ...]] = {
    "runs": ("2",),
    "GPUs": ("1",),
    "log": ("3",),
    "help": ("question_mark",),
    "command log": ("c",),
    "settings": ("comma",),
    "launch form": ("n",),
    "money": ("dollar_sign",),
    "machines": ("H",),
    "sort": ("2", "O"),
    "views": ("2", "V"),
    "metrics": ("2", "m"),
    "pictures": ("2", "I"),
    "compare": ("2", "equals_sign"),
    "details": ("2", "i"),
    "remedy": ("2", "d"),
    "stacks": ("2", "T"),
    "note": ("2", "N"),
    "tags": ("2", "t"),
}
"""Where keys are pressed, and what leads there from the cockpit."""
_OWN_COMMAND = ("n", "t", "r", "u", "e", "enter")
BUSY_PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "stop dialog": ("StopScreen", ("2", "home", "s")),
    "kill question": ("QuestionScreen", ("2", "home", "K")),
    "GPU details": ("GpuDetailScreen", ("1", "enter")),
    "guard form": ("GuardScreen", ("dollar_sign", "g")),
    "session form": ("SessionScreen", ("dollar_sign", "s")),
    "own command": ("LaunchScreen", _OWN_COMMAND),
    "verify": ("VerifyScreen", (*_OWN_COMMAND, "f7")),
    "saving a preset": ("LineScreen", (*_OWN_COMMAND, "f5")),
    "choice of machine": ("MachineChoiceScreen", ("n", "f8")),
    "a machine": ("MachinesScreen", ("H",)),
}
"""The same where something lives: the screen that has to come, and what leads to it."""
MOVES = {
    *("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "tab", "shift+tab"),
    *("1", "2", "3", "escape"),  # the pane that has the focus already; nothing is open
    *("j", "k", "h", "l", "g", "G", "ctrl+f", "ctrl+b", "ctrl+d", "ctrl+u"),
    *("shift+left", "shift+right"),
}
"""What moves a cursor may find that there is nowhere to go."""
_PAIRS = (
    *(("up", "down"), ("left", "right"), ("pageup", "pagedown"), ("home", "end")),
    *(("k", "j"), ("h", "l"), ("g", "G"), ("ctrl+b", "ctrl+f"), ("ctrl+u", "ctrl+d")),
    *(("tab", "shift+tab"), ("shift+left", "shift+right")),
)
OPPOSITE = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
"""Where the one moves something, the other has to move it back."""
_TEXTS = ("help", "log", "details", "compare", "money", "GPU details", "verify", "remedy")
ALSO_MOVE = {"metrics": {"H"}, **{place: {"space"} for place in _TEXTS}}
"""Moves of some places only."""
LEFT_OUT = {
    *("q", "ctrl+q", "ctrl+c", "ctrl+z", "f6"),  # leave the panel, or open an editor
    "M",  # there is no terminal to give the mouse to
}
LAUNCHING = {"f2", "ctrl+s"}
"""What is left out of places but these, where it sets something else, or launches what ends."""
SETS = {"guard form", "session form", "own command", "verify"}
ENDED_BY = {
    ("session form", "f2"): ("session", "end"),
    ("session form", "ctrl+s"): ("session", "end"),
}
"""The command that takes back what a key did, where its place opens no more otherwise."""
ALSO_PRESSED = {"saving a preset": ("enter",), "stop dialog": ("enter",)}
"""Keys of a part's own that everybody presses there."""
_WITHIN_S = 6.0
_OPENED_S = 3.0
_TRIES = 5
_STEPS_OUT = 4
_SLEEPERS = 8


@dataclass
class Found:
    """What was pressed and what came of it."""

    cells: int = 0
    still: int = 0
    """Of these, moves with nowhere to go: all that is known is that nothing breaks."""
    silent: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    unexplained: set[str] = field(default_factory=set)
    closed: list[str] = field(default_factory=list)
    """Places that did not open."""


def make_runs(folder: Path, count: int) -> None:
    """`count` ended runs in the state folder: one that ran, and copies of it."""
    if not count:
        return
    code = "for i in range(30): print(f'epoch {i} step {i} loss {1 / (i + 1):.4f}')"
    environment = {"FRESNEL_STATE_DIR": str(folder), "FRESNEL_GPUS": "none"}
    words = ("launch", "--gpus", "0", "--name", "first", "--wait", "--", sys.executable, "-c", code)
    original = _launched(*words, **environment)
    source = folder / "runs" / original
    for number in range(count - 1):
        name = f"{original[:-4]}{number:04x}"
        copy = source.with_name(name)
        # What is written to take a file's place goes while it is copied.
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.new"))
        for path in copy.rglob("*.json*"):
            path.write_text(path.read_text().replace(original, name))


def _launched(*words: str, **environment: str) -> str:
    """The id of a run that was launched; without it there is nothing to press keys on."""
    done = headless(*words, **environment)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout.split()[0]


def make_busy(folder: Path, sleepers: int = _SLEEPERS) -> None:
    """Runs that sleep, one of them on a GPU, and a machine that is not reached."""
    environment = {"FRESNEL_STATE_DIR": str(folder)}
    for number in range(sleepers):
        words = ("--gpus", str(int(not number)), "--name", f"sleeper-{number}")
        _launched("launch", *words, "--", "sleep", "3000", **environment)
    far = RemoteHost("far", "nobody@127.0.0.1", port=1, command="/far/fresnel-tui", folder="/far")
    RemoteRegistry(StateDirectory(folder)).save(far)


def picture(app: PanelApp) -> tuple[Any, ...]:
    """What is seen, less what changes by itself."""
    lines = app.screen._compositor.render_strips()
    # Numbers, and bars of readings.
    text = re.sub(r"[\d.▁-█· ]+", "#", "\n".join(strip.text for strip in lines))
    return text, app.focused, len(app.screen_stack), len(app._notifications)


def place_of_cursors(app: PanelApp) -> tuple[Any, ...]:
    """What a move changes: rows in other colours, what is scrolled, what has the focus."""
    rows = [
        tuple((re.sub(r"[\d.▁-█· ]+", "#", part.text), str(part.style)) for part in strip)
        for strip in app.screen._compositor.render_strips()
    ]
    scrolled = [getattr(widget, "scroll_offset", None) for widget in app.screen.walk_children()]
    return rows, scrolled, app.focused


def keys_of(app: PanelApp, place: str) -> Iterator[tuple[str, bool]]:
    """The keys that act here and are bound by us; whether the help page has words for each."""
    left_out = LEFT_OUT if place in SETS else LEFT_OUT | LAUNCHING
    said = {
        key
        for binding in (*app.cockpit.BINDINGS, *app.BINDINGS)
        if isinstance(binding, Binding) and binding.tooltip
        for key in binding.key.split(",")
    }
    for key, active in list(app.screen.active_bindings.items()):
        if _is_ours(type(active.node), key) and key not in left_out:
            yield key, bool(active.binding.tooltip) or key in said
    for key in ALSO_PRESSED.get(place, ()):
        yield key, True


def _is_ours(kind: type, key: str) -> bool:
    return any(
        key in binding.key.split(",")
        for owner in kind.__mro__
        if owner.__module__.startswith("tui.")
        for binding in owner.__dict__.get("BINDINGS", ())
        if isinstance(binding, Binding)
    )


async def _settle(pilot: Pilot[Any], before: tuple[Any, ...] | None = None) -> bool:
    """Wait until something is another than before, or long enough."""
    until = time.monotonic() + _WITHIN_S
    app: Any = pilot.app
    await pilot.pause()
    while before is not None and picture(app) == before:
        if time.monotonic() > until:
            return False
        await pilot.pause(0.02)
    return True


async def _leave(pilot: Pilot[Any]) -> bool:
    """Esc until the cockpit is there."""
    app: Any = pilot.app
    for _ in range(_STEPS_OUT):
        if app.screen is app.cockpit:
            break
        await pilot.press("escape")
        await pilot.pause()
    left = app.screen is app.cockpit
    while app.screen is not app.cockpit:
        app.pop_screen()
        await pilot.pause()
    for _ in range(2):  # the filter, the marks, the zoom
        await pilot.press("escape")
    app.clear_notifications()
    return left


async def _go(pilot: Pilot[Any], place: str) -> bool:
    """Open a place; whether it is what came."""
    app: Any = pilot.app
    wanted, way = BUSY_PLACES.get(place) or ("", PLACES[place])
    await pilot.press(way[0])
    for key in way[1:]:
        await pilot.pause()
        await pilot.press(key)
    await _settle(pilot)
    until = time.monotonic() + _OPENED_S
    while wanted and type(app.screen).__name__ != wanted and time.monotonic() < until:
        await pilot.pause(0.02)
    app.clear_notifications()
    await pilot.pause()
    if wanted:
        return type(app.screen).__name__ == wanted
    # A key that opens nothing with these runs is a cell of the runs.
    return len(way) == 1 or app.screen is not app.cockpit


async def _go_again(pilot: Pilot[Any], place: str, key: str) -> bool:
    """Open a place once more; what `key` did there may go on meanwhile, and end."""
    for _ in range(_TRIES if place in BUSY_PLACES else 1):
        if await _go(pilot, place):
            return True
        await _leave(pilot)
        await _undo(pilot, place, key)
    return False


async def _undo(pilot: Pilot[Any], place: str, key: str) -> None:
    """Take back what would leave nothing to press keys on."""
    if key in ("x", "delete"):
        await pilot.press("u")
    if words := ENDED_BY.get((place, key)):
        await asyncio.to_thread(headless, *words)


async def _moves(pilot: Pilot[Any], key: str, found: Found) -> bool | None:
    """Whether a move moves something: False where only its opposite does, None where neither."""
    app: Any = pilot.app
    here, other = app.screen, OPPOSITE.get(key, "")
    is_pair = other in app.screen.active_bindings
    for _ in range(_TRIES):
        seen = [place_of_cursors(app)]
        for pressed in (key, other, key) if is_pair else (key,):
            await pilot.press(pressed)
            await pilot.pause()
            if app.screen is not here:
                return True
            seen.append(place_of_cursors(app))
        if seen[0] != seen[1] or seen[2:3] != seen[3:]:
            return True
        if not is_pair or seen[1] == seen[2]:
            found.still += 1
            return None
    return False


async def _press(pilot: Pilot[Any], place: str, key: str, found: Found, cell: str) -> bool:
    """One cell; whether the place has to be opened anew."""
    app: Any = pilot.app
    here, before = app.screen, picture(app)
    found.cells += 1
    if key in MOVES or key in ALSO_MOVE.get(place, ()):
        if await _moves(pilot, key, found) is False:
            found.silent.append(cell)
        if app.screen is here:
            return False
        if not await _leave(pilot):
            found.stuck.append(cell)
        return True
    await pilot.press(key)
    if not await _settle(pilot, before):
        found.silent.append(cell)
        return False
    await _undo(pilot, place, key)
    if not await _leave(pilot):
        found.stuck.append(cell)
    return True


async def drive(
    folder: Path, count: int, size: tuple[int, int], places: Sequence[str], found: Found
) -> None:
    """Press every key in these places of a panel with so many runs."""
    app = PanelApp(StateDirectory(folder).create())
    async with app.run_test(size=size) as pilot:
        until = time.monotonic() + CEILING_S
        while app.snapshot is None or len(app.snapshot.runs) < min(count, 1):
            assert time.monotonic() < until
            await pilot.pause(0.05)
        for place in places:
            is_there = await _go(pilot, place)
            key = "nothing"
            for key, explained in list(keys_of(app, place)) if is_there else ():
                cell = f"{place}, {count} runs, {size[0]}×{size[1]}: {key}"
                if not explained:
                    found.unexplained.add(f"{place}: {key}")
                if await _press(pilot, place, key, found, cell):
                    is_there = await _go_again(pilot, place, key)
                    if not is_there:
                        break
            if not is_there and place in BUSY_PLACES:
                found.closed.append(f"{place}, {count} runs, {size[0]}×{size[1]}: after {key}")
            await _leave(pilot)


async def _drive_all(columns: Sequence[int], wanted: Sequence[str]) -> Found:
    found = Found()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        os.chdir(name)  # keys write files there
        os.environ.update(XDG_CONFIG_HOME=f"{name}/config")
        for count, is_busy in product(COUNTS, (False, True)):
            places = [place for place in (BUSY_PLACES if is_busy else PLACES) if place in wanted]
            folder = Path(name) / f"state{count}-{is_busy}"
            os.environ["FRESNEL_STATE_DIR"] = str(folder)
            os.environ["FRESNEL_GPUS"] = "sim:2xMI300X" if is_busy else "none"
            if places:
                make_runs(StateDirectory(folder).create().root, count)
            if places and is_busy:
                make_busy(folder)
            for size in SIZES if places else ():
                if columns and size[0] not in columns:
                    continue
                began = time.monotonic()
                await drive(folder, count, size, places, found)
                took = f"{time.monotonic() - began:.0f} s, {found.cells} cells"
                print(f"{count} runs{', busy' * is_busy}, {size}: {took}", flush=True)
            if places and is_busy:
                headless("stop", "--all", "--force", "--wait")
    return found


def main() -> int:
    """Drive all of it, or the sizes with these columns and the places of these names; 1 when a key
    was silent, Esc did not lead back or a place did not open.
    """
    columns = [int(word) for word in sys.argv[1:] if word.isdigit()]
    wanted = [word for word in sys.argv[1:] if not word.isdigit()]
    found = asyncio.run(_drive_all(columns, wanted or [*PLACES, *BUSY_PLACES]))
    print(f"{found.cells} cells, {found.still} of them moves with nowhere to go")
    lists = (
        ("silent", found.silent),
        ("Esc does not lead back", found.stuck),
        ("no words on the help page", sorted(found.unexplained)),
        ("did not open", found.closed),
    )
    for title, cells in lists:
        print(f"{title}: {len(cells)}", *cells, sep="\n  ")
    return int(any(cells for _, cells in lists))


if __name__ == "__main__":
    sys.exit(main())
