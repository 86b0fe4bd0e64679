"""What everything costs, as tables that both front ends show: by run, preset, day and session."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import msgspec

from runners.cost.accounting import add_fractions, round_to_sum, to_decimal
from runners.cost.all_machines import AllBudget, add_up, read_all_budget
from runners.cost.ledger import line_of
from runners.cost.machines import MachineCost, read_machines
from runners.cost.meter import Meter, read_meter
from runners.cost.run_costs import Costs, Overrun, ProjectionBasis, costs_in, warn_of_overrun
from runners.cost.sessions import Session
from runners.cost.statement import Spending, Statement, open_statement
from runners.gpus.cards import list_cards
from runners.gpus.client import latest
from runners.guard.rule import GuardView, read_guard
from runners.host.clock import Moment, moment_now
from runners.host.suspension import note_suspension, read_suspensions, suspended_between
from runners.model.gpus import GpuReading
from runners.places.ssh.accounts import rented_names
from runners.slurm.accounts import AccountBudget, known_budgets
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tui.views.format import dollars, duration, fitted
from tui.views.money.account_budgets import BUDGET_HEADINGS, budget_rows
from tui.views.money.machine_costs import budget_text, machine_rows
from tui.views.money.money_text import cells
from tui.views.runs.run_view import RunView, view_run

NOT_COUNTED = "what is there is not counted, and the sums are at least"
_SHOWN_ENDED = 20
_CENT = Decimal("0.01")
_GROUNDS: dict[ProjectionBasis | None, str] = {
    ProjectionBasis.ESTIMATE: " est.",
    ProjectionBasis.GUARD: " at its stop",
    ProjectionBasis.LIMIT: " at its limit",
}
_ENDED_BY: dict[ProjectionBasis | None, str] = {
    ProjectionBasis.GUARD: "the guard stops it",
    ProjectionBasis.LIMIT: "its limit ends it",
}


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
    machines: list[MachineCost]
    resized: str = ""
    """That the machine is another one than the session was opened for, in words."""
    suspended_s: float = 0.0
    """For how long this machine was suspended in this session, in this boot."""
    budgets: tuple[AccountBudget, ...] = ()
    """What is left on the accounts of this machine's cluster."""
    all_budget: AllBudget | None = None
    """What all machines together may cost."""


