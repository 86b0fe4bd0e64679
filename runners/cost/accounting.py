"""Who spent what: a session's money shared among the runs that held its GPUs. Pure and exact.

Every card of the machine costs its part of the rate at every nanosecond. A GPU that one run holds
is paid by that run; one that k runs share is paid by each with a k-th, a part of a card by its
fraction, and what nobody holds is idle money. So shares and idle always add up to the total, as
fractions; only what is shown is rounded, and so that the cents add up too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import msgspec

from runners.cost.rates import HOUR_NS, SECOND_NS

_MOST_DAYS = 3660
MACHINE = "machine"
"""What a run without GPUs holds on a machine that has none."""


class Usage(msgspec.Struct, frozen=True):
    """The GPUs (UUIDs) that a run held from one nanosecond to another.

    For those that are not whole cards, `parts` names the card, and the numerator and denominator
    of the fraction.
    """

    run: str
    gpus: tuple[str, ...]
    start: int
    end: int
    parts: Mapping[str, tuple[str, int, int]] = {}


class Period(msgspec.Struct, frozen=True):
    """A billing period: nanoseconds, dollars per hour of the whole machine, number of cards.

    The number is 1 for a machine without cards. A provider bills begun units of `unit` nanoseconds,
    and at least `minimum`; 0 where it bills by the nanosecond, or where nobody has looked it up.
    """

    start: int
    end: int
    rate: Decimal
    gpus: int
    unit: int = 0
    minimum: int = 0

    @property
    def lasted(self) -> int:
        """Nanoseconds from its start to its end."""
        return max(0, self.end - self.start)

    @property
    def total(self) -> Fraction:
        """Dollars from its start to its end, begun units billed as whole ones."""
        billed = self.lasted
        if billed and self.unit:
            # Negated floor division rounds up, and stays in whole numbers.
            billed = -(-billed // self.unit) * self.unit
        if billed:
            billed = max(billed, self.minimum)
        return Fraction(self.rate) * billed / HOUR_NS


class Account(msgspec.Struct, frozen=True):
    """A period's money: `shares` by run and `idle` are `total`; a shared GPU's hours are split.

    `lasted` is how long it was, in nanoseconds.
    """

    total: Fraction
    shares: dict[str, Fraction]
    idle: Fraction
    gpu_hours: dict[str, Fraction]
    lasted: int

    @property
    def lasted_s(self) -> float:
        """How long the period was, in seconds."""
        return self.lasted / 1e9

    @property
    def idle_rounded(self) -> Decimal:
        """Idle money to six places: the rounded total less the shares, each rounded by itself.

        Never negative: shares that were all rounded up may come to a little more than the total.
        """
        shares = (to_decimal(share) for share in self.shares.values())
        return max(to_decimal(self.total) - sum(shares, Decimal(0)), Decimal(0))


_Sums = dict[tuple[str, int, int], int]
"""Nanoseconds by run, numerator and denominator."""


def apportion(period: Period, holdings: Iterable[Usage]) -> Account:
    """Share the money of `period` among the runs that held GPUs in it."""
    changes = _changes(period, holdings)
    came = [usage for arrivals, _ in changes.values() for usage in arrivals]
    cards = {card for usage in came for card in usage.gpus}
    rate = Fraction(period.rate) / HOUR_NS
    # Nearly every session has whole cards only, for which whole numbers do, and are much faster.
    if len(cards) <= period.gpus and not any(usage.parts for usage in came):
        held, scale = _sweep_cards(changes)
        each = rate / (scale * period.gpus)
        shares = {run: each * amount for run, amount in held.items()}
        gpu_hours = {run: Fraction(amount, scale * HOUR_NS) for run, amount in held.items()}
        together = each * sum(held.values())
        # Idle is what the shares leave, not a sum of its own: the parts add up by construction.
        return Account(period.total, shares, period.total - together, gpu_hours, period.lasted)
    parts, hours = _sweep_parts(period, changes)
    shares = {run: rate * amount for run, amount in _add_up(parts).items()}
    gpu_hours = {run: amount / HOUR_NS for run, amount in _add_up(hours).items()}
    idle = period.total - add_fractions(shares.values())
    return Account(period.total, shares, idle, gpu_hours, period.lasted)


_Changes = dict[int, tuple[list[Usage], list[Usage]]]
"""Who came and who went, by moment."""


def _changes(period: Period, holdings: Iterable[Usage]) -> _Changes:
    changes: _Changes = {}
    for holding in holdings:
        start, end = max(holding.start, period.start), min(holding.end, period.end)
        if start < end and holding.gpus:
            changes.setdefault(start, ([], []))[0].append(holding)
            changes.setdefault(end, ([], []))[1].append(holding)
    return dict(sorted(changes.items()))


def _sweep_cards(changes: _Changes) -> tuple[dict[str, int], int]:
    """How long each run held whole cards, in parts of nanoseconds, and how many make one.

    A card held by k runs gives each a k-th of its time. Each card keeps how much it has given to
    each of its holders; a run gets what that grew by while it was there. So a moment costs as much
    as what changes in it, however many runs are there, and all sums are whole numbers.
    """
    # A multiple of every number of sharers that occurs: divided by any, nothing remains.
    scale = math.lcm(*range(1, _most_sharers(changes) + 1))
    found: dict[str, int] = {}
    held: dict[str, int] = {}
    since: dict[str, int] = {}
    given: dict[str, int] = {}
    for moment, (came, went) in changes.items():
        # Departures first: a run that begins when another ends does not share the card with it.
        for leaves, holdings in ((True, went), (False, came)):
            for holding in holdings:
                amount = 0
                for card in holding.gpus:
                    sharers = held.get(card, 0)
                    if sharers:
                        grown = (moment - since[card]) * (scale // sharers)
                        given[card] = given.get(card, 0) + grown
                    since[card] = moment
                    held[card] = sharers - 1 if leaves else sharers + 1
                    amount += given.get(card, 0)
                # What was given before it came is taken off, what was given when it went added.
                found[holding.run] = found.get(holding.run, 0) + (amount if leaves else -amount)
    return found, scale


def _most_sharers(changes: _Changes) -> int:
    """By how many at once any card was held."""
    held: dict[str, int] = {}
    most = 1
    for came, went in changes.values():
        for holding in went:
            for card in holding.gpus:
                held[card] -= 1
        for holding in came:
            for card in holding.gpus:
                held[card] = held.get(card, 0) + 1
                most = max(most, held[card])
    return most


def idle_of_cards(period: Period, holdings: Iterable[Usage]) -> Fraction | None:
    """Idle money by how long each card was held, without billed units; None for parts."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for holding in holdings:
        start, end = max(holding.start, period.start), min(holding.end, period.end)
        if holding.parts:
            return None
        if start < end:
            for card in holding.gpus:
                spans.setdefault(card, []).append((start, end))
    if len(spans) > period.gpus:
        return None
    held = 0
    for found in spans.values():
        until = period.start
        # Overlapping spans of one card count once: `until` is how far it is counted already.
        for start, end in sorted(found):
            held += max(0, end - max(start, until))
            until = max(until, end)
    idle = period.gpus * (period.end - period.start) - held
    return Fraction(period.rate) * Fraction(idle, period.gpus * HOUR_NS)


