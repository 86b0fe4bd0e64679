"""Habits of the panel in a real terminal: read-only, command log, themes, mouse, notices."""

import json
import re
from pathlib import Path

import pytest

from runners.model.states import State
from tests.screen_text import (
    COMMANDS,
    FAILED,
    FOOTER,
    FORM,
    GUARD_COUNTS_DOWN,
    GUARD_HELD_BACK,
    MOUSE_GIVEN,
    MOUSE_TAKEN,
    NO_RUNS,
    PALETTE,
    POSTPONE,
    READ_ONLY_MARK,
    RUNS_HELP,
    SENT,
    THEME_COMMAND,
    UNKNOWN_KEY,
    command,
    field,
    help_of,
    log_of,
    run_row,
    stop_dialog,
)
from tests.support import eventually
from tests.terminal import Terminal, headless
from tests.ui.conftest import Show, sized

OUTPUT = "written by the run"
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
            "launch", "--gpus", "0", "--name", "mine", "--", "sh", "-c", f"echo {OUTPUT}; sleep 300"
        ).returncode
        == 0
    )
    panel = show("--read-only")
    panel.wait_for(run_row(State.RUNNING, "mine"))
    panel.wait_for(OUTPUT)
    panel.wait_for(READ_ONLY_MARK)
    assert FOOTER not in panel.text and "s Stop" not in panel.text
    panel.press("n", "s", "a", "?")
    panel.wait_for(RUNS_HELP)
    panel.press("Escape")
    panel.wait_gone(RUNS_HELP)
    assert FORM not in panel.text and stop_dialog("mine") not in panel.text
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
        "launcher: command\ncommand: [sleep, '300']\ngpus: 0\nparameters: {x: {value: 1, help: a "
        "word, "
        "flag: ''}}\n"
    )
    panel = show()
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for(field("x", r"1 "))
    panel.press("Enter")
    panel.wait_for(help_of("x", "a word"))
    panel.press("5", "F2")
    panel.wait_for(run_row(State.RUNNING, "aa-mine"))
    panel.press("s")
    panel.wait_for(stop_dialog("aa-mine"))
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "aa-mine"))
    panel.press("c")
    panel.wait_for(command("launch", "aa-mine --set x=5"))
    (run,) = json.loads(headless("list", "--json").stdout)
    panel.wait_for(command("stop", run["id"]))
    panel.press("Up", "y")
    panel.wait_for(SENT)
    panel.press("Escape")
    panel.wait_gone(COMMANDS)
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
    panel.wait_for(PALETTE)
    panel.press("Theme")
    panel.wait_for(THEME_COMMAND)
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


def test_a_terminal_of_sixteen_colours_shows_the_state_of_the_chosen_row(show: Show) -> None:
    assert (
        headless("launch", "--gpus", "0", "--name", "ended", "--wait", "--", "true").returncode == 0
    )
    panel = show(TERM="screen", COLORTERM="")
    panel.wait_for(run_row(State.DONE, "ended"))
    panel.wait_for(log_of("ended"))
    assert b"\x1b[100m" not in panel.raw, "bright black, of which the state of an ended run is made"
    # The states of ended runs are bright black: on such a background nobody would see them.
    assert not re.search(rb"\x1b\[[\d;]*\b100[;m]", panel.raw)


def test_a_terminal_of_sixteen_colours_shows_what_is_chosen_in_lists(show: Show) -> None:
    assert (
        headless("launch", "--gpus", "0", "--name", "ended", "--wait", "--", "true").returncode == 0
    )
    panel = show(TERM="linux", COLORTERM="")
    panel.wait_for(run_row(State.DONE, "ended"))
    panel.press("m", "r")
    eventually(lambda: stands_out(panel, rf"{State.DONE.sign} ended"))
    panel.press("m")
    panel.wait_for(FOOTER)
    panel.press("n")
    panel.wait_for(FORM)
    # In the list, not in the title: the first that starts, with torch and without.
    preset = r"(cascade-tiny|example)\b(?=.*│)"
    eventually(lambda: stands_out(panel, preset))


def test_a_terminal_of_sixteen_colours_shows_what_is_typed(show: Show) -> None:
    panel = show(TERM="linux", COLORTERM="", until=NO_RUNS)
    panel.press("n")
    panel.wait_for(FORM)
    panel.press("own", "Enter", "echo typed")
    panel.wait_for("echo typed")

    def is_read() -> bool:
        panel.read()
        for y, text in enumerate(panel.screen.display):
            if (at := text.find("echo typed")) >= 0:
                cells = [panel.screen.buffer[y][x] for x in range(at, at + len("echo typed"))]
                return all(cell.bg == "default" for cell in cells)
        return False

    eventually(is_read, what="text on no colour")


def stands_out(panel: Terminal, pattern: str) -> bool:
    """All of the text stands out from the terminal, by reverse video or a background."""
    panel.read()
    for y, text in enumerate(panel.screen.display):
        if found := re.search(pattern, text):
            cells = [panel.screen.buffer[y][x] for x in range(*found.span()) if text[x] != " "]
            return all(cell.reverse or cell.bg != "default" for cell in cells)
    return False


def test_wrong_settings_are_said_before_anything_opens(show: Show, tmp_path: Path) -> None:
    settings(tmp_path, "panel:\n  them: x\n")
    panel = show(columns=180)
    panel.wait_for(rf"settings.yaml:2: panel\.them: {UNKNOWN_KEY}.*theme")
    assert panel.wait_end() == 2


def test_the_mouse_is_given_back_and_taken_again(show: Show) -> None:
    panel = show()
    panel.wait_for(NO_RUNS)
    taken = panel.raw.count(MOUSE_ON)
    assert taken and MOUSE_OFF not in panel.raw
    panel.press("M")
    panel.wait_for(MOUSE_GIVEN)
    assert MOUSE_OFF in panel.raw and panel.raw.count(MOUSE_ON) == taken
    panel.press("M")
    panel.wait_for(MOUSE_TAKEN)
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
        panel.wait_for(FAILED)
        notice = re.compile(rb"\x1b\]9;mine;x: %s [^\x07]*exit code 3\x07" % FAILED.encode())
        eventually(lambda: panel.read() or notice.search(panel.raw), what="a desktop notice")
        # The bell, beside the end of the notice.
        eventually(lambda: panel.read() or b"\x07" in notice.sub(b"", panel.raw), what="a bell")
    finally:
        (working / "go").unlink()


def test_a_guard_s_countdown_is_seen_and_held_back_by_a_key(show: Show) -> None:
    assert headless("guard", "set", "--max-age", "1s", "--countdown", "30m").returncode == 0
    try:
        panel = show(columns=140)
        panel.wait_for(GUARD_COUNTS_DOWN)
        panel.press("p")
        panel.wait_for(POSTPONE)
        panel.press("Enter")
        panel.wait_for(GUARD_HELD_BACK)  # of tomorrow, near midnight
        panel.wait_gone(GUARD_COUNTS_DOWN)
        panel.press("c")
        panel.wait_for(command("guard", "postpone 1h"))
        guard = json.loads(headless("guard", "status", "--json").stdout)
        assert guard["rule"]["postponed_s"] == 3600
    finally:
        assert headless("guard", "off").returncode == 0
