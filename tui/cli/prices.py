"""`prices`: the known prices, how old they are, and a newer list of them."""

import argparse
from typing import Any

import msgspec

from runners.cost.price_update import update_prices
from runners.cost.prices import PriceEntry, choose_price, list_prices, parse_rate
from runners.cost.rates import price_age
from tui.cli.output import echo, print_json, print_table
from tui.views.format import dollars


def run_prices(arguments: argparse.Namespace) -> None:
    """Show the prices, or take in a newer list."""
    if arguments.what == "update":
        done = update_prices(arguments.source, arguments.sha256 or "")
        if arguments.json:
            print_json(msgspec.to_builtins(done))
        else:
            kept = f"; the list before is kept as {done.kept}" if done.kept else ""
            echo(
                f"{done.prices} prices, the oldest of {done.oldest}: {len(done.added)} new, "
                f"{len(done.changed)} changed{kept}"
            )
        return
    entries = list_prices()
    if arguments.json:
        print_json([_json(entry) for entry in entries])
        return
    print_table(
        ("price", "provider", "GPU", "$/h", "per", "date", "source"),
        [
            (
                entry.name,
                entry.provider,
                entry.gpu,
                dollars(parse_rate(entry.usd_per_hour)),
                entry.per,
                entry.date or "unknown",
                entry.source,
            )
            for entry in entries
        ],
    )
    old = sum(bool(_age(entry)) for entry in entries)
    if old:
        echo(
            f"{old} of {len(entries)} are old (list prices after 90 days, market prices after 14): "
            "`fresnel-tui prices update FILE|URL` takes a newer list"
        )


def _age(entry: PriceEntry) -> str:
    return price_age(choose_price(entry.name, "flag", known=[entry]))


def _json(entry: PriceEntry) -> dict[str, Any]:
    return {**msgspec.structs.asdict(entry), "age": _age(entry) or None}
