"""T shows where every rank of the selected run is, in the place of its log, and back."""

import os
import subprocess
import sys

from tests.terminal import REPOSITORY, Terminal, panel_command


def test_stacks_of_the_selected_run_stand_in_the_place_of_its_log() -> None:
    program = "import time; print('a line of output', flush=True); time.sleep(600)"
    launch = panel_command("--no-ui", "launch", "--gpus", "0", "--name", "hangs", "--")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    words = [*launch, sys.executable, "-c", program]
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=60)
    panel = Terminal(panel_command(), 100, 30, TMUX="", STY="")
    try:
        panel.wait_for("a line of output")
        panel.press("T")
        panel.wait_for("stacks of .*T: the output again")
        panel.wait_for("the program: ")
        panel.press("T")
        panel.wait_for("a line of output")
        panel.wait_gone("the program: ")
    finally:
        stop = panel_command("--no-ui", "stop", "--all", "--force", "--wait")
        subprocess.run(stop, env=environment, check=False, capture_output=True, timeout=60)
        panel.close()
