"""`cost export`: the ledger as CSV or JSON, a line for every session and every run."""

import argparse
import csv
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from runners.cost.accounting import add_fractions, to_decimal
from runners.cost.ledger import line_of
from runners.cost.machines import read_machines
from runners.cost.run_costs import Costs, costs_in
from runners.cost.statement import Statement, open_statement
from runners.housekeeping import tended_state
from runners.model.spec import Price
from runners.places.ssh.accounts import refresh_accounts, rented_names
from runners.state.runs import list_runs
from tui.cli.output import echo, print_json
from tui.views.json_values import iso
from tui.views.money.cost_report import NOT_COUNTED

COLUMNS = (
    *("kind", "id", "host", "preset", "name", "state", "started", "ended", "seconds", "gpus"),
    *("gpu", "gpu_hours", "usd_per_hour", "usd", "idle_usd", "price_usd", "price_per", "price"),
    *("price_source", "price_date", "simulated"),
)


def run_export(arguments: argparse.Namespace) -> None:
    """Print every session and run, pruned ones included, in the order in which they began."""
    state = tended_state()
    live = [run for run in list_runs(state, 0) if run.is_live]
    refresh_accounts(state)
    books = open_statement(state, live)
    lines = [line for run in live if (line := line_of(run)) is not None]
    machines = read_machines(state, rented_names(state), lines)
    others = [machine.statement for machine in machines if not machine.same_as]
    rows = sorted(
        [
            row
            for statement in (books, *others)
            for row in (
                *_sessions(statement),
                *_runs(statement, costs_in(statement, live, everything=True)),
            )
        ],
        key=lambda row: (str(row["started"]), str(row["kind"])),
    )
    if books.problem:
        echo(f"⚠ {books.problem}: {NOT_COUNTED}")
    if arguments.json:
        print_json(
            [
                {key: float(v) if isinstance(v, Decimal) else v for key, v in row.items()}
                for row in rows
            ]
        )
        return
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if value is None else value for key, value in row.items()})


def _sessions(books: Statement) -> Iterator[dict[str, object]]:
    for session in books.sessions:
        account = books.account(session)
        start, end = books.period(session).start, books.period(session).end
        yield dict.fromkeys(COLUMNS) | {
            "kind": "session",
            "id": session.id,
            "host": session.host,
            "state": "open" if session.end is None else "ended",
            "started": iso(start / 1e9),
            "ended": None if session.end is None else iso(end / 1e9),
            "seconds": _seconds(start, end),
            "gpus": session.gpus,
            "gpu_hours": to_decimal(add_fractions(account.gpu_hours.values())),
            "usd_per_hour": session.rate,
            "usd": to_decimal(account.total),
            "idle_usd": account.idle_rounded,
            **_price(session.price),
        }


def _runs(books: Statement, costs: Costs) -> Iterator[dict[str, object]]:
    for line in books.lines.values():
        start, end = books.span(line.run)
        cost, rate = costs.spent.get(line.run), costs.rates.get(line.run)
        yield dict.fromkeys(COLUMNS) | {
            "kind": "run",
            "id": line.run,
            **{name: getattr(line, name) for name in ("host", "preset", "name", "state")},
            "started": iso(start / 1e9),
            "ended": None if line.finished is None else iso(end / 1e9),
            "seconds": _seconds(start, end),
            "gpus": len(line.gpus),
            "gpu": line.gpu_name,
            "gpu_hours": to_decimal(costs.hours[line.run]),
            "usd_per_hour": None if rate is None else _plain(to_decimal(rate)),
            "usd": None if cost is None else to_decimal(cost),
            "simulated": line.simulated,
            **_price(line.price),
        }


def _price(price: Price | None) -> dict[str, object]:
    if price is None:
        return {}
    return {
        "price_usd": Decimal(price.usd_per_hour),
        "price_per": price.per,
        "price": price.name or "by hand",
        "price_source": price.source,
        "price_date": price.date,
    }


def _plain(amount: Decimal) -> Decimal:
    """`3.600000` as 3.60: two places at least."""
    short = amount.normalize()
    return amount.quantize(Decimal("0.01")) if short == short.quantize(Decimal("0.01")) else short


def _seconds(start: int, end: int) -> Decimal:
    return to_decimal(Fraction(end - start, 10**9), 3)
