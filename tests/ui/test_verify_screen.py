"""F7 in the launch form: what fails stands first, and F2 launches what was checked."""

import sys
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.screen_text import (
    NO_RUNS,
    NOT_LAUNCHED,
    PLANNED,
    REFUSED_BY_CHECK,
    STARTS,
    check_row,
    checks_of,
)
from tests.terminal import Terminal
from tests.ui.conftest import Show

OUTPUT = "trained without data"
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
    """The form of a preset whose data is missing."""
    (tmp_path / "train.py").write_text(f"print({OUTPUT!r})\n")
    text = PRESET.format(python=sys.executable, folder=tmp_path)
    (presets / "aa-checked.yaml").write_text(text)
    panel = show()
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for("aa-checked")
    panel.press("aa-checked", "Enter")
    return panel


def test_f7_checks_and_f2_launches_all_the_same(panel: Terminal, tmp_path: Path) -> None:
    panel.wait_for(PLANNED)
    panel.press("F7")
    panel.wait_for(checks_of("aa-checked"))
    panel.wait_for(
        rf"(?s)1 failure, .*{check_row('FAIL', 'files')}: images: 0 found, 2 expected"
        r".*copy them there"
    )
    panel.press("Escape")
    panel.wait_gone(checks_of("aa-checked"))
    panel.press("F7")
    panel.wait_for(check_row("FAIL", "files"))
    panel.press("F2")
    panel.wait_for(OUTPUT)
    run = CommandLine(tmp_path).json("list")[0]
    assert run["preset"] == "aa-checked"


def test_the_form_says_what_the_launch_will_say_and_stays(panel: Terminal, tmp_path: Path) -> None:
    panel.wait_for(REFUSED_BY_CHECK)
    assert STARTS not in panel.text
    panel.press("F2")
    panel.wait_for(NOT_LAUNCHED)
    assert "--no-verify" not in panel.text
    (tmp_path / "data").mkdir()
    for name in ("a", "b"):
        (tmp_path / "data" / f"{name}.jpg").write_text("jpg")
    # The form was kept: what was missing is there, and the same key launches.
    panel.press("F2")
    panel.wait_for(OUTPUT)
