"""`cost`: what is being spent, by whom, and until when the budget lasts."""

import argparse
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from runners.cost.accounting import add_fractions, round_to_sum, to_decimal
from runners.cost.sessions import is_damaged
from runners.cost.statement import Spending
from runners.housekeeping import tended_state
from runners.model.errors import WrongInput
from runners.places.ssh.accounts import refresh_accounts
from tui.cli.output import echo, print_json, print_pairs, print_table
from tui.views.json_values import number
from tui.views.money.account_budgets import budgets_json
from tui.views.money.cost_report import CostReport, CostRow, cost_notes, cost_tables, read_report
from tui.views.money.guard_text import guard_json
from tui.views.money.machine_costs import machine_pairs, machines_json
from tui.views.money.money_text import estimate_json, meter_json, session_json, session_pairs
from tui.views.runs.run_json import money_json


def run_cost(arguments: argparse.Namespace) -> None:
    """Show the meter, each run's share, and what presets and days cost."""
    if arguments.what == "plan":
        from tui.cli.cost_plan import run_plan

        run_plan(arguments)
        return
    if arguments.what == "export":
        from tui.cli.cost_export import run_export

        run_export(arguments)
        return
    if arguments.planned or arguments.budget is not None:
        raise WrongInput(
            "cost: only `cost plan` takes presets and a budget",
            "`fresnel-tui session budget --budget 100` sets a budget",
        )
    state = tended_state()
    refresh_accounts(state)
    report = read_report(state)
    if arguments.json:
        print_json(report_json(report))
        return
    costs = report.costs
    pairs = session_pairs(report.meter, costs.session, costs.now, report.guard)
    print_pairs([*pairs, *machine_pairs(report.statement, report.machines, report.all_budget)])
    if is_damaged(state):
        echo(
            f"{state.session} cannot be read: its session is not counted; `fresnel-tui "
            "session start` begins a new one"
        )
    for table in cost_tables(report):
        print()
        print_table(table.headings, table.rows)
    for note in cost_notes(report):
        echo(note)


def report_json(report: CostReport) -> dict[str, Any]:
    """The documented JSON of what everything costs."""
    spending, account = report.spending, report.costs.account
    presets = round_to_sum(add_fractions(spending.presets.values()), spending.presets, 6)
    return {
        **meter_json(report.meter, report.costs.session),
        "runs": [_run_json(row) for row in report.rows],
        "earlier_runs": _earlier_json(report),
        "presets": {name: number(amount) for name, amount in presets.items()},
        "days": _days_json(spending),
        "sessions": [
            session_json(session, report.statement) for session in report.statement.sessions
        ],
        "session_gpu_hours": None
        if account is None
        else number(to_decimal(add_fractions(account.gpu_hours.values()))),
        "guard": guard_json(report.guard),
        "ledger_problem": report.statement.problem or None,
        "suspended_s": report.suspended_s,
        "accounts": budgets_json(report.budgets),
        **machines_json(report.statement, report.machines, report.all_budget),
    }


def _earlier_json(report: CostReport) -> dict[str, Any]:
    """The runs that `runs` leaves out: with them its rows add up."""
    shown = {row.view.run.id for row in report.rows}
    spent, account = report.costs.spent, report.costs.account
    left = [run for run in spent if run not in shown]
    return {
        "count": len(left),
        "cost_usd": number(_sum(spent, left)),
        "share_usd": None if account is None else number(_sum(account.shares, left)),
    }


def _sum(amounts: Mapping[str, Fraction], runs: Sequence[str]) -> Decimal:
    return sum((to_decimal(amounts[run]) for run in runs if run in amounts), Decimal(0))


def _days_json(spending: Spending) -> list[dict[str, Any]]:
    spent = {day: amount for day, (amount, _) in spending.days.items()}
    idle = {day: amount for day, (_, amount) in spending.days.items()}
    spent_rows = round_to_sum(sum(spent.values(), Fraction(0)), spent, 6)
    idle_rows = round_to_sum(sum(idle.values(), Fraction(0)), idle, 6)
    return [
        {"day": day, "usd": number(spent_rows[day]), "idle_usd": number(idle_rows[day])}
        for day in spent
    ]


def _run_json(row: CostRow) -> dict[str, Any]:
    run, forecast = row.view.run, row.view.run.plan.forecast if row.view.run.plan else None
    return {
        "id": run.id,
        "preset": run.preset,
        "state": str(run.state),
        **money_json(row.view.money),
        "session_projected_usd": number(row.session_projected),
        "estimate": None if forecast is None else estimate_json(forecast),
        "overrun": None if row.overrun is None else row.overrun.text,
    }
