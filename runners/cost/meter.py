"""The cost meter: money in Decimal, from seconds and a rate. Always an estimate of GPU time
alone.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import msgspec

from runners.cost.accounting import Account, to_decimal
from runners.cost.sessions import Session
from runners.host.clock import Moment
from runners.model.run import Run
from runners.model.spec import Price

_HOUR = Decimal(3600)


def hourly_rate(price: Price, gpus: int) -> Decimal:
    """Dollars per hour for a run that holds `gpus` GPUs; a run on the CPU counts as one."""
    rate = Decimal(price.usd_per_hour)
    return rate * max(gpus, 1) if price.per == "gpu" else rate


def money(rate: Decimal, seconds: float) -> Decimal:
    """Dollars for `seconds` at `rate` per hour, unrounded."""
    return rate * Decimal(repr(seconds)) / _HOUR


def cents(amount: Decimal) -> Decimal:
    """`amount` rounded to the cent, halves up."""
    return amount.quantize(Decimal("0.01"), ROUND_HALF_UP)


def run_rate(run: Run) -> Decimal | None:
    """What a run costs per hour while it runs; None when no price is known."""
    if run.plan is None or run.plan.price is None:
        return None
    return hourly_rate(run.plan.price, len(run.plan.gpus))


def run_hourly_rate(run: Run) -> float | None:
    """Return what a run costs per hour in US dollars, as a float for curves; None when no price is
    known.
    """
    rate = run_rate(run)
    return None if rate is None else float(rate)


def run_cost(run: Run, now: Moment | float) -> Decimal | None:
    """What a run has cost so far at its own price; None when it has none or never started."""
    rate, seconds = run_rate(run), run.seconds(now)
    return None if rate is None or seconds is None else money(rate, seconds)


def projected_cost(run: Run, eta_s: float | None, now: Moment | float) -> Decimal | None:
    """What a run will have cost at its end if its ETA holds; None when either is unknown."""
    rate, so_far = run_rate(run), run_cost(run, now)
    return None if rate is None or so_far is None or eta_s is None else so_far + money(rate, eta_s)


class Meter(msgspec.Struct, frozen=True):
    """What is being spent: dollars; `None` where no rate is known.

    `session` is the open session's total, `idle` what of it no run held, `shares` what the runs
    looked at held of it. `until` (unix seconds) is when its budget will have been spent.
    """

    per_hour: Decimal | None
    session: Decimal | None
    live_runs: Decimal | None
    budget_left: Decimal | None
    basis: str
    idle: Decimal | None = None
    shares: Mapping[str, Decimal] = {}
    until: float | None = None
    old_price: str = ""


def read_meter(
    runs: list[Run], session: Session | None, now: Moment | float, account: Account | None = None
) -> Meter:
    """The meter over live runs and the open session; the session's rate stands for the whole
    machine.

    With the session's `account`, what runs cost are their shares of it.
    """
    live = [run for run in runs if run.is_live]
    if session is None:
        rates = [rate for run in live if (rate := run_rate(run)) is not None]
        basis = (
            "live runs' own prices; no session is open"
            if rates
            else "no session is open and no run has a price"
        )
        return Meter(
            sum(rates, Decimal(0)) if rates else None, None, _sum_of(live, now), None, basis
        )
    spent = session.cost(now) if account is None else to_decimal(account.total)
    left = None if session.budget is None else Decimal(session.budget) - spent
    return Meter(
        per_hour=session.rate,
        session=spent,
        live_runs=_sum_of(live, now) if account is None else _shares_of(live, account),
        budget_left=left,
        basis=session.describe(),
        idle=None if account is None else to_decimal(account.idle),
        shares={} if account is None else _shares_by_run(runs, account),
        until=spent_at(session, left, now.wall if isinstance(now, Moment) else now),
        old_price=session.old_price,
    )


def spent_at(session: Session, left: Decimal | None, now: float) -> float | None:
    """When (unix seconds) the session's budget is spent at its rate; None without a budget or a
    rate.
    """
    if left is None or not session.rate:
        return None
    return now + float(max(left, Decimal(0)) / session.rate * _HOUR)


def _sum_of(live: list[Run], now: Moment | float) -> Decimal | None:
    costs = [cost for run in live if (cost := run_cost(run, now)) is not None]
    return sum(costs, Decimal(0)) if costs else None


def _shares_by_run(runs: list[Run], account: Account) -> dict[str, Decimal]:
    return {run.id: to_decimal(account.shares[run.id]) for run in runs if run.id in account.shares}


def _shares_of(live: list[Run], account: Account) -> Decimal | None:
    shares = [account.shares.get(run.id, Fraction(0)) for run in live if run.begin is not None]
    return to_decimal(sum(shares, Fraction(0))) if shares else None
