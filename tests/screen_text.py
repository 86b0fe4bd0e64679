"""What many tests wait for on a screen, in the program's own words: rewording them is no work here."""

from runners.model.states import State
from tui.views.runs.run_columns import NO_RUNS

__all__ = ["NO_RUNS", "RUNS_HELP", "run_row"]

RUNS_HELP = "Runs: here"
"""The heading of the help on the keys of the run table."""


def run_row(state: State, rest: str = "") -> str:
    """A regular expression for a run's row: its state, then `rest`, which begins with its name."""
    return rf"{state.sign} {state}" + (rf"\s+{rest}" if rest else "")
