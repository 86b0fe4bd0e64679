"""What a planned run should take and cost, and the limits that end it."""

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import msgspec

from runners.cost.estimate import forecast
from runners.cost.prices import choose_price
from runners.cost.rates import device_count, hourly_rate
from runners.cost.sessions import read_session
from runners.model.errors import WrongInput
from runners.model.gpus import GpuReading
from runners.model.plan import Estimate, on_all_nodes
from runners.model.spec import Price, RunSpec
from runners.model.units import duration_text
from runners.scheduling.allocation import Allocation
from runners.slurm.options import keys_of, ladder_s
from runners.state.layout import StateDirectory
from runners.watch.metrics.checkpoint_place import epochs_done

_DEFAULT_LIMIT = 1.3
"""A time limit of a job that is not given is this much of the estimate, and its stop ladder."""


class PlanCosts(NamedTuple):
    """The spec with its job's time limit, its estimate, its limits, and what to say of them."""

    spec: RunSpec
    forecast: Estimate | None
    limit: "_Limit"
    notes: tuple[str, ...]


class _Limit(NamedTuple):
    """After how long a run is stopped, the dollars that are spent then, and what to say of it."""

    seconds: float | None = None
    usd: str = ""
    note: str = ""


def plan_costs(
    state: StateDirectory,
    spec: RunSpec,
    allocation: Allocation,
    reading: GpuReading | None,
    price: Price | None,
) -> PlanCosts:
    """What `spec` should take on its GPUs; while it waits, on such as it will be given.

    Raises WrongInput for a cost limit of a run without a price.
    """
    expected = estimate_on(state, spec, allocation, price)
    estimate_s = expected.seconds if expected else None
    limit = _limit(spec, price, _devices(spec, allocation))
    placed, placed_note = with_time_limit(spec, estimate_s)
    notes = (
        limit.note,
        *_price_notes(state, spec, reading),
        placed_note,
        _late_note(limit.seconds, placed, estimate_s),
    )
    return PlanCosts(placed, expected, limit, tuple(filter(None, notes)))


def estimate_on(
    state: StateDirectory, spec: RunSpec, allocation: Allocation, price: Price | None
) -> Estimate | None:
    """What `spec` should take on the GPUs that it was given, or should be."""
    is_unknown = price is not None and price.per == "unit" and not price.units
    known = None if is_unknown else price
    gpus, done = allocation.gpus or allocation.awaited, epochs_done(spec)
    devices = _devices(spec, allocation)
    return forecast(state, spec, gpus, known, devices, done, allocation.asked)


def _devices(spec: RunSpec, allocation: Allocation) -> Fraction:
    """How many GPUs they are to a bill, over all nodes."""
    given = on_all_nodes(allocation.expected(spec.gpus.share_memory), spec.node)
    # Of GPUs that nobody has seen yet, as on a cluster, the number that is asked for.
    several = spec.node.count if spec.node is not None and spec.node.by_slurm else 1
    return device_count(given) or Fraction(allocation.asked * several)


def _limit(spec: RunSpec, price: Price | None, gpus: Fraction) -> _Limit:
    """The earlier of the time limit and the moment at which the cost limit is spent."""
    seconds, usd = spec.limits.seconds, spec.limits.usd
    if usd is None:
        return _Limit(seconds)
    if price is None:
        raise WrongInput(
            "limits.cost: the run has no price", "give the preset a price, or use --price"
        )
    rate, note = hourly_rate(price, gpus), ""
    if price.basis != "session" and not price.is_paid:
        text = f"no session is open, it limits what the run would cost at ${rate:,}/h"
        if not rate:
            text = "a run on the CPU costs nothing, it is never reached"
        note = f"limits.cost: {text}"
    # A run on the CPU of a GPU session costs nothing, and reaches no limit.
    spent = float(Decimal(usd) / rate * 3600) if rate else None
    if spent is None or (seconds is not None and seconds <= spent):
        return _Limit(seconds, "", note)
    return _Limit(spent, usd, note)


def with_time_limit(spec: RunSpec, estimate_s: float | None) -> tuple[RunSpec, str]:
    """`spec` with a time limit for its job where it has none, and what to say of that."""
    keys = keys_of(spec)
    if keys is None or keys.time is not None or not estimate_s:
        return spec, ""
    # The ladder begins before the limit: what it takes is no time to train in.
    keys = msgspec.structs.replace(keys, time=estimate_s * _DEFAULT_LIMIT + ladder_s(spec))
    place = msgspec.structs.replace(spec.place, slurm=keys)
    text = (
        f"time limit of the job: {_DEFAULT_LIMIT:g} × its estimate, and its stop ladder; "
        "place.slurm.time sets it"
    )
    return msgspec.structs.replace(spec, place=place), text


def _late_note(limit_s: float | None, spec: RunSpec, estimate_s: float | None) -> str:
    """What to say of a run that is ended by a limit before it is done, by its estimate."""
    keys = spec.place.slurm
    limits = [limit_s, keys.time if keys is not None else None]
    known = [limit for limit in limits if limit is not None]
    if estimate_s is None or not known or estimate_s <= min(known):
        return ""
    limit, needs = duration_text(min(known)), duration_text(estimate_s)
    return f"its limit ends it after {limit}, and it needs {needs} by its estimate"


def _price_notes(
    state: StateDirectory, spec: RunSpec, reading: GpuReading | None
) -> tuple[str, ...]:
    """That --price changes nothing in a session, and what speaks against it on these GPUs."""
    if spec.price is None or spec.price_basis != "flag":
        return ()
    notes = []
    if read_session(state) is not None:
        notes.append("--price: the run pays its share of the open session, whatever its price")
    price = choose_price(spec.price, "flag")
    if price.name and reading is not None and price.per != "unit":
        from runners.cost.opening import rate_caveat  # only where it was given by name

        notes.append(rate_caveat(price.name, price.per, reading))
    return tuple(filter(None, notes))


def price_of(state: StateDirectory, spec: RunSpec) -> Price | None:
    """What the run will pay: by the session, else what it would by its own. Raises WrongInput."""
    if keys_of(spec) is not None:
        from runners.presets.reading.user_settings import read_settings  # only clusters have one

        # For what was allocated, from when a job begins. How many units a job is billed as
        # (`billing` of its AllocTRES) is known when it has begun.
        charged = read_settings().slurm.price
        if charged.per_billing_hour is not None:
            return Price(charged.per_billing_hour, "unit", "cluster")
        if charged.per_gpu_hour is not None:
            return Price(charged.per_gpu_hour, "gpu", "cluster")
    session = read_session(state)
    # One given by hand too says only what it would cost, and yet has to make sense.
    by_hand = None
    if spec.price is not None and spec.price_basis == "flag":
        by_hand = choose_price(spec.price, "flag")
    if session is not None:
        return session.price_per_gpu
    if by_hand is not None:
        return by_hand
    if spec.price is None:
        return None
    try:
        return choose_price(spec.price, spec.price_basis)
    except WrongInput as error:
        raise WrongInput(f"price: {error.message}", error.hint) from None
