"""The launch form closed while it is still being filled: at every moment, and the panel lives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import eventually
from tests.terminal import Terminal
from tests.ui.conftest import Show

# What is on the screen when Escape comes: nothing yet, the form, its list, fields, plan.
MOMENTS: dict[str, Callable[[Terminal], object]] = {
    "at once": lambda panel: None,
    "after a moment": lambda panel: panel.read(0.01),
    "when it opens": lambda panel: panel.wait_for("Launch a run"),
    "when a preset is listed": lambda panel: panel.wait_for("aa-sleep"),
    "when its fields are there": lambda panel: panel.wait_for(r"x +1 "),
    "when its plan is there": lambda panel: panel.wait_for(r"command +\S*sleep 300"),
    "when another is chosen": lambda panel: panel.wait_for("aa-sleep") and panel.press("Down"),
    "when it is looked for": lambda panel: panel.wait_for("aa-sleep") and panel.press("broken"),
}


@pytest.fixture
def panel(presets: Path, show: Show) -> Terminal:
    parameters = "parameters: {x: {value: 1, flag: '', help: a number}}\n"
    for name in ("aa-sleep", "bb-sleep", "cc-sleep"):
        text = f"launcher: command\ncommand: [sleep, '300']\ngpus: 2\n{parameters}"
        (presets / f"{name}.yaml").write_text(text)
    return show(columns=168, rows=40, FRESNEL_GPUS="sim:8xMI300X", until="no runs yet")


def settled(panel: Terminal) -> str:
    """The screen once nothing more comes. A key behind Escape within a tenth of a second would be
    one key with it.
    """
    before = -1
    while before != panel.written:
        before = panel.written
        panel.read(0.15)
    return panel.text


def closed(panel: Terminal) -> bool:
    """Whether the form is gone; where it still stands Escape is pressed once more."""
    if "Launch a run" not in settled(panel):
        return True
    panel.press("Escape")
    return False


def helps(panel: Terminal) -> bool:
    """Whether the panel opens its help; a form that came late is closed first."""
    panel.press("?")
    if "Runs: here" in settled(panel):
        return True
    panel.press("Escape")
    return "Runs: here" in settled(panel)


def test_closed_at_any_moment_the_panel_goes_on(panel: Terminal) -> None:
    for moment, reach in (*MOMENTS.items(), *MOMENTS.items()):
        panel.press("n")
        reach(panel)
        panel.child.send("\x1b")
        eventually(lambda: closed(panel), what=f"the form closed {moment}")
        eventually(lambda: helps(panel), what=f"help after the form was closed {moment}")
        panel.press("Escape")
        panel.wait_gone("Runs: here")
    assert panel.child.isalive() and "Traceback" not in panel.text
