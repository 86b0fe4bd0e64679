"""How old a price is."""

import time
from datetime import date

from runners.model.spec import Price

OLD_AFTER_DAYS = 90


def price_age(price: Price, today: date | None = None) -> str:
    """`123 days old` for a price that was true more than 90 days ago; empty for a younger one, and
    without a date.
    """
    try:
        days = ((today or date.fromtimestamp(time.time())) - date.fromisoformat(price.date)).days
    except ValueError:
        return ""
    return f"{days} days old" if days > OLD_AFTER_DAYS else ""
