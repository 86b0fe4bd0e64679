"""Answers that come late, or never: no dialog opens above what somebody has turned to since."""

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from runners.places.table import KINDS, KindRow
from runners.state.layout import StateDirectory, config_dir
from tests.terminal import headless
from tests.ui.fake_place import RUN, FakePlace
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.compare import CompareScreen
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.launch import LaunchScreen
from tui.panel.screens.save_preset import edit_choice
from tui.panel.screens.settings import SettingsScreen
from tui.panel.screens.stop import StopScreen
from tui.panel.widgets.runs import RunPane
from tui.views.runs.launch_choices import read_choices

Answers = list[Callable[[], None]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """What a machine would answer, once each is called."""
    kept: Answers = []
    ask = FakePlace.ask

    def later(
        place: FakePlace, question: str, words: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        kept.append(partial(ask, place, question, words, done))

    monkeypatch.setattr(FakePlace, "ask", later)
    monkeypatch.setitem(KINDS, "fake", KindRow("tests.ui.fake_place:FakeKind", lambda _: True))
    return kept


async def choose_remote(app: PanelApp, pilot: Pilot[None]) -> None:
    pane, key = app.cockpit.query_one(RunPane), f"cluster/{RUN}"
    await until(pilot, lambda: key in pane.keys)
    pane.select(key)
    await pilot.pause()


async def test_a_key_that_is_pressed_twice_opens_one_dialog(answers: Answers) -> None:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        await choose_remote(app, pilot)
        await pilot.press("s", "s")
        await until(pilot, lambda: len(answers) == 2)
        for answer in answers:
            answer()
        await until(pilot, lambda: isinstance(app.screen, StopScreen))
        await pilot.pause()
        assert [type(screen) for screen in app.screen_stack[1:]] == [StopScreen]


async def test_a_dialog_does_not_open_above_another_screen(answers: Answers) -> None:
    """Who types there would answer it unread."""
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        await choose_remote(app, pilot)
        await pilot.press("s")
        await until(pilot, lambda: bool(answers))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        answers[0]()
        await pilot.pause()
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen) and len(app.screen_stack) == 2


async def test_a_comparison_that_does_not_come_says_why() -> None:
    headless("launch", "--gpus", "0", "--wait", "--set", "x=1,2", "--", "echo", "{x}")
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and len(app.snapshot.runs) == 2)
        await until(pilot, lambda: len(app.cockpit.query_one(RunPane).keys) == 2)
        await pilot.press("space", "space")
        headless("delete", "last")
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen) and app.screen.is_mounted)
        text = app.screen.query_one("#comparison", Static)
        await until(pilot, lambda: "no run" in str(text.content))


async def test_a_preset_that_cannot_be_copied_to_be_edited_leaves_the_panel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    config_dir().mkdir(parents=True)
    (config_dir() / "presets").write_text("no folder")
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        (choice,) = (each for each in read_choices(None, ()) if each.entry.name == "example")
        edited: list[str] = []
        edit_choice(app, choice, edited.append)
        await pilot.pause()
        assert not edited
        (config_dir() / "presets").unlink()
        config_dir().rmdir()
        config_dir().write_text("no folder")
        await app.push_screen(SettingsScreen(app.settings, app.theme))
        await pilot.press("f6")
        says = app.screen.query_one("#settings-says", Static)
        await until(pilot, lambda: str(config_dir()) in str(says.content))


async def test_a_folder_that_was_deleted_ends_no_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("c", "w", "escape", "n")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and app.screen.is_mounted)
        notices, gone = app._notifications, os.strerror(errno.ENOENT)
        await until(pilot, lambda: any(gone in notice.message for notice in notices))
