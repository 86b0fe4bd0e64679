"""The page of remedies by keys: the cause, the diff of the plan, and launching with Enter."""

import json
from pathlib import Path

import pytest

from runners.diagnosis.remedy_names import REMEDIES
from runners.model.states import State
from tests.screen_text import CAUSE, FORM, NOT_POSSIBLE, command, field, in_all, run_row, why_ended
from tests.terminal import Terminal, headless
from tests.ui.conftest import Show

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
