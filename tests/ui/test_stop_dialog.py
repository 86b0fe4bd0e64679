"""The stop dialog's last resort, and what keys say where they do nothing."""

import json
from pathlib import Path

import pytest

from runners.model.states import State
from tests.screen_text import (
    ALL_IS_LOST,
    ANY_RUNS,
    HELP_EVERYWHERE,
    KILL,
    KILL_BUTTON,
    READ_ONLY,
    SIDEWAYS,
    WRAP_COMMAND,
    command,
    go_on,
    help_on,
    run_row,
    stop_dialog,
    works_in,
)
from tests.support import eventually
from tests.terminal import headless
from tests.ui.conftest import Show, sized

READY = "ready"


@pytest.fixture
def show(show: Show) -> Show:
    return sized(show, 120, 32, until=ANY_RUNS)


def test_a_run_that_does_not_go_is_killed_after_a_question(show: Show) -> None:
    script = "trap '' INT TERM; echo ready; while :; do sleep 0.1; done"
    launched = headless("launch", "--gpus", "0", "--name", "deaf", "--", "sh", "-c", script)
    assert launched.returncode == 0, launched.stderr
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "deaf"))
    panel.wait_for(READY)
    panel.press("s")
    panel.wait_for(stop_dialog("deaf"))
    panel.press("k")
    panel.wait_for(ALL_IS_LOST)
    panel.press("n")
    panel.wait_gone(KILL)
    panel.press("k")
    panel.wait_for(KILL)
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "deaf"))
    (run,) = json.loads(headless("list", "--json", "--all").stdout)
    assert run["reason"].startswith("killed")
    panel.press("c")
    panel.wait_for(command("stop", r"\S+ --force"))


def test_the_last_step_is_one_button(show: Show) -> None:
    script = "trap '' INT TERM; echo ready; while :; do sleep 0.1; done"
    headless("launch", "--gpus", "0", "--name", "deaf", "--", "sh", "-c", script)
    panel = show()
    panel.wait_for(READY)
    for step in ("SIGINT", "SIGTERM"):
        panel.press("s")
        panel.wait_for(rf"{stop_dialog('deaf')}(?s:.*){step} \d")
        panel.wait_for(KILL_BUTTON)
        panel.press("y")
        panel.wait_gone(stop_dialog("deaf"))
        panel.wait_for(r"stop \d+s")
    eventually(lambda: "SIGTERM" in headless("status", "deaf").stdout)
    panel.press("s")
    panel.wait_for(r"SIGKILL now \(y\)")
    assert KILL_BUTTON not in panel.text
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "deaf"))


def test_a_key_that_does_nothing_here_says_where_it_works(show: Show) -> None:
    panel = show()
    panel.press("W")
    panel.wait_for(f"{works_in('W', 'log', 3)}: {WRAP_COMMAND}")
    panel.press("3", "?")
    panel.wait_for(help_on("Log"))
    # What is near first; beside it, or below it, what is everywhere.
    panel.wait_for(rf"{help_on('Log')} .*{HELP_EVERYWHERE}")
    panel.wait_for(SIDEWAYS)


def test_a_panel_that_only_shows_says_so(show: Show) -> None:
    panel = show("--read-only")
    panel.press("n")
    panel.wait_for(READ_ONLY)


def test_leaving_says_what_goes_on(show: Show, tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = headless("launch", "--gpus", "0", "--name", name, "--", "sleep", "600")
        assert done.returncode == 0
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "one"))
    panel.press("q")
    panel.wait_for(go_on(2))
    assert panel.wait_end() == 0
