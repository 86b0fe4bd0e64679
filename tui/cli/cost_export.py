"""`cost export`: the ledger as CSV or JSON, a line for every session and every run."""

import argparse
import csv
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from runners.cost.accounting import to_decimal
from runners.cost.statement import Statement, open_statement
from runners.model.errors import ExitCode
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tui.cli.output import print_json
from tui.views.run_view import iso

COLUMNS = (
    "kind",
    "id",
    "host",
    "preset",
    "name",
    "state",
    "started",
    "ended",
    "seconds",
    "gpus",
    "gpu",
    "gpu_hours",
    "usd_per_hour",
    "usd",
    "idle_usd",
    "price",
    "price_source",
    "price_date",
    "simulated",
)


def run_export(arguments: argparse.Namespace) -> int:
    """Print every session and run, pruned ones included, in the order in which they began."""
    state = StateDirectory()
    books = open_statement(state, [run for run in list_runs(state, 0) if run.is_live])
    rows = sorted(
        [*_sessions(books), *_runs(books)], key=lambda row: (str(row["started"]), str(row["kind"]))
    )
    if arguments.json:
        print_json(
            [
                {key: float(v) if isinstance(v, Decimal) else v for key, v in row.items()}
                for row in rows
            ]
        )
        return ExitCode.DONE
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if value is None else value for key, value in row.items()})
    return ExitCode.DONE


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
            "gpu_hours": to_decimal(sum(account.gpu_hours.values(), Fraction(0))),
            "usd_per_hour": session.rate,
            "usd": to_decimal(account.total),
            "idle_usd": to_decimal(account.idle),
            "price": session.price.name or "by hand",
            "price_source": session.price.source,
            "price_date": session.price.date,
        }


def _runs(books: Statement) -> Iterator[dict[str, object]]:
    costs = books.run_costs()
    for line in books.lines.values():
        start, end = books.span(line.run)
        cost = costs.get(line.run)
        yield dict.fromkeys(COLUMNS) | {
            "kind": "run",
            "id": line.run,
            "host": line.host,
            "preset": line.preset,
            "name": line.name,
            "state": line.state,
            "started": iso(start / 1e9),
            "ended": None if line.finished is None else iso(end / 1e9),
            "seconds": _seconds(start, end),
            "gpus": len(line.gpus),
            "gpu": line.gpu_name,
            "gpu_hours": to_decimal(Fraction((end - start) * len(line.gpus), 3600 * 10**9)),
            "usd_per_hour": None if line.price is None else Decimal(line.price.usd_per_hour),
            "usd": None if cost is None else to_decimal(cost),
            "price": None if line.price is None else line.price.name or "by hand",
            "price_source": None if line.price is None else line.price.source,
            "price_date": None if line.price is None else line.price.date,
            "simulated": line.simulated,
        }


def _seconds(start: int, end: int) -> Decimal:
    return to_decimal(Fraction(end - start, 10**9), 3)
