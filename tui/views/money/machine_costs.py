"""What rented machines cost, in words, as a table and in JSON: each of them, and all together."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from runners.cost.accounting import add_fractions, round_to_sum, to_decimal
from runners.cost.all_machines import AllBudget, AllMachines, add_up, is_at_least
from runners.cost.machines import MachineCost, MachineState
from runners.cost.sessions import Session
from runners.cost.statement import Statement
from runners.host.clock import local_time, time_of_day
from tui.views.format import DASH, dollars, duration
from tui.views.json_values import iso, number
from tui.views.money.money_text import session_json


def budget_text(budget: AllBudget, together: AllMachines) -> str:
    """`$188.00 of $500.00 left since Mon 12:04; enough for 11h at $15.92/h`."""
    left = budget.left(together)
    about = "at most " if together.at_least else ""
    since = local_time(budget.since, "%a %d %b %H:%M")
    if left <= 0:
        return f"{dollars(Decimal(budget.amount))} since {since}: spent; no launch on machines"
    text = f"{about}{dollars(left)} of {dollars(Decimal(budget.amount))} left, since {since}"
    if together.per_hour <= 0:
        return text
    lasts = duration(float(left / together.per_hour) * 3600)
    return f"{text}; enough for {lasts} at {dollars(together.per_hour)}/h"


def shown_amounts(here: Statement, machines: Sequence[MachineCost]) -> dict[str, Decimal]:
    """Dollars to the cent of every session of every machine, by `key_of`: they add up to all."""
    parts = {"": add_fractions(here.account(session).total for session in here.sessions)}
    for machine in machines:
        if not machine.same_as:
            for session in machine.statement.sessions:
                key = key_of(machine, session)
                parts[key] = machine.statement.account(session).total
    return round_to_sum(add_fractions(parts.values()), parts)


def key_of(machine: MachineCost, session: Session) -> str:
    """What tells a session of a machine from all others."""
    return f"{machine.name}\n{session.id}\n{session.start.wall}"


def _cents(amount: Decimal, exact: Fraction) -> str:
    return dollars(amount or to_decimal(exact))


def machine_text(machine: MachineCost, amounts: Mapping[str, Decimal]) -> str:
    """`$3.98/h, not reached since 12:04: at least $66.10 by now`."""
    if machine.same_as:
        return f"is {machine.same_as}, and counted there"
    shown = (amounts[key_of(machine, session)] for session in machine.statement.sessions)
    total = _cents(sum(shown, Decimal(0)), machine.total)
    rate = f"{dollars(machine.session.rate)}/h" if machine.session is not None else "no session"
    if machine.state is MachineState.UNKNOWN:
        return "not reached yet: what it costs is not known"
    if machine.state is MachineState.ENDED:
        return f"ended, {total}"
    if machine.state is MachineState.TAKEN:
        return f"taken away by its provider, {total}"
    if machine.state is MachineState.REACHED or machine.last_reached is None:
        return f"{rate}, {total}"
    since = time_of_day(machine.last_reached)
    by_now = f"at least {total} by now" if machine.session is not None else total
    return f"{rate}, not reached since {since}: {by_now}"


def machine_pairs(
    here: Statement, machines: Sequence[MachineCost], budget: AllBudget | None = None
) -> list[tuple[str, str]]:
    """Each machine as name and value, what all of them come to, and the budget over all.

    Nothing without any machine.
    """
    if not machines:
        return []
    together = add_up(here, machines)
    about = "at least " if together.at_least else ""
    total = f"{about}{dollars(to_decimal(together.total))}, now {dollars(together.per_hour)}/h"
    amounts = shown_amounts(here, machines)
    pairs = [(machine.name, machine_text(machine, amounts)) for machine in machines]
    pairs.append(("all", f"{total} (this machine and the others)"))
    return [*pairs, *([("budget of all", budget_text(budget, together))] if budget else [])]


def machine_rows(here: Statement, machines: Sequence[MachineCost]) -> list[tuple[str, ...]]:
    """Every session of every machine: machine, session, time, rate, cost, idle, where it stands."""
    rows: list[tuple[str, ...]] = []
    amounts = shown_amounts(here, machines)
    for machine in machines:
        if machine.same_as:
            continue
        for session in machine.statement.sessions:
            account = machine.statement.account(session)
            period = machine.statement.period(session)
            is_open = session.end is None
            about = "≥ " if is_open and is_at_least(machine) else ""
            rows.append(
                (
                    machine.name,
                    session.id,
                    duration((period.end - period.start) / 1e9) + (", open" if is_open else ""),
                    dollars(session.rate) if session.rate is not None else DASH,
                    about + _cents(amounts[key_of(machine, session)], account.total),
                    dollars(account.idle_rounded),
                )
            )
    return rows


def machine_json(machine: MachineCost) -> dict[str, Any]:
    """One machine: its sessions, and what its runs and nobody's hours cost of them."""
    statement, total = machine.statement, to_decimal(machine.total)
    # In the digits that are shown they add up, and are those of its sessions and its runs.
    runs = {run: to_decimal(share) for run, share in sorted(statement.session_shares().items())}
    held = sum(runs.values(), Decimal(0))
    return {
        "machine": machine.name,
        "state": machine.state.value,
        "same_as": machine.same_as or None,
        "last_reached": iso(machine.last_reached),
        "usd_per_hour": None if machine.session is None else number(machine.session.rate),
        "usd": number(total),
        "at_least": is_at_least(machine),
        "runs_usd": number(min(held, total)),
        "idle_usd": number(max(total - held, Decimal(0))),
        "runs": {run: number(share) for run, share in runs.items()},
        "sessions": [session_json(session, statement) for session in statement.sessions],
    }


def machines_json(
    here: Statement, machines: Sequence[MachineCost], budget: AllBudget | None
) -> dict[str, Any]:
    """Every machine, all together, and the budget over all."""
    together = add_up(here, machines)
    left = None if budget is None else budget.left(together)
    return {
        "machines": [machine_json(machine) for machine in machines],
        "all_usd": number(to_decimal(together.total)),
        "all_usd_per_hour": number(together.per_hour),
        "all_at_least": together.at_least,
        "all_budget_usd": None if budget is None else number(Decimal(budget.amount)),
        "all_budget_left_usd": number(left),
    }
