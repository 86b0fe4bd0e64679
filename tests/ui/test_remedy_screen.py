"""The page of remedies by keys: the cause, the diff of the plan, and launching with Enter."""

import json
import sys
from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.widgets import Static

from runners.diagnosis.remedy_names import REMEDIES
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.screen_text import CAUSE, FORM, NOT_POSSIBLE, command, field, in_all, run_row, why_ended
from tests.terminal import Terminal, headless
from tests.ui.conftest import Show
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.remedy import RemedyScreen
from tui.panel.widgets.runs import RunPane

PRESET = """\
launcher: command
shell: true
command: "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0'; exit 1"
gpus: 0
parameters: {bs: 8}
"""


@pytest.fixture
def panel(tmp_path: Path, show: Show) -> Terminal:
    (tmp_path / "oom.yaml").write_text(PRESET)
    assert headless("launch", "--wait", str(tmp_path / "oom.yaml")).returncode == 1
    return show()


def test_d_says_why_a_run_failed_and_enter_launches_it_mended(panel: Terminal) -> None:
    panel.wait_for(run_row(State.FAILED, "oom"))
    panel.press("d")
    panel.wait_for(why_ended("oom"))
    panel.wait_for(CAUSE)
    panel.wait_for(field("half-batch", REMEDIES["half-batch"].split(",")[0]))
    panel.wait_for(r"- --bs 8[ │\n]+\+ --bs 4")
    panel.press("Down")
    panel.wait_for(r"\+ PYTORCH_CUDA_ALLOC_CONF=expandable")
    panel.press("Up")
    panel.wait_for(r"\+ --bs 4")
    panel.press("Enter")
    panel.wait_gone(why_ended("oom"))
    panel.wait_for(rf"(?s)oom.*oom.*{in_all(2)}")
    panel.press("c")
    panel.wait_for(command("remedy", ".* --apply"))


def test_what_is_not_possible_is_said_whole_and_of_the_run_by_its_name(show: Show) -> None:
    headless("launch", "--gpus", "0", "--name", "idler", "--", "sleep", "600")
    assert headless("stop", "idler", "--wait").returncode == 0
    (run,) = json.loads(headless("list", "--json", "--all").stdout)
    panel = show(columns=80, rows=24)
    panel.wait_for(run_row(State.STOPPED, "idler"))
    panel.press("d")
    panel.wait_for(field("resume", NOT_POSSIBLE))
    panel.wait_for(rf"{NOT_POSSIBLE}: idler ")
    assert f": {run['id']}" not in panel.text


def test_a_opens_the_run_in_the_launch_form_as_the_page_says(panel: Terminal) -> None:
    panel.wait_for(run_row(State.FAILED, "oom"))
    panel.press("d")
    panel.wait_for(CAUSE)
    panel.press("a")
    panel.wait_gone(why_ended("oom"))
    panel.wait_for(f"{FORM} · oom again")


UNKNOWN_FLAG = (
    "import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr'); p.parse_args()"
)
WORDY = """\
launcher: command
shell: true
command: >-
  echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total
  capacity of 79.10 GiB of which 4.55 GiB is free.'; exit 1
gpus: 0
parameters: {bs: 8}
"""


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_all_that_is_known_of_a_failed_command_is_seen(
    size: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "wordy.yaml").write_text(WORDY)
    words = ("--gpus", "0", "--name", "typed", "--", sys.executable, "-c", UNKNOWN_FLAG, "--x=3")
    headless("launch", "--wait", *words)
    headless("launch", "--wait", str(tmp_path / "wordy.yaml"))
    app = PanelApp(StateDirectory())
    async with app.run_test(size=size) as pilot:
        pane = app.screen.query_one(RunPane)
        await until(pilot, lambda: len(pane.keys) == 2)
        for key in list(pane.keys):
            pane.select(key)
            await pilot.press("d")
            await until(pilot, lambda: isinstance(app.screen, RemedyScreen))
            text = app.screen.query_one("#verdict-text", Static)
            await until(pilot, lambda text=text: "evidence" in str(text.visual))
            await pilot.pause()
            parts = app.screen.query(VerticalScroll)
            for part in parts:
                assert part.max_scroll_y == 0, (part.id, part.virtual_size, part.size)
            dialog = app.screen.query_one(".dialog")
            below = max(part.region.bottom for part in parts)
            assert dialog.region.bottom - 1 == below, "no empty rows"
            await pilot.press("escape")


def test_where_no_cause_is_known_it_says_what_was_looked_at(show: Show) -> None:
    words = ("--gpus", "0", "--name", "killed", "--", "sh", "-c", "kill -9 $$")
    headless("launch", "--wait", *words)
    panel = show(columns=120, rows=36)
    panel.wait_for(run_row(State.FAILED, "killed"))
    panel.press("d")
    panel.wait_for(why_ended("killed"))
    panel.wait_for(r"exit 137 \(SIGKILL\)|exit -9 \(SIGKILL\)")
