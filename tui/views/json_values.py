"""Numbers and moments as every JSON document of ours writes them."""

from datetime import datetime, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

_MICRO = Decimal("0.000001")


def number(amount: Decimal | None) -> float | None:
    """A decimal number in JSON: six places."""
    return None if amount is None else float(amount.quantize(_MICRO, ROUND_HALF_UP))


def iso(moment: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC; None for a moment that no calendar has."""
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


def fields_json(value: object, *names: str) -> dict[str, Any]:
    """These fields of a struct; an empty text says that there is none, which is null."""
    fields = {name: getattr(value, name) for name in names}
    lists = {name: list(field) for name, field in fields.items() if isinstance(field, tuple)}
    return {name: None if field == "" else field for name, field in {**fields, **lists}.items()}
