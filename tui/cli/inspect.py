"""`status`."""

import argparse
from decimal import Decimal

from runners.cost.run_costs import costs_of
from runners.housekeeping import tend
from runners.model.errors import ExitCode
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import held_leases
from runners.state.runs import find_runs, list_runs
from tui.cli.output import print_details, print_json, say
from tui.views.format import dollars
from tui.views.run_details import describe_details
from tui.views.run_json import to_json
from tui.views.run_view import view_run


def run_status(arguments: argparse.Namespace) -> int:
    """Show one run, or all runs of a group."""
    state = StateDirectory()
    tend(state)
    runs = find_runs(state, [arguments.run])
    money = costs_of(state, runs)
    views = [view_run(run, thorough=True, costs=money) for run in runs]
    waiting = any(view.run.state is State.QUEUED for view in views)
    live = [view_run(run) for run in list_runs(state, 0)] if waiting else []
    held = held_leases(state) if waiting else {}
    if arguments.json:
        print_json(to_json(views[0]) if len(views) == 1 else [to_json(view) for view in views])
    else:
        for i, view in enumerate(views):
            if i:
                print()
            print_details(describe_details(view, state, live, held, files=False))
        costs = [view.money.cost for view in views if view.money.cost is not None]
        if len(views) > 1 and costs:
            say(f"together {dollars(sum(costs, Decimal(0)))}")
    return ExitCode.DONE
