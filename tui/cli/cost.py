"""`cost`: what is being spent, by whom, and until when the budget lasts."""

import argparse
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from runners.cost.accounting import add_fractions, round_to_sum, to_decimal
from runners.cost.meter import Meter, read_meter
from runners.cost.overrun import Overrun, warn_of_overrun
from runners.cost.run_costs import Costs, ProjectionBasis, costs_in
from runners.cost.sessions import is_damaged
from runners.cost.statement import Spending, Statement, open_statement
from runners.guard.rule import GuardView, read_guard
from runners.host.clock import moment_now
from runners.model.errors import ExitCode, WrongInput
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tui.cli.output import print_json, print_pairs, print_table, say
from tui.views.format import dollars, duration
from tui.views.guard_text import guard_json
from tui.views.money_text import cells, estimate_json, meter_json, session_json, session_pairs
from tui.views.run_view import RunView, money_json, number, view_run

_SHOWN_ENDED = 20


class CostRow(NamedTuple):
    """One run with its money, what the session will have cost at its end, and its overrun."""

    view: RunView
    session_projected: Decimal | None
    overrun: Overrun | None


class CostReport(NamedTuple):
    """Everything that `cost` shows."""

    meter: Meter
    costs: Costs
    rows: list[CostRow]
    statement: Statement
    spending: Spending
    guard: GuardView


def run_cost(arguments: argparse.Namespace) -> int:
    """Show the meter, each run's share, and what presets and days cost."""
    if arguments.what == "plan":
        from tui.cli.cost_plan import run_plan

        return run_plan(arguments)
    if arguments.what == "export":
        from tui.cli.cost_export import run_export

        return run_export(arguments)
    if arguments.words or arguments.budget is not None:
        raise WrongInput(
            "cost: only `cost plan` takes presets and a budget",
            "fresnel-tui session budget --budget 100 sets a budget",
        )
    state = StateDirectory()
    report = _report(state)
    if arguments.json:
        print_json(_json(report))
        return ExitCode.DONE
    costs = report.costs
    print_pairs(session_pairs(report.meter, costs.session, costs.now, report.guard))
    if is_damaged(state):
        say(
            f"{state.session} cannot be read: its session is not counted; `fresnel-tui "
            "session start` begins a new one"
        )
    if report.statement.problem:
        say(f"{report.statement.problem}: what is there is not counted")
    _print_runs(report.rows, costs)
    _print_sums(report.spending)
    _print_sessions(report.statement)
    return ExitCode.DONE


def _report(state: StateDirectory) -> CostReport:
    now = moment_now()
    runs = list_runs(state, _SHOWN_ENDED)
    statement = open_statement(state, runs, now)
    costs = costs_in(statement, runs)
    rows = []
    for run in runs:
        view = view_run(run, now=now.wall, costs=costs)
        then = costs.session_projected(view.money)
        rows.append(CostRow(view, then, warn_of_overrun(state, run, view.money)))
    meter = read_meter(runs, costs)
    return CostReport(meter, costs, rows, statement, statement.spending(), read_guard(state))


def _print_runs(rows: Sequence[CostRow], costs: Costs) -> None:
    account = costs.account
    costly = [
        row
        for row in rows
        if row.view.money.cost is not None and (account is None or row.view.money.share is not None)
    ]
    if not costly:
        return
    shown = {} if account is None else cells(account.total, {**account.shares, "": account.idle})
    headings = (
        "run",
        "state",
        "time",
        "$/h",
        "cost" if account is None else "share",
        "per epoch",
        "projected",
    )
    table = [
        (
            row.view.run.id,
            str(row.view.run.state),
            duration(row.view.seconds),
            dollars(row.view.money.rate),
            shown.get(row.view.run.id, dollars(row.view.money.cost)),
            dollars(row.view.money.per_epoch),
            _projected(row),
        )
        for row in costly
    ]
    if account is not None:
        named = {row.view.run.id for row in costly}
        amounts = round_to_sum(account.total, {**account.shares, "": account.idle})
        others = sum((amounts[run] for run in account.shares if run not in named), Decimal(0))
        if others:
            table.append(("earlier runs", "", "", "", dollars(others), "", ""))
        table.append(("idle: no run held it", "", "", "", shown[""], "", ""))
        table.append(("session", "", "", "", dollars(to_decimal(account.total, 2)), "", ""))
    print()
    print_table(headings, table)
    for row in costly:
        if row.session_projected is not None:
            say(
                f"{row.view.run.id}: when it ends the session will have cost "
                f"{dollars(row.session_projected)}"
            )
        if row.overrun is not None:
            say(f"{row.view.run.id} {row.overrun.text}")


def _projected(row: CostRow) -> str:
    by_estimate = row.view.money.basis is ProjectionBasis.ESTIMATE
    return dollars(row.view.money.projected) + (" est." if by_estimate else "")


def _print_sums(spending: Spending) -> None:
    if spending.presets:
        total = add_fractions(spending.presets.values())
        print()
        print_table(("preset", "cost"), list(cells(total, spending.presets).items()))
    if spending.days:
        spent = {day: amount for day, (amount, _) in spending.days.items()}
        idle = {day: amount for day, (_, amount) in spending.days.items()}
        spent_cells = cells(sum(spent.values(), Fraction(0)), spent)
        idle_cells = cells(sum(idle.values(), Fraction(0)), idle)
        print()
        print_table(
            ("day", "spent", "idle"), [(day, spent_cells[day], idle_cells[day]) for day in spent]
        )


def _print_sessions(statement: Statement) -> None:
    """Every session, once there are several."""
    if len(statement.sessions) < 2:
        return
    accounts = {session.id: statement.account(session) for session in statement.sessions}
    spent = {name: account.total for name, account in accounts.items()}
    idle = {name: account.idle for name, account in accounts.items()}
    spent_cells = cells(sum(spent.values(), Fraction(0)), spent)
    idle_cells = cells(sum(idle.values(), Fraction(0)), idle)
    rows = [
        (
            session.id,
            duration(session.seconds(statement.now)) + (", open" if session.end is None else ""),
            dollars(session.rate),
            spent_cells[session.id],
            idle_cells[session.id],
        )
        for session in statement.sessions
    ]
    print()
    print_table(("session", "time", "$/h", "cost", "idle"), rows)


def _json(report: CostReport) -> dict[str, Any]:
    spending, account = report.spending, report.costs.account
    presets = round_to_sum(add_fractions(spending.presets.values()), spending.presets, 6)
    return {
        **meter_json(report.meter, report.costs.session),
        "runs": [_run_json(row) for row in report.rows],
        "earlier_runs": _earlier_json(report),
        "presets": {name: number(amount) for name, amount in presets.items()},
        "days": _days_json(spending),
        "sessions": [session_json(one, report.statement) for one in report.statement.sessions],
        "session_gpu_hours": None
        if account is None
        else number(to_decimal(add_fractions(account.gpu_hours.values()))),
        "guard": guard_json(report.guard),
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
    money = money_json(row.view.money)
    basis = row.view.money.basis
    return {
        "id": run.id,
        "preset": run.preset,
        "state": str(run.state),
        **money,
        "session_projected_usd": number(row.session_projected),
        "estimate": None if forecast is None else estimate_json(forecast),
        "overrun": None if row.overrun is None else row.overrun.text,
        # The names of one release before.
        "projected_by": {None: None, ProjectionBasis.PACE: "its own pace"}.get(basis, "estimate"),
        "session_at_its_end_usd": number(row.session_projected),
    }
