"""How old a price is."""

import time
from datetime import date

from runners.model.spec import Price

OLD_AFTER_DAYS = {"list": 90, "market": 14}
"""A list price is good for some months; a market price halved in twelve days (October 2026)."""


def price_age(price: Price, today: date | None = None) -> str:
    """`123 days old` for a price too old for its kind; empty for a younger one, or one unnamed."""
    if price.name and not price.date:
        return "of unknown age"
    try:
        days = ((today or date.fromtimestamp(time.time())) - date.fromisoformat(price.date)).days
    except ValueError:
        return ""
    return f"{days} days old" if days > OLD_AFTER_DAYS[price.kind] else ""
