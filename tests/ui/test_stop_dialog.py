"""The stop dialog's last resort, and what keys say where they do nothing."""

import json
from pathlib import Path

import pytest

from runners.model.states import State
from tests.screen_text import run_row
from tests.terminal import headless
from tests.ui.conftest import Show, sized


@pytest.fixture
def show(show: Show) -> Show:
    return sized(show, 120, 32, until=r"press n|in all")


def test_a_run_that_does_not_go_is_killed_after_a_question(show: Show) -> None:
    script = "trap '' INT TERM; echo up; while :; do sleep 0.1; done"
    launched = headless("launch", "--gpus", "0", "--name", "deaf", "--", "sh", "-c", script)
    assert launched.returncode == 0, launched.stderr
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "deaf"))
    panel.wait_for("up")
    panel.press("s")
    panel.wait_for("Stop deaf")
    panel.press("k")
    panel.wait_for("no checkpoint was seen on disk, so all of its work")
    panel.press("n")
    panel.wait_gone("Kill it now")
    panel.press("k")
    panel.wait_for("Kill it now")
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "deaf"))
    (run,) = json.loads(headless("list", "--json", "--all").stdout)
    assert run["reason"].startswith("killed")
    panel.press("c")
    panel.wait_for(r"fresnel-tui stop \S+ --force")


def test_a_key_that_does_nothing_here_says_where_it_works(show: Show) -> None:
    panel = show()
    panel.press("W")
    panel.wait_for(r"W works in the log pane \(press 3\): wrap long lines")
    panel.press("3", "?")
    panel.wait_for(r"Log: here")
    panel.wait_for(r"(?s)Log: here.*scroll sideways.*Everywhere")


def test_a_panel_that_only_shows_says_so(show: Show) -> None:
    panel = show("--read-only")
    panel.press("n")
    panel.wait_for("this panel only shows")


def test_leaving_says_what_goes_on(show: Show, tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = headless("launch", "--gpus", "0", "--name", name, "--", "sleep", "600")
        assert done.returncode == 0
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "one"))
    panel.press("q")
    panel.wait_for("2 runs go on; `fresnel-tui` shows them")
    assert panel.wait_end() == 0
