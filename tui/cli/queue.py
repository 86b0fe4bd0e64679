"""`priority`, `cancel` and `extend`."""

import argparse

from runners.housekeeping import tended_state
from runners.lifecycle.control.queue_order import cancel, set_priority
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.model.states import State
from runners.state.codec import read_waits
from runners.state.layout import StateDirectory
from runners.state.runs import NamedRuns, find_run, find_runs, list_runs
from tui.cli.output import do_each, echo, print_json, print_json_of_runs
from tui.views.format import duration
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run


def run_priority(arguments: argparse.Namespace) -> None:
    """Change or show the priority of a queued run."""
    state = tended_state()
    run = find_run(state, arguments.run)
    if arguments.number is not None and arguments.by is not None:
        raise WrongInput("a priority and --by: choose one")
    if arguments.number is not None:
        run = set_priority(state, run, arguments.number)
    elif arguments.by is not None:
        run = set_priority(state, run, arguments.by, is_step=True)
    waits = read_waits(state.run(run.id)) if run.state is State.QUEUED else None
    place = waits.place if waits else None
    number = run.plan.spec.priority if run.plan else 0
    if arguments.json:
        print_json({"id": run.id, "state": str(run.state), "priority": number, "place": place})
    else:
        where = f", place {place} in the queue: {run.reason}" if place else f", {run.state}"
        echo(f"{run.id} priority {number}{where}")


def run_cancel(arguments: argparse.Namespace) -> None:
    """Take queued runs out of the queue, and return when that is recorded."""
    if bool(arguments.runs) == arguments.all:
        raise WrongInput("name the runs to cancel, or --all", "`fresnel-tui list` shows the queue")
    state = tended_state()
    runs = _queued(state) if arguments.all else find_runs(state, arguments.runs)
    cancelled: list[Run] = []

    def take_out(run: Run) -> None:
        cancel(state, run)
        cancelled.append(run)

    problem = do_each(runs, take_out)
    ended = [wait_until_ended(state, run.id) for run in cancelled]
    for run in ended:
        echo(f"{run.id} {run.state}: {run.reason}")
    if not runs:
        echo("the queue is empty")
    if problem is not None:
        raise problem
    if arguments.json:
        print_json_of_runs([to_json(view_run(run)) for run in ended], runs.is_one)


def run_extend(arguments: argparse.Namespace) -> None:
    """Ask Slurm to let a run's job run so much longer."""
    from runners.lifecycle.control.job_limit import raise_limit  # clusters only

    state = tended_state()
    run = find_run(state, arguments.run)
    limit_s = raise_limit(state, run, arguments.time)
    if arguments.json:
        print_json({"id": run.id, "limit_s": limit_s})
    else:
        echo(f"{run.id}: " + (f"limit {duration(limit_s)}" if limit_s else "Slurm has taken it"))


def _queued(state: StateDirectory) -> NamedRuns:
    return NamedRuns(run for run in list_runs(state, 0) if run.state is State.QUEUED)
