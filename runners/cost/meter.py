"""The cost meter: what is being spent, in Decimal; always an estimate of GPU time alone."""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import msgspec

from runners.cost.accounting import to_decimal
from runners.cost.rates import HOUR_S, billed_seconds
from runners.cost.run_costs import Costs
from runners.cost.sessions import Session
from runners.host.clock import LAST_MOMENT, Moment
from runners.model.run import Run


class Meter(msgspec.Struct, frozen=True):
    """What is being spent, in dollars; `None` where no rate is known.

    `session` is the open session's total, `idle` the part of it that no run held.
    `until` (unix seconds) is when its budget will have been spent; None when that is
    after the last possible date.
    """

    per_hour: Decimal | None
    session: Decimal | None
    live_runs: Decimal | None
    budget_left: Decimal | None
    basis: str
    idle: Decimal | None = None
    until: float | None = None
    old_price: str = ""
    caveat: str = ""
    """What speaks against the session's rate, in words: a price that does not fit the machine."""
    lasted_s: float = 0.0
    """How long the session has lasted, by the clock that its money goes by."""

    @property
    def spent(self) -> Decimal | None:
        """What the session has cost; without one, what the live runs have."""
        return self.session if self.session is not None else self.live_runs


def read_meter(runs: Iterable[Run], costs: Costs) -> Meter:
    """The meter over live runs and the open session, whose rate is for the whole machine."""
    live = [run for run in runs if run.is_live]
    session, account = costs.session, costs.account
    spent = [costs.spent[run.id] for run in live if run.id in costs.spent]
    live_runs = to_decimal(sum(spent, Fraction(0))) if spent else None
    if session is None or account is None:
        # Nothing is known to be rented here: a price alone is no money that is spent.
        basis = "no session is open: nothing is counted"
        if any(run.plan is not None and run.plan.price and run.plan.price.is_paid for run in live):
            basis = "Slurm jobs, by what they were given and its price in settings.yaml"
        return Meter(None, None, live_runs, None, basis)
    total = to_decimal(account.total)
    left = None if session.budget is None else Decimal(session.budget) - total
    return Meter(
        per_hour=session.rate,
        session=total,
        live_runs=live_runs,
        budget_left=left,
        basis=session.describe(),
        idle=account.idle_rounded,
        until=spent_at(session, left, costs.now, account.lasted_s),
        old_price=session.old_price,
        caveat=session.caveat,
        lasted_s=account.lasted_s,
    )


def spent_at(session: Session, left: Decimal | None, now: Moment, lasted_s: float) -> float | None:
    """When (unix s) the budget is spent at the session's rate; None without these, or past 9999.

    Where units of time are bought: when the first begins that the budget does not pay.
    """
    if left is None or not session.rate:
        return None
    seconds = max(left, Decimal(0)) / session.rate * HOUR_S
    unit = session.price.unit_s
    if unit:
        seconds = seconds // unit * unit
    # What is bought already lasts to its end, whatever is left.
    bought = max(0.0, billed_seconds(session.price, lasted_s) - lasted_s) if left >= 0 else 0.0
    moment = now.wall + bought + float(seconds)
    return moment if moment < LAST_MOMENT else None
