"""Sessions, budgets and rows of money in words and in JSON, the same for every front end."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from runners.cost.accounting import add_fractions, round_to_sum, to_decimal
from runners.cost.meter import Meter
from runners.cost.sessions import Session
from runners.cost.statement import Statement
from runners.guard.rule import GuardView
from runners.host.clock import Moment, time_of_day
from runners.model.plan import Estimate
from tui.views.format import dollars, duration
from tui.views.json_values import iso, number
from tui.views.money.guard_text import guard_text


def session_pairs(
    meter: Meter, session: Session | None, now: Moment, guard: GuardView
) -> list[tuple[str, str]]:
    """The meter as names and values, for `cost` and `session`."""
    known = " (estimate)" if meter.per_hour is not None else ""
    is_over = session is not None and session.end is not None
    pairs = [("rate" if is_over else "now", f"{dollars(meter.per_hour)}/h{known}")]
    if session is not None:
        idle = "" if meter.idle is None else f" (idle {dollars(meter.idle)})"
        lasted = duration(meter.lasted_s)
        pairs.append(("session", f"{dollars(meter.session)} in {lasted}{idle}"))
        where = " ".join(filter(None, (session.provider, session.instance)))
        pairs += [("machine", where)] if where else []
    if session is not None and session.budget is not None and meter.budget_left is not None:
        pairs.append(("budget", _budget_text(Decimal(session.budget), meter, now)))
    pairs.append(("live runs", dollars(meter.live_runs)))
    pairs.append(("price from", meter.basis))
    if meter.caveat:
        pairs.append(("caveat", f"⚠ {meter.caveat}"))
    if session is not None and session.stopping:
        pairs.append(("stopping", session.stopping))
    guarded = guard_text(guard, now)
    return [*pairs, *([("guard", guarded)] if guarded else [])]


def total_text(meter: Meter) -> str:
    """What a session has come to: `$1.73 in 1h02m, $48.27 under its budget`."""
    text = f"{dollars(meter.session)} in {duration(meter.lasted_s)}"
    if meter.budget_left is not None:
        left = meter.budget_left
        text += f", {dollars(abs(left))} {'under' if left >= 0 else 'over'} its budget"
    return text


def _budget_text(budget: Decimal, meter: Meter, now: Moment) -> str:
    left = meter.budget_left or Decimal(0)
    if left <= 0:
        return f"{dollars(budget)} used up, {dollars(-left)} over it"
    if meter.until is None:
        return f"{dollars(left)} left of {dollars(budget)}"
    until = time_of_day(meter.until, now.wall)
    lasts = duration(meter.until - now.wall)
    return f"{dollars(left)} left of {dollars(budget)}, until {until} (lasts {lasts})"


def cells(total: Fraction, parts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts that make up `total` as cells of one table, whose cents add up."""
    rounded = round_to_sum(total, parts)
    return {
        name: "<$0.01" if not amount and parts[name] > 0 else dollars(amount)
        for name, amount in rounded.items()
    }


def meter_json(meter: Meter, session: Session | None) -> dict[str, Any]:
    """The meter and the open session."""
    return {
        "usd_per_hour": number(meter.per_hour),
        "session_usd": number(meter.session),
        "session_started": iso(session.started) if session else None,
        "idle_usd": number(meter.idle),
        "live_runs_usd": number(meter.live_runs),
        "budget_usd": None if session is None or session.budget is None else float(session.budget),
        "budget_left_usd": number(meter.budget_left),
        "budget_lasts_until": iso(meter.until),
        "basis": meter.basis,
        "caveat": meter.caveat or None,
        "price_source": session.price.source or None if session else None,
        "price_date": session.price.date or None if session else None,
        "price_is_old": meter.old_price or None,
        "billed_per_s": session.price.unit_s or None if session else None,
        "billed_at_least_s": session.price.minimum_s or None if session else None,
        "provider": session.provider or None if session else None,
        "instance": session.instance or None if session else None,
        "stopping": session.stopping or None if session else None,
    }


def session_json(session: Session, statement: Statement) -> dict[str, Any]:
    """One session, open or ended, with its money; its moments as corrected clocks have them."""
    account, period = statement.account(session), statement.period(session)
    return {
        "id": session.id,
        "started": iso(period.start / 1e9),
        "ended": None if session.end is None else iso(period.end / 1e9),
        "gpus": session.gpus,
        "usd_per_hour": number(session.rate),
        "usd": number(to_decimal(account.total)),
        "idle_usd": number(account.idle_rounded),
        "gpu_hours": number(to_decimal(add_fractions(account.gpu_hours.values()))),
    }


def estimate_json(expected: Estimate) -> dict[str, Any]:
    """An estimate before launch."""
    return {
        "seconds": expected.seconds,
        "usd": None if expected.usd is None else float(Decimal(expected.usd)),
        "basis": expected.basis,
        "caveat": expected.doubt or None,
    }
