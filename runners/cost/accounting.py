"""Who spent what: a session's money shared out among the runs that held its GPUs. Pure, and exact
to the last digit.

Every card of the machine costs its part of the rate at every nanosecond. A GPU that one run holds
is paid by that run, one that k runs share by each with a k-th, a part of a card by its fraction,
and what nobody holds is idle money. So shares and idle always add up to the total, as fractions;
only what is shown is rounded, and then so that the cents add up too.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import msgspec

from runners.cost.rates import HOUR_NS, SECOND_NS

MACHINE = "machine"
"""What a run without GPUs holds on a machine that has none."""


class Usage(msgspec.Struct, frozen=True):
    """The GPUs (UUIDs) that a run held from one nanosecond to another.

    `parts` names the card, and numerator and denominator of its fraction, for those that are no
    whole cards.
    """

    run: str
    gpus: tuple[str, ...]
    start: int
    end: int
    parts: Mapping[str, tuple[str, int, int]] = {}


class Period(msgspec.Struct, frozen=True):
    """A billing period: nanoseconds, dollars per hour of the whole machine, and how many cards it
    has (1 for none).

    A provider bills begun units of `unit` nanoseconds, and at least `minimum`; 0 where it bills by
    the nanosecond, or where nobody has looked it up.
    """

    start: int
    end: int
    rate: Decimal
    gpus: int
    unit: int = 0
    minimum: int = 0

    @property
    def total(self) -> Fraction:
        """Dollars from its start to its end, begun units billed whole."""
        billed = max(0, self.end - self.start)
        if billed and self.unit:
            billed = -(-billed // self.unit) * self.unit
        if billed:
            billed = max(billed, self.minimum)
        return Fraction(self.rate) * billed / HOUR_NS


class Account(msgspec.Struct, frozen=True):
    """A period's money: `shares` by run, `idle` held by nobody; together they are `total`.

    `gpu_hours` by run; of a GPU that several share, each has its part.
    """

    total: Fraction
    shares: dict[str, Fraction]
    idle: Fraction
    gpu_hours: dict[str, Fraction]

    @property
    def idle_rounded(self) -> Decimal:
        """Idle money to six places: what the total, rounded, leaves of the shares, each rounded.

        A share is rounded by itself, so that it is the same wherever it is shown.
        """
        shares = (to_decimal(share) for share in self.shares.values())
        return to_decimal(self.total) - sum(shares, Decimal(0))


_Sums = dict[tuple[str, int, int], int]
"""Nanoseconds by run, numerator and denominator."""


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
    # Nanoseconds by run and fraction: whole numbers, turned into fractions once at the end.
    parts: _Sums = {}
    hours: _Sums = {}
    before = period.start
    for moment in sorted(changes):
        if any(holding.parts for holding in present):
            _share_out_parts(present, held, period.gpus, moment - before, parts, hours)
        else:
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
    rate = Fraction(period.rate) / HOUR_NS
    shares = {run: rate * amount for run, amount in _add_up(parts).items()}
    gpu_hours = {run: amount / HOUR_NS for run, amount in _add_up(hours).items()}
    return Account(
        period.total, shares, period.total - sum(shares.values(), Fraction(0)), gpu_hours
    )


def _add_up(parts: _Sums) -> dict[str, Fraction]:
    """Nanoseconds by run and fraction as one fraction for each run."""
    sums: dict[str, Fraction] = {}
    for (run, numerator, denominator), nanoseconds in parts.items():
        sums[run] = sums.get(run, Fraction(0)) + Fraction(nanoseconds * numerator, denominator)
    return sums


def _share_out(
    present: Sequence[Usage],
    held: Mapping[str, int],
    gpus: int,
    nanoseconds: int,
    parts: _Sums,
    hours: _Sums,
) -> None:
    """Count `nanoseconds`, in which nothing changed, for everyone `present`: whole cards only."""
    if not nanoseconds:
        return
    machine = max(gpus, len(held))  # more may be held than the session was told of
    for holding in present:
        for gpu in holding.gpus:
            for sums, denominator in ((parts, machine * held[gpu]), (hours, held[gpu])):
                key = (holding.run, 1, denominator)
                sums[key] = sums.get(key, 0) + nanoseconds


def _share_out_parts(
    present: Sequence[Usage],
    held: Mapping[str, int],
    gpus: int,
    nanoseconds: int,
    parts: _Sums,
    hours: _Sums,
) -> None:
    """The same where parts of cards are held; parts that are more than a card are cut to one."""
    if not nanoseconds:
        return
    fractions: dict[str, tuple[str, Fraction]] = {}
    for holding in present:
        for gpu in holding.gpus:
            card, numerator, denominator = holding.parts.get(gpu, (gpu, 1, 1))
            fractions[gpu] = (card, Fraction(numerator, denominator))
    filled: dict[str, Fraction] = {}
    for card, fraction in fractions.values():
        filled[card] = filled.get(card, Fraction(0)) + fraction
    machine = max(gpus, len(filled))
    for holding in present:
        for gpu in holding.gpus:
            card, fraction = fractions[gpu]
            each = fraction / max(Fraction(1), filled[card]) / held[gpu]
            for sums, part in ((parts, each / machine), (hours, each)):
                key = (holding.run, part.numerator, part.denominator)
                sums[key] = sums.get(key, 0) + nanoseconds


def local_days(start: int, end: int) -> list[tuple[str, int, int]]:
    """The local calendar days from `start` to `end` (unix nanoseconds), each as date, start and
    end.

    A day has 23 or 25 hours where the clocks are changed.
    """
    days = []
    while start < end:
        today = datetime.fromtimestamp(start // SECOND_NS).date()
        tomorrow = today + timedelta(days=1)
        # A date without a zone is local: the zone's own rules say when its midnight was.
        midnight = (
            int(datetime(tomorrow.year, tomorrow.month, tomorrow.day).timestamp()) * SECOND_NS
        )
        until = min(end, midnight) if midnight > start else end
        days.append((today.isoformat(), start, until))
        start = until
    return days


def to_decimal(amount: Fraction, digits: int = 6) -> Decimal:
    """`amount` as a decimal number with `digits` places, rounded half up."""
    scale = 10**digits
    whole = (2 * amount.numerator * scale + amount.denominator) // (2 * amount.denominator)
    return Decimal(whole).scaleb(-digits)


def round_to_sum(
    total: Fraction, parts: Mapping[str, Fraction], digits: int = 2
) -> dict[str, Decimal]:
    """`parts`, which add up to `total`, rounded to `digits` places that add up to the total's.

    Each is rounded down first; what is then missing goes to the greatest remainders, by name where
    equal.
    """
    exact = {name: amount * 10**digits for name, amount in parts.items()}
    floors = {name: amount.numerator // amount.denominator for name, amount in exact.items()}
    whole = to_decimal(total, digits).scaleb(digits).to_integral_value(ROUND_FLOOR)
    missing = int(whole) - sum(floors.values())
    by_remainder = sorted(exact, key=lambda name: (floors[name] - exact[name], name))
    for name in by_remainder[: max(0, missing)]:
        floors[name] += 1
    return {name: Decimal(count).scaleb(-digits) for name, count in floors.items()}
