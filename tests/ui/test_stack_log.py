"""T shows where every rank of the selected run is, in the place of its log, and back."""

import sys

from tests.process.conftest import CommandLine
from tests.ui.conftest import Show


def test_stacks_of_the_selected_run_stand_in_the_place_of_its_log(
    cli: CommandLine, show: Show
) -> None:
    program = "import time; print('a line of output', flush=True); time.sleep(600)"
    cli.launch("--gpus", "0", "--name", "hangs", "--", sys.executable, "-c", program)
    panel = show(columns=100, rows=30, TMUX="", STY="", until="a line of output")
    panel.press("T")
    panel.wait_for("stacks of .*T: the output again")
    panel.wait_for("the program: ")
    panel.press("T")
    panel.wait_for("a line of output")
    panel.wait_gone("the program: ")
