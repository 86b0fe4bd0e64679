"""`pause` and `continue`."""

import argparse
from collections.abc import Callable

from runners.housekeeping import tended_state
from runners.lifecycle.control.pause import pause, paused_text, proceed
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import find_runs
from tui.cli.output import do_each, echo, print_json_of_runs
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run


def run_pause(arguments: argparse.Namespace) -> None:
    """Pause runs, and say what that does not save."""

    def announce(run: Run) -> None:
        echo(f"{run.id} {paused_text([run])}")

    _each(arguments, pause, announce)


def run_continue(arguments: argparse.Namespace) -> None:
    """Let paused runs go on."""
    _each(arguments, proceed, lambda run: echo(f"{run.id} goes on"))


def _each(
    arguments: argparse.Namespace,
    act: Callable[[StateDirectory, Run], Run],
    announce: Callable[[Run], None],
) -> None:
    """Do it to every run that is named; the first problem is raised after the others are done."""
    state = tended_state()
    done, runs = [], find_runs(state, arguments.runs)

    def change(run: Run) -> None:
        done.append(act(state, run))
        announce(done[-1])

    problem = do_each(runs, change)
    if problem is not None:
        raise problem
    if arguments.json:
        print_json_of_runs([to_json(view_run(run)) for run in done], runs.is_one)