def _sweep_parts(period: Period, changes: _Changes) -> tuple[_Sums, _Sums]:
    """As `_sweep_cards`, where parts of cards are held: moment by moment, for all who are there."""
    parts: _Sums = {}
    hours: _Sums = {}
    held: dict[str, int] = {}
    present: list[Usage] = []
    before = period.start
    for moment, (came, went) in changes.items():
        _share_out(present, held, period.gpus, moment - before, parts, hours)
        before = moment
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
    return parts, hours


def _share_out(
    present: Sequence[Usage],
    held: Mapping[str, int],
    gpus: int,
    nanoseconds: int,
    parts: _Sums,
    hours: _Sums,
) -> None:
    """Count `nanoseconds` in which nothing changed; parts that exceed a card are scaled to one."""
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
    # More cards were held than the session knows of: the rate is then divided among those.
    machine = max(gpus, len(filled))
    for holding in present:
        for gpu in holding.gpus:
            card, fraction = fractions[gpu]
            each = fraction / max(Fraction(1), filled[card]) / held[gpu]
            for sums, part in ((parts, each / machine), (hours, each)):
                key = (holding.run, part.numerator, part.denominator)
                sums[key] = sums.get(key, 0) + nanoseconds


def _add_up(parts: _Sums) -> dict[str, Fraction]:
    """Nanoseconds by run and fraction as one fraction for each run."""
    by_run: dict[str, list[tuple[int, int]]] = {}
    for (run, numerator, denominator), nanoseconds in parts.items():
        by_run.setdefault(run, []).append((nanoseconds * numerator, denominator))
    return {run: sum_exactly(amounts) for run, amounts in by_run.items()}


