"""F7 in the launch form: what fails stands first, and F2 launches what was checked."""

import os
import sys
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.screen_text import (
    BEING_CHECKED,
    CHECKED_FIRST,
    NO_RUNS,
    NOT_LAUNCHED,
    PLANNED,
    REFUSED_BY_CHECK,
    REFUSED_KEYS,
    STARTS,
    check_row,
    checks_of,
)
from tests.support import eventually
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


def test_where_a_refusal_is_long_what_mends_it_is_seen_all_the_same(
    tmp_path: Path, presets: Path, show: Show
) -> None:
    (tmp_path / "train.py").write_text(f"print({OUTPUT!r})\n")
    text = PRESET.format(python=sys.executable, folder=tmp_path)
    text = text.replace("data/*.jpg", "data/" + "/".join(["of-a-long-name"] * 20) + "/*.jpg")
    (presets / "aa-checked.yaml").write_text(text)
    panel = show(until=NO_RUNS)
    panel.press("n")
    panel.wait_for("aa-checked")
    panel.press("aa-checked", "Enter")
    panel.wait_for(REFUSED_BY_CHECK)
    panel.wait_for(rf"(?s)….*there · {REFUSED_KEYS}.*free")


def test_while_it_is_checked_nothing_is_promised_and_f2_waits(
    tmp_path: Path, presets: Path, show: Show
) -> None:
    held, gone, python = tmp_path / "held", tmp_path / "gone", tmp_path / "python"
    os.mkfifo(held)
    # Reading it waits until somebody has written: that long the check of its program takes.
    python.write_text(f'#!/bin/sh\n[ ! -p {held} ] || cat {held}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "train.py").write_text(f"print({OUTPUT!r})\n")
    text = PRESET.format(python=python, folder=tmp_path).replace("[data]", "[program]")
    (presets / "aa-checked.yaml").write_text(text)
    panel = show(until=NO_RUNS)
    panel.press("n")
    panel.wait_for("aa-checked")
    panel.press("aa-checked", "Enter")
    panel.wait_for(f"{BEING_CHECKED} program")
    assert STARTS not in panel.text
    panel.press("F2")
    panel.wait_for(CHECKED_FIRST)
    held.rename(gone)

    def let_go() -> bool:
        try:
            os.close(os.open(gone, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads it yet
            return False
        return True

    eventually(let_go, what="a check that waits")
    panel.wait_for(OUTPUT)
