"""Dollars per hour, and what they amount to: the only place that multiplies a rate by GPUs."""

import math
import time
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from fractions import Fraction

from runners.model.plan import AssignedGpu
from runners.model.spec import Price

SECOND_NS = 10**9
HOUR_NS = 3600 * SECOND_NS
HOUR_S = Decimal(3600)
OLD_AFTER_DAYS = {"list": 90, "market": 14}
"""A list price is good for some months; a market price halved in twelve days (October 2026)."""


def device_count(gpus: Iterable[AssignedGpu]) -> Fraction:
    """How many GPUs these are to a bill: part of a card counts as its fraction; 0 for the CPU."""
    held = list(gpus)
    if all(gpu.part == (1, 1) for gpu in held):
        return Fraction(len(held))
    return sum((Fraction(*gpu.part) for gpu in held), Fraction(0))


def hourly_rate(price: Price, gpus: Fraction | int) -> Decimal:
    """US dollars per hour for `gpus` GPUs or parts of them.

    A run on the CPU costs nothing, but in a session of a machine that has no GPUs.
    """
    count = _billed_devices(price, gpus)
    return Decimal(price.usd_per_hour) * count.numerator / count.denominator


def exact_rate(price: Price, gpus: Fraction | int) -> Fraction:
    """`hourly_rate` as a fraction, for sums that must be exact."""
    return Fraction(Decimal(price.usd_per_hour)) * _billed_devices(price, gpus)


def _billed_devices(price: Price, gpus: Fraction | int) -> Fraction:
    if price.per == "unit":
        return Fraction(str(price.units))
    # A price for GPUs says nothing of a processor; a session of a machine without GPUs does.
    if not gpus and price.basis != "session":
        return Fraction(0)
    return Fraction(1) if price.per == "machine" else Fraction(gpus)


def billed_seconds(price: Price, seconds: float) -> float:
    """The seconds that a provider bills for `seconds` of a machine: begun units, and a minimum."""
    if seconds <= 0:
        return 0.0
    billed = math.ceil(seconds / price.unit_s) * price.unit_s if price.unit_s else seconds
    return float(max(billed, price.minimum_s))


def money(rate: Decimal, seconds: float) -> Decimal:
    """Dollars for `seconds` at `rate` per hour, unrounded."""
    # By way of `repr`: Decimal(0.1) would bring in the binary digits of the float.
    return rate * Decimal(repr(seconds)) / HOUR_S


def price_age(price: Price, today: date | None = None) -> str:
    """`123 days old` for a price too old for its kind; empty for a younger one, or one unnamed."""
    if price.name and not price.date:
        return "of unknown age"
    try:
        days = ((today or date.fromtimestamp(time.time())) - date.fromisoformat(price.date)).days
    except ValueError:
        return ""
    return f"{days} days old" if days > OLD_AFTER_DAYS[price.kind] else ""
