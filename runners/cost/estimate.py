"""What a run will take, before it is launched: by its preset's history, else its estimate.

Earlier runs count when they differ in nothing that costs time: the same parameters but for
those below, on as many GPUs of the same model. The number of epochs may differ: every epoch
after the first costs the same.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from runners.cost.ledger import RunEntry, recent_runs
from runners.cost.rates import hourly_rate, money
from runners.host.clock import seconds_between
from runners.model.plan import Estimate
from runners.model.spec import Parameter, Price, RunSpec
from runners.state.decoding import read
from runners.state.layout import RunDirectory, StateDirectory
from runners.watch.metrics.epoch_timing import median, read_epoch_timing

NEWEST_RUNS = 200
"""How many of the newest ended runs are looked at; of those that fit, `ENOUGH` are read."""
ENOUGH = 5
FREE = frozenset({"epochs", "seed", "lr", "resume", "name", "data_seed", "checkpoint_every"})
"""Parameters that change the result, not what a step costs."""


class _Spec(msgspec.Struct):
    parameters: tuple[Parameter, ...] = ()


class _Plan(msgspec.Struct):
    spec: _Spec


_plan = msgspec.json.Decoder(_Plan)


def forecast(
    state: StateDirectory,
    spec: RunSpec,
    gpus: Sequence[Any],
    price: Price | None,
    devices: Fraction | None = None,
) -> Estimate | None:
    """What `spec` should take on `gpus`, each with a `name`; None when nothing is known.

    `devices` is how many they are to a bill, when some are parts of a card.
    """
    model = ", ".join(sorted({str(gpu.name) for gpu in gpus})) or "CPU"
    wanted = {parameter.name: parameter.value for parameter in spec.parameters}
    epochs = _whole(wanted.get(_length_of(spec)))
    found: list[tuple[float, float | None]] = []
    for line in sorted(recent_runs(state), key=lambda line: line.run, reverse=True)[:NEWEST_RUNS]:
        if _is_like(line, spec, model, len(gpus)) and len(found) < ENOUGH:
            learned = _learn(state.run(line.run), line, wanted, epochs, _length_of(spec))
            found += [] if learned is None else [learned]
    billed = len(gpus) if devices is None else devices
    rate = None if price is None else hourly_rate(price, billed)
    if not found:
        doubt = ""
        if not gpus and spec.gpus.wants_gpus:
            doubt = "the preset's estimate is for a GPU, and this is the CPU"
            # What it would cost there: here, without GPUs, it costs nothing.
            wanted_gpus = len(spec.gpus.ids) or spec.gpus.number or 1
            rate = None if price is None else hourly_rate(price, wanted_gpus)
        return _by_word(spec, epochs, rate, doubt)
    # The median: one run on a busy machine, or with a cold cache, does not move it.
    seconds = median([total for total, _ in found])
    paces = [pace for _, pace in found if pace is not None]
    return Estimate(
        seconds,
        None if rate is None else str(round(money(rate, seconds), 6)),
        f"from {len(found)} earlier run{'s' if len(found) > 1 else ''} on {model}"
        + (" (simulated)" if any(getattr(gpu, "simulated", False) for gpu in gpus) else ""),
        len(found),
        epochs,
        median(paces) if paces else None,
    )


def _is_like(line: RunEntry, spec: RunSpec, model: str, gpus: int) -> bool:
    """True for an ended run of this preset on as many such GPUs."""
    # All bare commands have one preset, `command`, so they go by their names.
    same = line.preset == spec.preset and (spec.preset != "command" or line.name == spec.name)
    on_such = line.gpu_name == model and len(line.gpus) == gpus
    return same and on_such and line.state in ("done", "stopped", "failed")


def _learn(
    run: RunDirectory,
    line: RunEntry,
    wanted: Mapping[str, Any],
    epochs: int | None,
    length: str,
) -> tuple[float, float | None] | None:
    """Seconds that a run with `wanted` would take by this one, and per epoch; None if unknown."""
    plan = read(run.plan, _plan)
    if plan is None:
        return None
    parameters = {p.name: p.value for p in plan.spec.parameters}
    if _costly(parameters, length) != _costly(wanted, length) or line.finished is None:
        return None
    whole = seconds_between(line.began, line.finished)
    rhythm = read_epoch_timing(run.path)
    # A program may know its epochs without a parameter of that name.
    planned = epochs or rhythm.epochs
    if planned and rhythm.seconds_per_epoch is not None:
        first = rhythm.ends[0]
        if first[0] != 1:
            return None  # resumed: its first epoch was not the program's first
        # What follows the last epoch, such as an evaluation, is known of finished runs only.
        after = whole - (rhythm.ends[-1][1] - line.began.wall) if line.state == "done" else 0.0
        total = (
            (first[1] - line.began.wall)
            + rhythm.seconds_per_epoch * (planned - 1)
            + max(0.0, after)
        )
        return max(0.0, total), rhythm.seconds_per_epoch
    same_length = _whole(parameters.get(length)) == epochs
    return (whole, None) if line.state == "done" and same_length else None


def _costly(parameters: Mapping[str, Any], length: str) -> dict[str, Any]:
    free = FREE | {length}
    return {name: value for name, value in parameters.items() if name not in free}


def _length_of(spec: RunSpec) -> str:
    """The parameter that says how many epochs (or iterations) the run has."""
    return spec.total.parameter if spec.total is not None and spec.total.parameter else "epochs"


def _by_word(
    spec: RunSpec, epochs: int | None, rate: Decimal | None, doubt: str = ""
) -> Estimate | None:
    """The preset's own estimate, in proportion when another number of epochs is asked for."""
    word = spec.estimate
    if word.seconds is None and word.usd is None:
        return None
    default = next((_whole(p.default) for p in spec.parameters if p.name == _length_of(spec)), None)
    part = epochs / default if epochs and default else 1.0
    basis = "the preset's estimate" + (
        f" for {default:,} {_length_of(spec)}, in proportion" if part != 1.0 else ""
    )
    seconds = None if word.seconds is None else word.seconds * part
    # The hours are the author's, the rate is this machine's: dollars follow from both.
    if seconds is not None and rate is not None:
        usd: str | None = str(round(money(rate, seconds), 6))
    else:
        usd = None if word.usd is None else str(round(Decimal(word.usd) * Decimal(repr(part)), 6))
    doubts = "; ".join(filter(None, (doubt, word.doubt)))
    return Estimate(seconds, usd, basis, 0, epochs, None, doubts)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
