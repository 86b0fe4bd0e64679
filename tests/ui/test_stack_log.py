"""T shows where every rank of the selected run is, in the place of its log, and back."""

import sys

from tests.process.conftest import CommandLine
from tests.screen_text import STACKS, THE_PROGRAM
from tests.ui.conftest import Show

LINE = "a line of output"


def test_stacks_of_the_selected_run_stand_in_the_place_of_its_log(
    cli: CommandLine, show: Show
) -> None:
    program = f"import time; print({LINE!r}, flush=True); time.sleep(600)"
    cli.launch("--gpus", "0", "--name", "hangs", "--", sys.executable, "-c", program)
    panel = show(columns=100, rows=30, TMUX="", STY="", until=LINE)
    panel.press("T")
    panel.wait_for(STACKS)
    panel.wait_for(THE_PROGRAM)
    panel.press("T")
    panel.wait_for(LINE)
    panel.wait_gone(THE_PROGRAM)