def sum_exactly(amounts: Iterable[tuple[int, int]]) -> Fraction:
    """The sum of numerators over denominators, as whole numbers: far faster than fractions."""
    sums: dict[int, int] = {}
    for numerator, denominator in amounts:
        sums[denominator] = sums.get(denominator, 0) + numerator
    common = math.lcm(*sums) if sums else 1
    return Fraction(sum(sums[below] * (common // below) for below in sums), common)


def add_fractions(amounts: Iterable[Fraction]) -> Fraction:
    """The sum of many fractions."""
    return sum_exactly((amount.numerator, amount.denominator) for amount in amounts)


def added(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """The sums of both by name."""
    return {
        name: first.get(name, Fraction(0)) + second.get(name, 0) for name in {**first, **second}
    }


def local_days(start: int, end: int) -> list[tuple[str, int, int]]:
    """Local calendar days from `start` to `end` (unix ns), 23 to 25 h each: date, start, end.

    After ten years, which only a damaged file has, the last of them takes in the rest.
    """
    days: list[tuple[str, int, int]] = []
    while start < end:
        if len(days) == _MOST_DAYS:
            day, began, _ = days[-1]
            days[-1] = (day, began, end)
            break
        today = datetime.fromtimestamp(start // SECOND_NS).date()
        tomorrow = today + timedelta(days=1)
        # A date without a zone is local: the zone's own rules say when its midnight was.
        midnight = (
            int(datetime(tomorrow.year, tomorrow.month, tomorrow.day).timestamp()) * SECOND_NS
        )
        until = min(end, midnight) if midnight > start else end
        # A zone that leaves out a day could put midnight behind the start: never go back.
        days.append((today.isoformat(), start, until))
        start = until
    return days


def to_decimal(amount: Fraction, digits: int = 6) -> Decimal:
    """`amount` as a decimal number with `digits` places, rounded half up."""
    # In whole numbers: Decimal division would round once more, at its own precision.
    scale = 10**digits
    whole = (2 * amount.numerator * scale + amount.denominator) // (2 * amount.denominator)
    return Decimal(whole).scaleb(-digits)


def round_to_sum(
    total: Fraction, parts: Mapping[str, Fraction], digits: int = 2
) -> dict[str, Decimal]:
    """`parts` of `total`, rounded to add up: down, then the greatest remainders up, by name."""
    exact = {name: amount * 10**digits for name, amount in parts.items()}
    floors = {name: amount.numerator // amount.denominator for name, amount in exact.items()}
    whole = to_decimal(total, digits).scaleb(digits).to_integral_value(ROUND_FLOOR)
    missing = int(whole) - sum(floors.values())
    by_remainder = sorted(exact, key=lambda name: (floors[name] - exact[name], name))
    for name in by_remainder[: max(0, missing)]:
        floors[name] += 1
    return {name: Decimal(count).scaleb(-digits) for name, count in floors.items()}
