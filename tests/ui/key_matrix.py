"""Every key in every screen, with no run, one and many, at three sizes: it does something, or says
why not; nothing breaks; Esc leads back.

`python -m tests.ui.key_matrix` drives all of it and prints what is silent (about ten minutes);
`make test` drives a part (`test_key_matrix.py`).
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
from pathlib import Path
from typing import Any

from textual.binding import Binding
from textual.pilot import Pilot

from runners.state.layout import StateDirectory
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
MOVES = {
    *("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "tab", "shift+tab"),
    *("1", "2", "3", "escape"),  # the pane that has the focus already; nothing is open
    *("j", "k", "h", "l", "g", "G", "ctrl+f", "ctrl+b", "shift+left", "shift+right"),
}
"""What moves a cursor may find that there is nowhere to go."""
ALSO_MOVE = {"log": {"space"}, "metrics": {"H"}}
"""Moves of some places only."""
LEFT_OUT = {
    *("q", "ctrl+q", "ctrl+c", "ctrl+z", "f6"),  # leave the panel, or open an editor
    *("f2", "ctrl+s"),  # launch
    "M",  # there is no terminal to give the mouse to
}
_WITHIN_S = 0.6
_STEPS_OUT = 4


@dataclass
class Found:
    """What was pressed and what came of it."""

    cells: int = 0
    silent: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    unexplained: set[str] = field(default_factory=set)


def make_runs(folder: Path, count: int) -> None:
    """`count` ended runs in the state folder: one that ran, and copies of it."""
    if not count:
        return
    code = "for i in range(30): print(f'epoch {i} step {i} loss {1 / (i + 1):.4f}')"
    environment = {"FRESNEL_STATE_DIR": str(folder), "FRESNEL_GPUS": "none"}
    words = ("launch", "--gpus", "0", "--name", "first", "--wait", "--", sys.executable, "-c", code)
    original = headless(*words, **environment).stdout.split()[0]
    source = folder / "runs" / original
    for number in range(count - 1):
        name = f"{original[:-4]}{number:04x}"
        copy = source.with_name(name)
        # What is written to take a file's place goes while it is copied.
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.new"))
        for path in copy.rglob("*.json*"):
            path.write_text(path.read_text().replace(original, name))


def picture(app: PanelApp) -> tuple[Any, ...]:
    """What is seen, less what changes by itself."""
    lines = app.screen._compositor.render_strips()
    text = re.sub(r"\d+", "#", "\n".join(strip.text for strip in lines))
    return text, app.focused, len(app.screen_stack), len(app._notifications)


def keys_of(app: PanelApp) -> Iterator[tuple[str, bool]]:
    """The keys that act here and are bound by us; whether the help page has words for each."""
    said = {
        key
        for binding in (*app.cockpit.BINDINGS, *app.BINDINGS)
        if isinstance(binding, Binding) and binding.tooltip
        for key in binding.key.split(",")
    }
    for key, active in list(app.screen.active_bindings.items()):
        if _is_ours(type(active.node), key) and key not in LEFT_OUT:
            yield key, bool(active.binding.tooltip) or key in said


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


async def _go(pilot: Pilot[Any], way: Sequence[str]) -> None:
    app: Any = pilot.app
    await pilot.press(way[0])
    for key in way[1:]:
        await pilot.pause()
        await pilot.press(key)
    await _settle(pilot)
    app.clear_notifications()
    await pilot.pause()


async def drive(
    folder: Path, count: int, size: tuple[int, int], places: Sequence[str], found: Found
) -> None:
    """Press every key in these places of a panel with so many runs."""
    app = PanelApp(StateDirectory(folder).create())
    async with app.run_test(size=size) as pilot:
        until = time.monotonic() + 20
        while app.snapshot is None or len(app.snapshot.runs) < min(count, 1):
            assert time.monotonic() < until
            await pilot.pause(0.05)
        for place in places:
            way = PLACES[place]
            await _go(pilot, way)
            if len(way) > 1 and app.screen is app.cockpit:
                continue  # not to be opened here: that key is a cell of the runs
            here, keys = app.screen, list(keys_of(app))
            for key, explained in keys:
                found.cells += 1
                cell = f"{place}, {count} runs, {size[0]}×{size[1]}: {key}"
                if not explained:
                    found.unexplained.add(f"{place}: {key}")
                before = picture(app)
                await pilot.press(key)
                if key in MOVES or key in ALSO_MOVE.get(place, ()):
                    await pilot.pause()
                    if app.screen is not here:
                        await _go(pilot, way)
                        here = app.screen
                    continue
                if not await _settle(pilot, before):
                    found.silent.append(cell)
                    continue
                if key in ("x", "delete"):
                    await pilot.press("u")
                if not await _leave(pilot):
                    found.stuck.append(cell)
                await _go(pilot, way)
                here = app.screen
            await _leave(pilot)


async def _drive_all(columns: Sequence[int]) -> Found:
    found = Found()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)  # keys write files there
        os.environ.update(FRESNEL_GPUS="none", XDG_CONFIG_HOME=f"{name}/config")
        for count in COUNTS:
            folder = Path(name) / f"state{count}"
            os.environ["FRESNEL_STATE_DIR"] = str(folder)
            make_runs(StateDirectory(folder).create().root, count)
            for size in SIZES:
                if columns and size[0] not in columns:
                    continue
                began = time.monotonic()
                await drive(folder, count, size, list(PLACES), found)
                print(f"{count} runs, {size}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def main() -> int:
    """Drive all of it, or the sizes with these columns; 1 when a key was silent or Esc did not lead back."""
    found = asyncio.run(_drive_all([int(word) for word in sys.argv[1:]]))
    print(f"{found.cells} cells")
    for title, cells in (
        ("silent", found.silent),
        ("Esc does not lead back", found.stuck),
        ("no words on the help page", sorted(found.unexplained)),
    ):
        print(f"{title}: {len(cells)}", *cells, sep="\n  ")
    return int(bool(found.silent or found.stuck or found.unexplained))


if __name__ == "__main__":
    sys.exit(main())
