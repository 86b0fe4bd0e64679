"""The cost meter: money in Decimal, from seconds and a rate. Always an estimate of GPU time alone."""

from decimal import ROUND_HALF_UP, Decimal

import msgspec

from runners.cost.sessions import Session
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


def run_cost(run: Run, now: float) -> Decimal | None:
    """What a run has cost so far; None when it has no price or never started."""
    rate, seconds = run_rate(run), run.seconds(now)
    return None if rate is None or seconds is None else money(rate, seconds)


def projected_cost(run: Run, eta_s: float | None, now: float) -> Decimal | None:
    """What a run will have cost at its end if its ETA holds; None when either is unknown."""
    rate, so_far = run_rate(run), run_cost(run, now)
    return None if rate is None or so_far is None or eta_s is None else so_far + money(rate, eta_s)


class Meter(msgspec.Struct, frozen=True):
    """What is being spent: dollars; `None` where no rate is known."""

    per_hour: Decimal | None
    session: Decimal | None
    live_runs: Decimal | None
    budget_left: Decimal | None
    basis: str


def read_meter(runs: list[Run], session: Session | None, now: float) -> Meter:
    """The meter over live runs and the open session; the session's rate stands for the whole machine."""
    live = [run for run in runs if run.is_live]
    costs = [cost for run in live if (cost := run_cost(run, now)) is not None]
    live_cost = sum(costs, Decimal(0)) if costs else None
    if session is not None:
        spent = session.cost(now)
        left = None if session.budget is None else Decimal(session.budget) - spent
        return Meter(session.rate, spent, live_cost, left, session.describe())
    rates = [rate for run in live if (rate := run_rate(run)) is not None]
    basis = "live runs' own prices; no session is open" if rates else "no session is open and no run has a price"
    return Meter(sum(rates, Decimal(0)) if rates else None, None, live_cost, None, basis)
