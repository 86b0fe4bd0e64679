"""The settings in the panel: changed as fields or in an editor, told when wrong, by lists too."""

from pathlib import Path

import pytest

from tests.command_text import SETTINGS_IGNORED
from tests.screen_text import NO_RUNS, SETTINGS, TRUE_OR_FALSE, UNKNOWN_KEY, field, help_of
from tests.support import eventually
from tests.terminal import headless
from tests.ui.conftest import Show, sized


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True)
    return folder / "settings.yaml"


@pytest.fixture
def show(show: Show) -> Show:
    return sized(show, 200, 40, until=NO_RUNS)


def test_a_setting_is_saved_and_comments_stay(show: Show, file: Path) -> None:
    file.write_text("# mine\npanel: {mouse: true} # here\n")
    panel = show()
    panel.press(",")
    panel.wait_for(field("theme", r"textual-dark"))
    panel.press("Tab")
    panel.wait_for(help_of("theme", "The"))
    panel.press("nowhere", "\x1bOQ")
    panel.wait_for("no theme 'nowhere'")
    assert file.read_text() == "# mine\npanel: {mouse: true} # here\n"
    panel.press(*["Backspace"] * 7, "contrast-light", "\x1bOQ")
    wanted = '# mine\npanel: {mouse: true, theme: "contrast-light"} # here\n'
    eventually(lambda: panel.read() or file.read_text() == wanted)


def test_a_theme_that_there_is_not_is_said(show: Show, file: Path) -> None:
    file.write_text("panel: {theme: nowhere}\n")
    show().wait_for("no theme 'nowhere'")


def test_the_editor_s_mistakes_are_all_told_and_lists_warn(
    show: Show, file: Path, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "panel: {them: x}\\nnotices: {bell: 3}\\n" > "$1"\n')
    editor.chmod(0o755)
    panel = show(VISUAL=str(editor))
    panel.press(",")
    panel.wait_for(SETTINGS)
    panel.press("\x1b[17~")
    panel.wait_for(help_of(r"panel\.them", UNKNOWN_KEY))
    panel.wait_for(help_of(r"notices\.bell", TRUE_OR_FALSE))
    eventually(lambda: "them" in file.read_text())
    listed = headless("list")
    assert listed.returncode == 0
    assert SETTINGS_IGNORED in listed.stderr
    assert "panel.them" in listed.stderr and "notices.bell" in listed.stderr
