"""`compare`."""

import argparse
import csv
import difflib
import sys

from runners.housekeeping import tended_state
from runners.model.errors import NotFound, WrongInput
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, find_runs
from tui.cli.output import echo, print_json, print_table
from tui.views.metrics.pinned_charts import pinned_charts
from tui.views.runs.code_diff import diff_text
from tui.views.runs.comparison import Comparison, compare
from tui.views.runs.comparison_text import agreements, csv_rows, tables_of, to_json
from tui.views.runs.run_facts import RunFacts, compared_facts


def run_compare(arguments: argparse.Namespace) -> None:
    """Show what differs between runs, and their metrics side by side."""
    if sum((arguments.json, arguments.csv, arguments.code)) > 1:
        raise WrongInput("--json, --csv and --code: choose one")
    state = tended_state()
    facts = gather(state, arguments.runs, arguments.baseline)
    if arguments.code:
        _print_code(state, facts)
        return
    baseline = None if arguments.baseline is None else facts[0].run.id
    comparison = compare(facts, baseline, arguments.metric, arguments.all, pinned_charts(state))
    if arguments.metric is not None:
        _check_metric(comparison, arguments.metric)
    if arguments.json:
        print_json(to_json(comparison))
    elif arguments.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows(csv_rows(comparison))
    else:
        _print(comparison)


def gather(
    state: StateDirectory, names: list[str], baseline: str | None = None, least: int = 2
) -> list[RunFacts]:
    """The facts of the runs called so, the baseline first; WrongInput for fewer than `least`."""
    runs: list[Run] = find_runs(state, names)
    if baseline is not None:
        pinned = find_run(state, baseline)
        runs = [pinned, *(run for run in runs if run.id != pinned.id)]
    if len(runs) < least:
        raise WrongInput(
            f"{runs[0].id} alone: compare it with which run?", "name two runs or more, or a group"
        )
    return list(compared_facts(state, runs).facts)


def _check_metric(comparison: Comparison, name: str) -> None:
    names = [row.name for row in comparison.metrics]
    if name not in names:
        shown = ", ".join(names[:12]) or "none"
        raise NotFound(f"--metric {name}: none of these runs has it", f"there are {shown}")


def _print(comparison: Comparison) -> None:
    for i, (title, rows) in enumerate(tables_of(comparison)):
        if i:
            print()
        print(title)
        print_table(rows[0], rows[1:])
    same = agreements(comparison)
    if same:
        echo(f"\nno difference in {' and '.join(', '.join(same).rsplit(', ', 1))}")


def _print_code(state: StateDirectory, facts: list[RunFacts]) -> None:
    """How the uncommitted changes of two runs differ, as a diff of their diffs."""
    if len(facts) != 2:
        raise WrongInput(f"--code compares two runs, not {len(facts)}")
    plans = [fact.run.plan for fact in facts]
    commits = [plan.provenance.commit if plan else None for plan in plans]
    if None not in commits and commits[0] != commits[1]:
        echo(f"other commits: git diff {commits[0]} {commits[1]} shows how these differ")
    before, after = ((diff_text(state.run(fact.run.id)) or "").splitlines() for fact in facts)
    names = [fact.run.id for fact in facts]
    lines = list(difflib.unified_diff(before, after, names[0], names[1], lineterm=""))
    for line in lines:
        print(line)
    if not lines:
        echo("no difference in the uncommitted changes")
