"""Habits of the panel in a real terminal: read-only, command log, themes, mouse, notices."""

import json
import re
from pathlib import Path

import pytest

from runners.model.states import State
from tests.screen_text import NO_RUNS, RUNS_HELP, run_row
from tests.support import eventually
from tests.terminal import headless
from tests.ui.conftest import Show, sized

MOUSE_ON, MOUSE_OFF = b"\x1b[?1000h", b"\x1b[?1000l"


@pytest.fixture
def show(show: Show) -> Show:
    return sized(show, 100, 30)


def settings(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(text)


def test_read_only_shows_and_touches_nothing(show: Show) -> None:
    assert (
        headless(
            "launch", "--gpus", "0", "--name", "mine", "--", "sh", "-c", "echo here; sleep 300"
        ).returncode
        == 0
    )
    panel = show("--read-only")
    panel.wait_for(run_row(State.RUNNING, "mine"))
    panel.wait_for("here")
    panel.wait_for("read-only")
    assert "n Launch" not in panel.text and "s Stop" not in panel.text
    panel.press("n", "s", "a", "?")
    panel.wait_for(RUNS_HELP)
    panel.press("Escape")
    panel.wait_gone(RUNS_HELP)
    assert "Launch a run" not in panel.text and "Stop mine" not in panel.text
    panel.press("q")
    assert panel.wait_end() == 0
    assert [run["state"] for run in json.loads(headless("list", "--json").stdout)] == ["running"]


def test_read_only_needs_no_folder_it_may_write(show: Show, tmp_path: Path) -> None:
    panel = show("--read-only", FRESNEL_STATE_DIR=str(tmp_path / "nowhere"))
    panel.wait_for(NO_RUNS)
    panel.press("q")
    assert panel.wait_end() == 0 and not (tmp_path / "nowhere").exists()


def test_what_was_done_becomes_a_script_that_does_it(show: Show, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "fresnel-tui" / "presets"
    folder.mkdir(parents=True)
    (folder / "aa-mine.yaml").write_text(
        "launcher: command\ncommand: [sleep, '300']\ngpus: 0\nparameters: {x: {value: 1, help: a word, "
        "flag: ''}}\n"
    )
    panel = show()
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for(r"x +1 ")
    panel.press("Enter")
    panel.wait_for("x: a word")
    panel.press("5", "F2")
    panel.wait_for(run_row(State.RUNNING, "aa-mine"))
    panel.press("s")
    panel.wait_for("Stop aa-mine")
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "aa-mine"))
    panel.press("c")
    panel.wait_for(r"fresnel-tui launch aa-mine --set x=5")
    (run,) = json.loads(headless("list", "--json").stdout)
    panel.wait_for(rf"fresnel-tui stop {run['id']}")
    panel.press("Up", "y")
    panel.wait_for("sent 1 command")
    panel.press("Escape")
    panel.wait_gone("This session's actions")
    first, second = ("launch", "aa-mine", "--set", "x=5"), ("stop", run["id"])
    assert headless(*first).returncode == 0 and headless(*second).returncode == 0
    again = json.loads(headless("list", "--json").stdout)[0]
    argv = json.loads((Path(again["directory"]) / "plan.json").read_text())["argv"]
    assert argv[-1] == "5"


def test_a_theme_is_chosen_remembered_and_opens_with_the_next_panel(
    show: Show, tmp_path: Path
) -> None:
    settings(tmp_path, "panel: {theme: ansi-dark, mouse: false}\n")
    panel = show()
    panel.wait_for(NO_RUNS)
    assert not re.search(rb"[34]8;[25];", panel.raw), "sixteen colours only"
    assert MOUSE_ON not in panel.raw
    panel.press("Ctrl+P")
    panel.wait_for("Search for commands")
    panel.press("Theme")
    panel.wait_for("colours; remembered")
    panel.press("Enter")
    panel.wait_for("contrast-dark")
    panel.press("contrast-light")
    panel.wait_gone("contrast-dark")
    panel.press("Enter")
    chosen = tmp_path / "state" / "panel.json"
    eventually(
        lambda: chosen.exists() and json.loads(chosen.read_text())["theme"] == "contrast-light"
    )
    panel.press("Ctrl+Q")
    assert panel.wait_end() == 0
    again = show(COLORTERM="truecolor")
    again.wait_for(NO_RUNS)
    assert b"48;2;255;255;255" in again.raw


def test_wrong_settings_are_said_before_anything_opens(show: Show, tmp_path: Path) -> None:
    settings(tmp_path, "panel:\n  them: x\n")
    panel = show(columns=180)
    panel.wait_for(r"settings.yaml:2: panel.them: unknown key.*theme")
    assert panel.wait_end() == 2


def test_the_mouse_is_given_back_and_taken_again(show: Show) -> None:
    panel = show()
    panel.wait_for(NO_RUNS)
    taken = panel.raw.count(MOUSE_ON)
    assert taken and MOUSE_OFF not in panel.raw
    panel.press("M")
    panel.wait_for("the terminal has the mouse")
    assert MOUSE_OFF in panel.raw and panel.raw.count(MOUSE_ON) == taken
    panel.press("M")
    panel.wait_for("the panel has the mouse")
    assert panel.raw.count(MOUSE_ON) > taken


def test_an_ending_rings_and_asks_for_a_desktop_notice(show: Show) -> None:
    go = "while [ ! -e go ]; do sleep 0.02; done; exit 3"
    launched = headless("launch", "--gpus", "0", "--name", "mine;x", "--", "sh", "-c", go)
    assert launched.returncode == 0, launched.stderr
    directory = Path(json.loads(headless("list", "--json").stdout)[0]["directory"])
    panel = show()
    panel.wait_for(run_row(State.RUNNING))
    assert b"\x1b]9;" not in panel.raw
    working = Path(json.loads((directory / "plan.json").read_text())["working_directory"])
    (working / "go").touch()
    try:
        panel.wait_for("failed after")
        notice = re.compile(rb"\x1b\]9;mine;x: failed after [^\x07]*exit code 3\x07")
        eventually(lambda: panel.read() or notice.search(panel.raw), what="a desktop notice")
        # The bell, beside the end of the notice.
        eventually(lambda: panel.read() or b"\x07" in notice.sub(b"", panel.raw), what="a bell")
    finally:
        (working / "go").unlink()


def test_a_guard_s_countdown_is_seen_and_held_back_by_a_key(show: Show) -> None:
    assert headless("guard", "set", "--max-age", "1s", "--countdown", "30m").returncode == 0
    try:
        panel = show(columns=140)
        panel.wait_for(r"⚠ .*(29|30)m\d\ds")
        panel.press("p")
        panel.wait_for("For how long from now")
        panel.press("Enter")
        panel.wait_for(r"guard postponed until (\w+ )?\d\d:\d\d")  # of tomorrow, near midnight
        panel.wait_gone(r"⚠ .*(29|30)m\d\ds")
        panel.press("c")
        panel.wait_for("fresnel-tui guard postpone 1h")
        assert "postponed" in headless("guard", "status").stdout
    finally:
        assert headless("guard", "off").returncode == 0
