"""Whether a screen can still be drawn on when what it asked for arrives; keys that all have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import OptionList, Static

from runners.state.layout import StateDirectory
from tui.panel.command_log import CommandLog
from tui.panel.panel_memory import remember
from tui.panel.screens.commands import CommandScreen
from tui.panel.screens.dialogs import is_open
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.machines import MachineLine, MachinesScreen
from tui.panel.screens.table_choice import SavedView, ViewsScreen


async def test_a_screen_whose_parts_are_going_is_not_open() -> None:
    """Closed, or while the panel is left: a plan that came then ended with a traceback."""
    seen: list[bool] = []

    class Part(Static):
        def on_unmount(self) -> None:
            seen.append(is_open(self.screen))

    class Page(Screen[None]):
        def compose(self) -> ComposeResult:
            yield Part()

    app = App[None]()
    async with app.run_test():
        await app.push_screen(closed := Page())
        assert is_open(closed)
        await app.pop_screen()
        assert not is_open(closed)
        await app.push_screen(left := Page())
        assert is_open(left)
    assert seen == [False, False]


def _commands(state: StateDirectory) -> Screen[Any]:
    log = CommandLog()
    for name in ("a", "b"):
        log.note(["stop", name])
    return CommandScreen(log)


def _machines(state: StateDirectory) -> Screen[Any]:
    lines = [MachineLine(name, "up", True) for name in ("a", "b")]
    return MachinesScreen(lambda: lines, read_only=False)


def _views(state: StateDirectory) -> Screen[Any]:
    remember(state, views=[{"name": "a"}, {"name": "b"}])
    return ViewsScreen(state, SavedView)


@pytest.mark.parametrize("opened", [_commands, _machines, _views])
async def test_j_and_k_move_in_every_list(
    opened: Callable[[StateDirectory], Screen[Any]], tmp_path: Path
) -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        await app.push_screen(screen := opened(StateDirectory(tmp_path).create()))
        names = screen.query_one(OptionList)
        await pilot.press("home", "j")
        assert names.highlighted == 1
        await pilot.press("k")
        assert names.highlighted == 0


async def test_a_key_is_for_the_machine_that_it_was_pressed_on_or_for_none() -> None:
    lines = [MachineLine(name, "up", True) for name in ("b", "c", "d")]
    answers: list[tuple[str, str] | None] = []
    app = App[None]()
    async with app.run_test() as pilot:
        screen = MachinesScreen(lambda: list(lines), read_only=False)
        await app.push_screen(screen, answers.append)
        await pilot.press("home", "j")
        lines.insert(0, MachineLine("a", "up", True))
        screen._refresh()
        assert screen.query_one(OptionList).highlighted == 2
        del lines[2]
        screen._refresh()
        await pilot.press("e", "enter")
        assert not answers and screen.is_current
        await pilot.press("home", "e")
    assert answers == [("end", "a")]


@pytest.mark.parametrize("key", ["j", "space", "ctrl+f", "ctrl+d", "G", "pagedown"])
async def test_the_help_page_scrolls_by_the_keys_of_every_text(key: str) -> None:
    app = App[None]()
    async with app.run_test(size=(60, 12)) as pilot:
        await app.push_screen(screen := HelpScreen())
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
        assert screen.query(".dialog").first().scroll_offset.y > 0
