"""Which of several machines a run starts on. Pure: judges what the machines answered."""

from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from runners.model.units import counted


class Fit(str, Enum):
    """What a machine says of a run: it starts now, it has to wait, it can never run there.

    Of a machine that is not reached, or does not answer, nothing is known.
    """

    FREE = "free"
    BUSY = "busy"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


class Offer(NamedTuple):
    """One machine's answer. `rate` is US dollars per hour for the run, None where not known.

    `left` is how many of its GPUs would still be free, `waiting` how many runs of several would
    wait in the machine's own queue, while others start.
    """

    machine: str
    fit: Fit
    reason: str = ""
    rate: Decimal | None = None
    left: int = 0
    waiting: int = 0


class MachineChoice(NamedTuple):
    """The machine, or None; what decided, in words; and whether some of its runs wait there."""

    machine: str | None
    reason: str
    waits: bool = False


def choose(offers: Sequence[Offer]) -> MachineChoice:
    """The cheapest of the machines on which a run can start now; of several runs as many as can.

    Of machines that cost the same, the one that is fullest then: large requests find room on the
    others.
    """
    free = [offer for offer in offers if offer.fit is Fit.FREE]
    if not free:
        reasons = [f"{offer.machine}: {offer.reason}" for offer in offers]
        return MachineChoice(None, "; ".join(reasons) or "no machine is set up")
    best = min(free, key=_order)
    free = [offer for offer in free if offer.waiting == best.waiting]
    others = len(free) - 1
    rate = "no price is known" if best.rate is None else f"${best.rate:,.2f}/h"
    if not others:
        why = f"{rate}, the only one that is free"
    elif all(offer.rate == best.rate for offer in free):
        why = f"{rate}, as on {others} more, and the fewest GPUs are left there"
    else:
        why = f"{rate}, the cheapest of {len(free)} that are free"
    rest = f"; {len(offers) - len(free)} not free" if len(free) < len(offers) else ""
    waits = f"; {counted(best.waiting, 'run')} will wait there" if best.waiting else ""
    return MachineChoice(best.machine, f"{best.machine}: {why}{rest}{waits}", bool(best.waiting))


def kept_by(offers: Sequence[Offer]) -> set[str]:
    """The machines that a waiting run keeps from those behind it: those it may yet start on."""
    return {offer.machine for offer in offers if offer.fit in (Fit.BUSY, Fit.FREE)}


def is_hopeless(offers: Sequence[Offer]) -> bool:
    """Whether every machine has answered, and the run can start on none, ever."""
    return bool(offers) and all(offer.fit is Fit.UNFIT for offer in offers)


def _order(offer: Offer) -> tuple[int, bool, Decimal, int, str]:
    # One without a price is not free of charge: it comes after those whose price is known.
    rate = offer.rate or Decimal(0)
    return offer.waiting, offer.rate is None, rate, offer.left, offer.machine
