"""`stop` and `wait`."""

import argparse

from runners.host.identity import host_name
from runners.housekeeping import tended_state
from runners.lifecycle.control.stop import request_stop, why_unheard
from runners.lifecycle.control.wait import wait_until_ended
from runners.lifecycle.launch.dispatch import set_drain
from runners.lifecycle.supervisor.spawn import suspended_supervisor
from runners.model.errors import ExitCode, WrongInput
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import home_of
from runners.state.runs import NamedRuns, find_runs, list_runs, read_run
from tui.cli.output import do_each, echo, print_json, print_json_of_runs, run_exit_code
from tui.views.runs.plan_text import ladder_text
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run


def run_stop(arguments: argparse.Namespace) -> int:
    """Ask runs to stop."""
    if bool(arguments.runs) == arguments.all:
        raise WrongInput("name the runs to stop, or --all", "`fresnel-tui list` shows them")
    state = tended_state()
    runs = _live_here(state) if arguments.all else _named(state, arguments)
    asked: list[Run] = []

    def ask(run: Run) -> None:
        _ask(state, run, arguments.force)
        asked.append(run)

    problem = do_each(runs, ask)
    forced = [run for run in asked if run.is_live and arguments.force]
    unheard = {run.id for run in forced if _is_unheard(state, run)}
    ended = [
        wait_until_ended(state, run.id)
        if arguments.wait and run.id not in unheard
        else read_run(state, run.id)
        for run in asked
    ]
    if problem is not None:
        raise problem
    if arguments.json:
        print_json_of_runs([to_json(view_run(run, thorough=True)) for run in ended], runs.is_one)
    return ExitCode.RUN_FAILED if unheard else ExitCode.DONE


run_kill = run_stop  # with `force`, which its declaration sets


def _ask(state: StateDirectory, run: Run, force: bool) -> None:
    """Ask one to stop, and say what that does."""
    if not run.is_live:
        echo(f"{run.id} has ended already: {run.state}")
        return
    intent = request_stop(state, run, force)
    if run.state is State.QUEUED:
        echo(f"{run.id} is taken out of the queue")
        return
    ladder = run.plan.spec.stop.ladder if run.plan else ()
    step = len(ladder) if force else min(intent.requests, len(ladder))
    echo(f"stopping {run.id}: {ladder_text(ladder[max(0, step - 1) :])}")
    suspended = suspended_supervisor(state.run(run.id))
    if suspended is not None and not force:
        echo(
            f"{run.id}: its supervisor (pid {suspended}) is suspended: the request is kept, "
            f"but nothing is done until `kill -CONT {suspended}`"
        )


def _is_unheard(state: StateDirectory, run: Run) -> bool:
    """Say why a forced stop was not acted on, if it was not."""
    reason = why_unheard(state, run)
    if reason:
        echo(f"{run.id} is not stopped: {reason}; the request is kept")
    return bool(reason)


def _named(state: StateDirectory, arguments: argparse.Namespace) -> NamedRuns:
    from tui.cli.runs_found import find_live

    verb = "kill" if arguments.force else "stop"
    return find_live(state, arguments.runs, verb, arguments.yes)


def _live_here(state: StateDirectory) -> NamedRuns:
    live = [run for run in list_runs(state, 0) if run.is_live]
    if not live:
        echo("no live runs")
    for run in live:
        if home_of(run) != host_name():
            echo(f"{run.id} is left alone: {run.reason}")
    return NamedRuns(run for run in live if home_of(run) == host_name())


def run_wait(arguments: argparse.Namespace) -> int:
    """Wait for the end of runs; the worst ending is the exit code."""
    state = StateDirectory()
    ended, runs = [], find_runs(state, arguments.runs)
    for named in runs:
        if named.is_live and named.reason:
            echo(f"{named.id} {named.state}: {named.reason}")  # what is waited for
        run = wait_until_ended(state, named.id)
        ended.append(run)
        if not arguments.json:
            echo(f"{run.id} {run.state}{': ' + run.reason if run.reason else ''}")
    if arguments.json:
        print_json_of_runs([to_json(view_run(run, thorough=True)) for run in ended], runs.is_one)
    return max(run_exit_code(run) for run in ended)


def run_drain(arguments: argparse.Namespace) -> None:
    """Hold the queue, let it go on, or say which."""
    state = StateDirectory()
    if arguments.what in ("on", "off"):
        set_drain(state, arguments.what == "on")
    since = state.drained_since()
    if arguments.json:
        print_json({"drained": bool(since), "since": since or None})
    else:
        echo(
            f"draining since {since}: running jobs finish, no new ones start; "
            "`fresnel-tui drain off` ends it"
            if since
            else "not draining"
        )
