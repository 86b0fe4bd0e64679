"""`status`."""

import argparse
import os
import sys
from decimal import Decimal
from typing import Any

import msgspec

from runners.cost.cost_reader import costs_of
from runners.guard.rule import read_guard
from runners.host.clock import moment_now
from runners.housekeeping import tended_state
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import held_leases
from runners.state.runs import find_runs, list_runs
from tui.cli.output import control, echo, print_details, print_json_of_runs
from tui.cli.shown_secrets import refuse_elsewhere, run_with_real_secrets
from tui.views.format import dollars
from tui.views.money.guard_text import guard_text
from tui.views.runs.code_diff import DiffKind, diff_lines, diff_summary, diff_text
from tui.views.runs.run_details import describe_details
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import RunView, view_run

_COLOURS: dict[DiffKind, str] = {"file": "1", "place": "36", "added": "32", "removed": "31"}


def run_status(arguments: argparse.Namespace) -> None:
    """Show one run, or all runs of a group."""
    if arguments.show_secrets:
        refuse_elsewhere(arguments)
    state = tended_state()
    named = find_runs(state, [arguments.run])
    runs = [_with_secrets(state, run) for run in named] if arguments.show_secrets else list(named)
    money = costs_of(state, runs)
    views = [view_run(run, thorough=True, costs=money) for run in runs]
    waiting = any(view.run.state is State.QUEUED for view in views)
    live = [view_run(run) for run in list_runs(state, 0)] if waiting else []
    held = held_leases(state) if waiting else {}
    if arguments.json:
        values = [_to_json(state, view, arguments.diff) for view in views]
        print_json_of_runs(values, named.is_one)
    else:
        for i, view in enumerate(views):
            if i:
                print()
            print_details(describe_details(view, state, live, held, files=False))
            if arguments.diff:
                _print_diff(state, view.run.id)
        costs = [view.money.cost for view in views if view.money.cost is not None]
        if len(views) > 1 and costs:
            echo(f"together {dollars(sum(costs, Decimal(0)))}")
        guard = read_guard(state)
        if guard.is_urgent and any(view.run.is_live for view in views):
            echo(f"guard: {guard_text(guard, moment_now())}")


def _with_secrets(state: StateDirectory, run: Run) -> Run:
    plan = run.plan and run_with_real_secrets(state.run(run.id), run.plan)
    return msgspec.structs.replace(run, plan=plan)


def _to_json(state: StateDirectory, view: RunView, with_diff: bool) -> dict[str, Any]:
    value = to_json(view)
    return {**value, "diff": diff_text(state.run(view.run.id))} if with_diff else value


def _print_diff(state: StateDirectory, run_id: str) -> None:
    """What was not committed when it was launched; in colours where a person is looking."""
    lines = diff_lines(state.run(run_id), None)
    print()
    if not lines:
        print("no uncommitted changes were recorded at its launch")
        return
    print(f"uncommitted changes: {diff_summary(lines)}")
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        colour = _COLOURS.get(line.kind, "") if coloured else ""
        if colour:
            control(f"\x1b[{colour}m")
        print(line.text, end="")
        if colour:
            control("\x1b[m")
        print()
