"""Whether a guard has a reason to act; what is not known is a problem, never a reason. Pure."""

from decimal import Decimal

import msgspec

from runners.cost.rates import billed_seconds, money
from runners.guard.rule import GuardRule
from runners.model.spec import Price
from runners.model.units import duration_text

_LONGEST_LOOK_S = 5.0


class Measurements(msgspec.Struct, frozen=True):
    """What is known at one moment: dollars, seconds; None where it could not be found out.

    `quiet_s` is how long no run was live (0 while one is); `idle` whether every GPU of every run
    that trains has idled for the rule's time, None when unknown; `unmeasured` are runs that train
    on GPUs of which no use is known, `problems` why something else is not known.
    """

    spent: Decimal | None = None
    rate: Decimal | None = None
    budget: Decimal | None = None
    age_s: float | None = None
    quiet_s: float | None = None
    idle: bool | None = None
    unmeasured: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    """Runs that wait, where nothing else is there: they may be granted what they wait for."""
    price: Price | None = None
    """The session's: which units of time are bought."""


def triggered(rule: GuardRule, facts: Measurements) -> tuple[str, ...]:
    """Why the guard must act; money and age are predicted, so that the countdown ends in time."""
    reasons = []
    limit = budget_limit(rule, facts.budget)
    if limit is not None and _will_be_spent(rule, facts, limit):
        reasons.append(f"budget: ${facts.spent:,.2f} of ${limit:,.2f} spent")
    if (
        rule.max_age_s is not None
        and facts.age_s is not None
        and facts.age_s + rule.countdown_s >= rule.max_age_s
    ):
        reasons.append(f"age: {duration_text(facts.age_s)} of {duration_text(rule.max_age_s)}")
    if rule.no_run_s is not None and facts.quiet_s is not None and facts.quiet_s >= rule.no_run_s:
        reasons.append(f"no run for {duration_text(facts.quiet_s)}")
    if rule.idle_s is not None and facts.idle:
        reasons.append(f"GPUs below 5 % for {duration_text(rule.idle_s)} while runs say they train")
    return tuple(reasons)


def _will_be_spent(rule: GuardRule, facts: Measurements, limit: Decimal) -> bool:
    """Whether the limit is reached by the countdown's end, or a unit begun by then breaks it."""
    spent, rate = facts.spent, facts.rate
    if spent is None or rate is None:
        return False
    if facts.price is None or facts.age_s is None or not facts.price.unit_s:
        return spent + money(rate, rule.countdown_s) >= limit
    # A unit begun is a unit paid: it must not even begin, not in the look after this one either.
    then = facts.age_s + rule.countdown_s + _LONGEST_LOOK_S
    bought = billed_seconds(facts.price, facts.age_s)
    more = billed_seconds(facts.price, then) - bought
    return spent + money(rate, more) > limit


def budget_limit(rule: GuardRule, budget: Decimal | None) -> Decimal | None:
    """The dollars at which the rule acts; None without a limit, or for a part of no budget."""
    if rule.budget_stop is None:
        return None
    if not rule.budget_stop.endswith("%"):
        return Decimal(rule.budget_stop)
    return None if budget is None else budget * Decimal(rule.budget_stop[:-1]) / 100


def is_blind(rule: GuardRule, facts: Measurements) -> bool:
    """True when nothing that the rule watches is known: the guard then never acts."""
    budget = facts.spent is None or budget_limit(rule, facts.budget) is None
    unknown = (
        (rule.budget_stop, budget),
        (rule.max_age_s, facts.age_s is None),
        (rule.no_run_s, facts.quiet_s is None),
        (rule.idle_s, bool(facts.unmeasured)),
    )
    return all(is_unknown for limit, is_unknown in unknown if limit is not None)


def find_problems(rule: GuardRule, facts: Measurements) -> tuple[str, ...]:
    """What the rule needs to know and does not."""
    found = list(facts.problems)
    if rule.budget_stop is not None and (
        facts.spent is None or budget_limit(rule, facts.budget) is None
    ):
        found.append(
            "the budget cannot be guarded: no session with a known rate and budget is open"
        )
    if rule.max_age_s is not None and facts.age_s is None:
        found.append("the age cannot be guarded: the session cannot be read")
    if rule.no_run_s is not None and facts.quiet_s is None:
        found.append("`no run` cannot be guarded: the runs cannot be read")
    if rule.no_run_s is not None and facts.queued and not facts.quiet_s:
        found.append(
            f"`no run` is held off by {', '.join(facts.queued)}: nothing runs, and what waits may "
            "wait for ever (`fresnel-tui queue` says for what)"
        )
    if rule.idle_s is not None and facts.unmeasured:
        found.append(
            f"idleness cannot be guarded for {', '.join(facts.unmeasured)}: the use of its GPUs is "
            "not measured (as of MIG instances, or while the sampler does not read them)"
        )
    # Each once: several triggers may lack the same thing.
    return tuple(dict.fromkeys(found))
