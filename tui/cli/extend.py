"""`extend`: the time limit of a run's Slurm job, raised."""

import argparse

from runners.housekeeping import tend
from runners.lifecycle.control.job_limit import raise_limit
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.output import echo, print_json
from tui.views.format import duration


def run_extend(arguments: argparse.Namespace) -> None:
    """Ask Slurm to let it run so much longer."""
    state = StateDirectory()
    tend(state)
    run = find_run(state, arguments.run)
    limit_s = raise_limit(state, run, arguments.time)
    if arguments.json:
        print_json({"id": run.id, "limit_s": limit_s})
    else:
        echo(f"{run.id}: " + (f"limit {duration(limit_s)}" if limit_s else "Slurm has taken it"))
