"""`demo` in a real terminal: a small world, ended by one key; and a terminal that is mended."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from runners.model.states import State
from tests.screen_text import run_row
from tests.support import eventually
from tests.terminal import REPOSITORY, Terminal, headless, panel_command
from tests.ui.conftest import Show
from tui.cli.demo import RUNS
from tui.views.safe import SWITCHED_OFF


def test_the_demo_shows_its_runs_and_leaves_nothing(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    panel = show("demo", columns=120, rows=40)
    (folder,) = eventually(lambda: list(tmp_path.glob("fresnel-demo-*")))
    panel.wait_for(run_row(State.QUEUED, "waits"))
    panel.wait_for(run_row(State.FAILED, "too-fast"))
    panel.wait_for(run_row(State.RUNNING, "wide"))
    panel.wait_for(r"\$7\.96/h")
    found = json.loads(headless("list", "--json", FRESNEL_STATE_DIR=str(folder / "state")).stdout)
    assert {run["name"] for run in found} == {run.name for run in RUNS} and len(RUNS) == 10
    panel.press("q")
    assert panel.wait_end() == 0
    assert not folder.exists()
    mine = json.loads(headless("list", "--json").stdout)
    assert mine == []


def test_the_demo_goes_with_a_line_that_drops(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SIGTERM ends it likewise: below, where it is told twice."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    panel = show("demo", columns=120, rows=40)
    panel.wait_for(run_row(State.QUEUED, "waits"))
    panel.child.send_signal(signal.SIGHUP)
    assert panel.wait_end() == 128 + signal.SIGHUP
    assert not list(tmp_path.glob("fresnel-demo-*"))


# The demo, whose line is said to have dropped a second time when it begins to clear up.
TWICE = """
import os, signal, sys
from tui.cli import demo
end = demo._end
def told_again(state):
    os.kill(os.getpid(), signal.SIGHUP)
    end(state)
demo._end = told_again
demo._make = lambda _: os.kill(os.getpid(), signal.SIGTERM)
demo.run_demo(None)
"""


def test_the_demo_is_cleared_up_though_it_is_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    terminal = Terminal([sys.executable, "-c", TWICE])
    assert terminal.wait_end() == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("fresnel-demo-*"))


def test_a_terminal_is_mended_after_a_kill() -> None:
    window, own = pty.openpty()
    state = termios.tcgetattr(own)
    state[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(own, termios.TCSANOW, state)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = panel_command("reset-terminal")
    done = subprocess.run(command, env=environment, stdin=own, stdout=own, check=False)
    assert done.returncode == 0
    assert os.read(window, 4096).decode() == SWITCHED_OFF
    assert termios.tcgetattr(own)[3] & (termios.ECHO | termios.ICANON)
    os.close(own)
    os.close(window)
    assert headless("reset-terminal").returncode == 2
