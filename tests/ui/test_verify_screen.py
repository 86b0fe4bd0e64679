"""F7 in the launch form: what fails stands first, and F2 launches what was checked."""

import sys
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.screen_text import NO_RUNS
from tests.terminal import Terminal
from tests.ui.conftest import Show

PRESET = """\
launcher: python
interpreter: {python}
script: train.py
working_directory: {folder}
gpus: 0
checks:
  files: [{{path: "data/*.jpg", name: images, count: 2, advice: copy them there}}]
verify: [data]
"""


@pytest.fixture
def panel(tmp_path: Path, presets: Path, show: Show) -> Terminal:
    (tmp_path / "train.py").write_text("print('trained without data')\n")
    text = PRESET.format(python=sys.executable, folder=tmp_path)
    (presets / "aa-checked.yaml").write_text(text)
    return show()


def test_f7_checks_and_f2_launches_all_the_same(panel: Terminal, tmp_path: Path) -> None:
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for("aa-checked")
    panel.press("aa-checked", "Enter")
    panel.wait_for("starts now|run folder|command ")
    panel.press("F7")
    panel.wait_for("Checks: aa-checked")
    panel.wait_for("(?s)1 failure, .*FAIL  files: images: 0 found, 2 expected.*copy them there")
    panel.press("Escape")
    panel.wait_gone("Checks: aa-checked")
    panel.press("F2")
    panel.wait_for("was not launched")
    panel.press("n")
    panel.wait_for("aa-checked")
    panel.press("aa-checked", "Enter")
    panel.wait_for("starts now|run folder|command ")
    panel.press("F7")
    panel.wait_for("FAIL  files")
    panel.press("F2")
    panel.wait_for("trained without data")
    run = CommandLine(tmp_path).json("list")[0]
    assert run["preset"] == "aa-checked"
