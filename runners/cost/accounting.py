"""Who spent what: a session's money shared out among the runs that held its GPUs. Pure, and exact
to the last digit.

Every GPU of the machine costs its part of the rate at every nanosecond. A GPU that one run holds
is paid by that run, one that k runs share by each with a k-th, one that nobody holds is idle
money. So shares and idle always add up to the total, as fractions; only what is shown is rounded,
and then so that the cents add up too.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import msgspec

from runners.cost.timeline import SECOND

_HOUR = 3600 * SECOND
MACHINE = "machine"
"""What a run without GPUs holds on a machine that has none."""


class Usage(msgspec.Struct, frozen=True):
    """The GPUs (UUIDs) that a run held from one nanosecond to another."""

    run: str
    gpus: tuple[str, ...]
    start: int
    end: int


class Period(msgspec.Struct, frozen=True):
    """A billing period: nanoseconds, dollars per hour of the whole machine, and how many GPUs it
    has (1 for none).
    """

    start: int
    end: int
    rate: Decimal
    gpus: int

    @property
    def total(self) -> Fraction:
        """Dollars from its start to its end."""
        return Fraction(self.rate) * max(0, self.end - self.start) / _HOUR


class Account(msgspec.Struct, frozen=True):
    """A period's money: `shares` by run, `idle` held by nobody; together they are `total`.

    `gpu_hours` by run; of a GPU that several share, each has its part.
    """

    total: Fraction
    shares: dict[str, Fraction]
    idle: Fraction
    gpu_hours: dict[str, Fraction]


def apportion(period: Period, holdings: Iterable[Usage]) -> Account:
    """Share the money of `period` among the runs that held GPUs in it."""
    changes: dict[int, tuple[list[Usage], list[Usage]]] = {}
    for holding in holdings:
        start, end = max(holding.start, period.start), min(holding.end, period.end)
        if start < end and holding.gpus:
            changes.setdefault(start, ([], []))[0].append(holding)
            changes.setdefault(end, ([], []))[1].append(holding)
    held: dict[str, int] = {}
    present: list[Usage] = []
    # Nanoseconds by (run, denominator): whole numbers, turned into fractions once at the end.
    parts: dict[tuple[str, int], int] = {}
    hours: dict[tuple[str, int], int] = {}
    before = period.start
    for moment in sorted(changes):
        _share_out(present, held, period.gpus, moment - before, parts, hours)
        before = moment
        came, went = changes[moment]
        for holding in went:
            present.remove(holding)
            for gpu in holding.gpus:
                held[gpu] -= 1
                if not held[gpu]:
                    del held[gpu]
        for holding in came:
            present.append(holding)
            for gpu in holding.gpus:
                held[gpu] = held.get(gpu, 0) + 1
    rate = Fraction(period.rate) / _HOUR
    shares = {run: rate * amount for run, amount in _add_up(parts).items()}
    gpu_hours = {run: amount / _HOUR for run, amount in _add_up(hours).items()}
    return Account(
        period.total, shares, period.total - sum(shares.values(), Fraction(0)), gpu_hours
    )


def _add_up(parts: Mapping[tuple[str, int], int]) -> dict[str, Fraction]:
    """Nanoseconds by (run, denominator) as one fraction for each run."""
    sums: dict[str, Fraction] = {}
    for (run, denominator), nanoseconds in parts.items():
        sums[run] = sums.get(run, Fraction(0)) + Fraction(nanoseconds, denominator)
    return sums


def _share_out(
    present: Sequence[Usage],
    held: Mapping[str, int],
    gpus: int,
    nanoseconds: int,
    parts: dict[tuple[str, int], int],
    hours: dict[tuple[str, int], int],
) -> None:
    """Count `nanoseconds`, in which nothing changed, for everyone `present`."""
    if not nanoseconds:
        return
    machine = max(gpus, len(held))  # slices of a GPU may outnumber the GPUs
    for holding in present:
        for gpu in holding.gpus:
            for sums, denominator in ((parts, machine * held[gpu]), (hours, held[gpu])):
                key = (holding.run, denominator)
                sums[key] = sums.get(key, 0) + nanoseconds


def local_days(start: int, end: int) -> list[tuple[str, int, int]]:
    """The local calendar days from `start` to `end` (unix nanoseconds), each as date, start and
    end.

    A day has 23 or 25 hours where the clocks are changed.
    """
    days = []
    while start < end:
        today = datetime.fromtimestamp(start // SECOND).date()
        tomorrow = today + timedelta(days=1)
        # A date without a zone is local: the zone's own rules say when its midnight was.
        midnight = int(datetime(tomorrow.year, tomorrow.month, tomorrow.day).timestamp()) * SECOND
        until = min(end, midnight) if midnight > start else end
        days.append((today.isoformat(), start, until))
        start = until
    return days


def to_decimal(amount: Fraction, digits: int = 6) -> Decimal:
    """`amount` as a decimal number with `digits` places, rounded half up."""
    scale = 10**digits
    whole = (2 * amount.numerator * scale + amount.denominator) // (2 * amount.denominator)
    return Decimal(whole).scaleb(-digits)


def round_to_cents(total: Fraction, parts: Mapping[str, Fraction]) -> dict[str, Decimal]:
    """`parts`, which add up to `total`, in whole cents that add up to the total's.

    Each is rounded down first; the cents that are then missing go to the greatest remainders, by
    name where equal.
    """
    exact = {name: amount * 100 for name, amount in parts.items()}
    floors = {name: amount.numerator // amount.denominator for name, amount in exact.items()}
    missing = int(to_decimal(total, 2).scaleb(2).to_integral_value(ROUND_FLOOR)) - sum(
        floors.values()
    )
    by_remainder = sorted(exact, key=lambda name: (floors[name] - exact[name], name))
    for name in by_remainder[: max(0, missing)]:
        floors[name] += 1
    return {name: Decimal(cents).scaleb(-2) for name, cents in floors.items()}
