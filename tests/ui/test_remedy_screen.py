"""The page of remedies by keys: the cause, the diff of the plan, and launching with Enter."""

from pathlib import Path

import pytest

from runners.diagnosis.remedy_names import REMEDIES
from runners.model.states import State
from tests.screen_text import CAUSE, FORM, command, field, in_all, run_row, why_ended
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


def test_a_opens_the_run_in_the_launch_form_as_the_page_says(panel: Terminal) -> None:
    panel.wait_for(run_row(State.FAILED, "oom"))
    panel.press("d")
    panel.wait_for(CAUSE)
    panel.press("a")
    panel.wait_gone(why_ended("oom"))
    panel.wait_for(f"{FORM} · oom again")
