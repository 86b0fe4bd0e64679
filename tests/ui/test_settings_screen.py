"""The settings in the panel: changed as fields or in an editor, told when wrong, by lists too."""

from pathlib import Path

import pytest

from runners.presets.reading.user_settings import read_settings
from tests.command_text import SETTINGS_IGNORED
from tests.screen_text import (
    NO_RUNS,
    NOT_SET,
    SETTINGS,
    TRUE_OR_FALSE,
    UNKNOWN_KEY,
    field,
    help_of,
)
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


def test_what_is_not_set_is_an_empty_field_and_is_emptied_again(show: Show, file: Path) -> None:
    kept = "slurm:\n  cpus_per_gpu: 4\nunattended:\n  commands: [list]\n"
    file.write_text(kept)
    panel = show(rows=50)
    panel.press(",")
    panel.wait_for(field("cpus_per_gpu", "4"))
    panel.wait_for(field("extra", NOT_SET))
    panel.wait_for(field("price", rf"{NOT_SET}.*{{per_gpu_hour: …"))
    panel.wait_for(field("partition", rf"{NOT_SET}.*\w"))
    assert "None" not in panel.text and "ClusterPrice" not in panel.text
    panel.press(*["Shift+Tab"] * 3, *["Backspace"] * 4)
    panel.press(*["Shift+Tab"] * 3, '{"per_gpu_hour": 2}', "F2")
    eventually(lambda: panel.read() or file.read_text() != kept)
    settings = read_settings()
    assert float(settings.slurm.price.per_gpu_hour or 0) == 2 and settings.slurm.cpus_per_gpu == 4
    assert settings.unattended.commands is None


def test_an_editor_that_is_not_installed_leaves_the_terminal_to_the_panel(show: Show) -> None:
    """It took no key any more, nor painted anything."""
    panel = show(EDITOR="no-such-editor")
    panel.press(",")
    panel.wait_for(SETTINGS)
    panel.press("\x1b[17~")
    panel.wait_for(r"set \$EDITOR")
    panel.press("Escape")
    panel.wait_gone(SETTINGS)


def test_ctrl_c_in_a_program_that_has_the_terminal_ends_that_program_alone(show: Show) -> None:
    """The panel came back, and ended with the next turn of its loop."""
    panel = show(EDITOR="sh -c 'echo lent; exec sleep 600'")
    panel.press(",")
    panel.wait_for(SETTINGS)
    panel.press("\x1b[17~")
    panel.wait_for("lent")
    panel.press("\x03")
    panel.wait_for("exit code -2")
    panel.press("Escape")
    panel.wait_gone(SETTINGS)
    panel.press(",")
    panel.wait_for(SETTINGS)