class CostTable(NamedTuple):
    """A table of money: its columns, and its rows."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


class CostPage(msgspec.Struct, frozen=True):
    """The tables and notes of a place, as a page of any front end shows them."""

    tables: list[CostTable]
    notes: list[str]


def read_page(state: StateDirectory) -> CostPage:
    """Tables and notes of this machine, its runs by name."""
    report = read_report(state)
    notes = cost_notes(report, by_name=True)
    if report.all_budget is not None:
        together = add_up(report.statement, report.machines)
        notes = [f"all machines: {budget_text(report.all_budget, together)}", *notes]
    return CostPage(cost_tables(report, by_name=True), notes)


def read_report(state: StateDirectory) -> CostReport:
    """The report as things stand; reads the ledger, and the newest runs that ended."""
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
    live = [line for run in runs if run.is_live and (line := line_of(run)) is not None]
    machines = read_machines(state, rented_names(state), live)
    spending, guard = statement.spending(), read_guard(state)
    resized = _resized_text(costs.session, latest(state))
    suspended = _suspended_s(state, costs.session, now)
    return CostReport(
        *(meter, costs, rows, statement, spending, guard, machines, resized, suspended),
        known_budgets(state),
        read_all_budget(state),
    )


def _suspended_s(state: StateDirectory, session: Session | None, now: Moment) -> float:
    if session is None:
        return 0.0
    with suppress(OSError):  # a full disk: what is written down already
        note_suspension(state.suspensions)
    start = session.start
    if start.boot != now.boot:
        start = Moment(start.wall, now.boot, 0)  # what earlier boots noted is not kept
    return suspended_between(start, now, read_suspensions(state.suspensions))


def _resized_text(session: Session | None, reading: GpuReading | None) -> str:
    """That the machine has other cards than its session was opened for; empty when it has not."""
    if session is None or reading is None or any(gpu.unread for gpu in reading.gpus):
        return ""
    cards = list_cards(reading.gpus)
    if not cards or not session.uuids or len(cards) == len(session.uuids):
        return ""
    return (
        f"this machine has {len(cards)} GPUs now, and its session was opened for "
        f"{len(session.uuids)}: `fresnel-tui session end`, then `session start` with the new price"
    )


def cost_tables(report: CostReport, by_name: bool = False) -> list[CostTable]:
    """All tables that have rows: runs (by id, or by name), presets, days, sessions.

    By name they are for a page: days first and today on top, as the newest session is, the dearest
    runs first, those of less than a cent in one row.
    """
    days, sessions = _day_table(report.spending), _session_table(report.statement)
    runs, presets = _run_table(report, by_name), _preset_table(report.spending)
    first = [runs, presets, days, sessions]
    if by_name:
        newest_days, newest_sessions = (
            table._replace(rows=table.rows[::-1]) for table in (days, sessions)
        )
        first = [newest_days, runs, presets, newest_sessions]
    accounts = CostTable(BUDGET_HEADINGS, budget_rows(report.budgets))
    tables = [*first, _machine_table(report), accounts]
    return [table for table in tables if table.rows]


def costly_rows(report: CostReport) -> list[CostRow]:
    """The runs that cost something; in a session only its own."""
    account = report.costs.account
    return [
        row
        for row in report.rows
        if row.view.money.cost is not None and (account is None or row.view.money.share is not None)
    ]


def cost_notes(report: CostReport, by_name: bool = False) -> list[str]:
    """What is to be said besides: lost lines, what the session will have cost, overruns."""
    problem = report.statement.problem
    notes = [f"⚠ {problem}: {NOT_COUNTED}"] if problem else []
    notes += [f"⚠ {report.resized}"] if report.resized else []
    if report.suspended_s:
        notes.append(
            f"⚠ this machine was suspended for {duration(report.suspended_s)} in this session: "
            "counted all the same, as many providers bill that too"
        )
    for row in costly_rows(report):
        called = _called(row, by_name)
        if row.session_projected is not None:
            cost = dollars(row.session_projected)
            when = _ENDED_BY.get(row.view.money.basis, "it ends")
            notes.append(f"{called}: when {when} the session will have cost {cost}")
        if row.overrun is not None:
            notes.append(f"{called} {row.overrun.text}")
    return notes


def _run_table(report: CostReport, by_name: bool) -> CostTable:
    account, costly = report.costs.account, costly_rows(report)
    earlier = "earlier runs"
    if by_name:
        every = sorted(costly, key=lambda row: row.view.money.cost or 0, reverse=True)
        costly = [
            row for row in every if row.view.run.is_live or (row.view.money.cost or 0) >= _CENT
        ]
        small = len(every) - len(costly)
        earlier = f"{small} of less than a cent, earlier runs" if small else earlier
    shown = {} if account is None else cells(account.total, {**account.shares, "": account.idle})
    share = "cost" if account is None else "share"
    headings = ("run", "state", "time", "$/h", share, "per epoch", "projected")
    table: list[tuple[str, ...]] = [
        (
            _called(row, by_name),
            str(row.view.run.state),
            duration(row.view.seconds),
            dollars(row.view.money.rate),
            shown.get(row.view.run.id, dollars(row.view.money.cost)),
            dollars(row.view.money.per_epoch),
            dollars(row.view.money.projected) + _GROUNDS.get(row.view.money.basis, ""),
        )
        for row in costly
    ]
    if account is not None and costly:
        named = {row.view.run.id for row in costly}
        amounts = round_to_sum(account.total, {**account.shares, "": account.idle})
        others = sum((amounts[run] for run in account.shares if run not in named), Decimal(0))
        if others:
            table.append((earlier, "", "", "", dollars(others), "", ""))
        table.append(("idle: no run held it", "", "", "", shown[""], "", ""))
        table.append(("session", "", "", "", dollars(to_decimal(account.total, 2)), "", ""))
    return CostTable(headings, table)


def _called(row: CostRow, by_name: bool) -> str:
    return (row.view.run.name if by_name else "") or row.view.run.id


def _preset_table(spending: Spending) -> CostTable:
    """The dearest first."""
    total = add_fractions(spending.presets.values())
    dear = sorted(spending.presets, key=lambda name: spending.presets[name], reverse=True)
    shown = cells(total, spending.presets)
    return CostTable(("preset", "cost"), [(name, shown[name]) for name in dear])


def _day_table(spending: Spending) -> CostTable:
    spent = {day: amount for day, (amount, _) in spending.days.items()}
    idle = {day: amount for day, (_, amount) in spending.days.items()}
    spent_cells = cells(sum(spent.values(), Fraction(0)), spent)
    idle_cells = cells(sum(idle.values(), Fraction(0)), idle)
    rows: list[tuple[str, ...]] = [(day, spent_cells[day], idle_cells[day]) for day in spent]
    return CostTable(("day", "spent", "idle"), rows)


def _session_table(statement: Statement) -> CostTable:
    """Every session, once there are several."""
    headings = ("session", "time", "$/h", "cost", "idle")
    if len(statement.sessions) < 2:
        return CostTable(headings, [])
    accounts = {session.id: statement.account(session) for session in statement.sessions}
    spent = {name: account.total for name, account in accounts.items()}
    idle = {name: account.idle for name, account in accounts.items()}
    spent_cells = cells(sum(spent.values(), Fraction(0)), spent)
    idle_cells = cells(sum(idle.values(), Fraction(0)), idle)
    rows: list[tuple[str, ...]] = [
        (
            session.id,
            duration(accounts[session.id].lasted_s) + (", open" if session.end is None else ""),
            dollars(session.rate),
            spent_cells[session.id],
            idle_cells[session.id],
        )
        for session in statement.sessions
    ]
    return CostTable(headings, rows)


def _machine_table(report: CostReport) -> CostTable:
    """Every session of the other machines, and all of them with this one's."""
    headings = ("machine", "session", "time", "$/h", "cost", "idle")
    rows = machine_rows(report.statement, report.machines)
    if rows:
        together = add_up(report.statement, report.machines)
        about = "≥ " if together.at_least else ""
        total = about + dollars(to_decimal(together.total))
        rows.append(("all, with this one", "", "", dollars(together.per_hour), total, ""))
    return CostTable(headings, rows)


def padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A row of a table in columns of these widths; amounts to the right."""
    return "  ".join(
        fitted(cell, width, right=cell[:1] in tuple("$<≥—"))
        for cell, width in zip(cells, widths, strict=True)
    ).rstrip()
