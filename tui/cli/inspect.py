"""`list` and `status`."""

import argparse
import time
from decimal import Decimal

from runners.cost.run_costs import costs_of
from runners.guard.rule import read_guard
from runners.host.clock import moment_now
from runners.housekeeping import tend
from runners.model.errors import ExitCode
from runners.model.states import SIGNS, State
from runners.state.layout import StateDirectory
from runners.state.runs import find_runs, list_run_ids, list_runs
from tui.cli.output import print_json, print_pairs, print_table, say
from tui.views.format import DASH, dollars, duration, indices, metric
from tui.views.guard_text import guard_text
from tui.views.health_text import health_remark
from tui.views.run_text import asks_text, describe_run
from tui.views.run_view import RunView, to_json, view_run

_SHOWN_ENDED = 100


def run_list(arguments: argparse.Namespace) -> int:
    """Show the runs, newest last."""
    state = StateDirectory()
    tend(state)
    runs = list_runs(state, None if arguments.all else _SHOWN_ENDED)
    costs = costs_of(state, runs)
    views = [view_run(run, costs=costs) for run in runs]
    if arguments.json:
        print_json([to_json(view) for view in views])
    elif views:
        headings = ("run", "state", "GPUs", "progress", "loss", "ETA", "age", "cost", "reason")
        print_table(headings, [_row(view) for view in views])
    else:
        say(
            "no runs yet: `fresnel-tui launch PRESET` starts one, `fresnel-tui presets` lists "
            "presets"
        )
    guard = read_guard(state)
    if guard.is_urgent:
        say(f"guard: {guard_text(guard, moment_now())}")
    older = 0 if arguments.all else len(list_run_ids(state)) - len(runs)
    if older > 0:
        say(f"{older:,} older runs: --all shows them")
    return ExitCode.DONE


def run_status(arguments: argparse.Namespace) -> int:
    """Show one run, or all runs of a group."""
    state = StateDirectory()
    tend(state)
    runs = find_runs(state, [arguments.run])
    money = costs_of(state, runs)
    views = [view_run(run, thorough=True, costs=money) for run in runs]
    if arguments.json:
        print_json(to_json(views[0]) if len(views) == 1 else [to_json(view) for view in views])
    else:
        for i, view in enumerate(views):
            if i:
                print()
            print_pairs(describe_run(view))
        costs = [view.money.cost for view in views if view.money.cost is not None]
        if len(views) > 1 and costs:
            say(f"together {dollars(sum(costs, Decimal(0)))}")
    return ExitCode.DONE


def _row(view: RunView) -> tuple[str, ...]:
    run = view.run
    gpus = indices([gpu.index for gpu in run.plan.gpus]) if run.plan else ""
    fraction = view.progress.fraction
    return (
        run.id,
        f"{SIGNS[run.state]} {run.state}",
        gpus or (DASH if run.state is State.QUEUED else "cpu"),
        DASH if fraction is None else f"{fraction:.0%}",
        metric(view.loss),
        duration(view.progress.eta_s),
        duration(time.time() - run.created),
        dollars(view.money.cost),
        asks_text(view) or health_remark(view.health) or run.reason,
    )
