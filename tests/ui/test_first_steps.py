"""What the panel says to somebody who has no run yet: each step can be taken as it stands."""

import re

from runners.model.states import State
from runners.presets.catalogue import find_preset
from tests.screen_text import COMMANDS, NO_RUNS, deletion, run_row
from tests.terminal import headless
from tests.ui.conftest import Show
from tui.panel.widgets.runs import NONE_SELECTED

_OWN = "fresnel-tui launch -- "
_MADE_UP = r"FRESNEL_GPUS=(\S+)"


def test_the_first_steps_work_and_are_gone_with_the_first_run(show: Show) -> None:
    panel = show(columns=140, rows=30, until=NO_RUNS, FRESNEL_GPUS="none")
    panel.wait_for(_OWN + "python train.py")
    spec = panel.wait_for(_MADE_UP)[1]
    assert headless("gpus", "--json", FRESNEL_GPUS=spec).returncode == 0
    preset = panel.wait_for(r"n, then (\S+?)\.")[1]
    assert find_preset(preset).exists()
    topic = panel.wait_for(r"fresnel-tui help (\w+)")[1]
    assert headless("help", topic).returncode == 0
    headless(*_OWN.split()[1:], "sh", "-c", "echo written")
    panel.wait_for(run_row(State.DONE, "sh"))
    panel.wait_for("written")
    panel.wait_gone(_OWN)
    panel.press("x")
    panel.wait_for(deletion(1))
    panel.press("y")
    panel.wait_for(_OWN)
    assert "written" not in panel.text
    panel.press("u")
    panel.wait_for("written")


def test_keys_for_runs_say_where_there_is_none(show: Show) -> None:
    panel = show(until=NO_RUNS)
    for key in ("Enter", ">", "o", "b", "f", "F", "O"):
        panel.press("c")
        panel.wait_for(COMMANDS)
        panel.press("Escape")
        panel.wait_gone(COMMANDS)
        panel.wait_gone(NONE_SELECTED)
        panel.press(key)
        panel.wait_for(NONE_SELECTED)


def test_where_there_are_gpus_none_are_made_up(show: Show) -> None:
    panel = show(columns=100, rows=30, until=NO_RUNS, FRESNEL_GPUS="sim:2xH100")
    panel.wait_for(_OWN)
    assert not re.search(_MADE_UP, panel.text)
