"""Batch size and learning rate when the number of GPUs changes: offered, never changed silently.

Linear rule: Goyal et al., "Accurate, Large Minibatch SGD", 2017 (arXiv:1706.02677), who warm up
over five epochs. Square root rule: Krizhevsky, "One weird trick for parallelizing convolutional
neural networks", 2014 (arXiv:1404.5997).
"""

import math

import msgspec

from runners.model.parameters import with_values
from runners.model.spec import RunSpec, ScalingRule

WARM_UP_ABOVE = 4.0
"""Growth of the batch from which a warm-up is advised."""
WARN_ABOVE = 10.0
"""Growth of the batch above which neither rule is to be trusted."""
FEW_EACH = 4
"""Samples on a device below which gradients get noisy and GPUs idle."""
LARGE_BATCH = 1024
"""Samples in all above which the linear rule was seen to need more than a warm-up (Goyal et al.,
section 5.1, saw it hold up to 8,192 only with their warm-up; the guides say 1,024).
"""
_TOLERANCE = 0.02


class Batch(msgspec.Struct, frozen=True):
    """A spec's batch on `devices` devices: samples each, samples in all, and the learning rate.

    `growth` is the batch in all against the one whose learning rate is known; `wanted` the rate
    that the rule gives.
    """

    devices: int
    each: float
    total: int
    rate: float | None
    wanted: float | None
    growth: float | None


def batch_of(spec: RunSpec, devices: int, rule: ScalingRule | None = None) -> Batch | None:
    """The batch of `spec` on `devices` devices; None when the preset says nothing of scaling."""
    scaling = spec.scaling
    number = None if scaling is None else _number(spec, scaling.batch)
    # 0 and -1 are many programs' word for a batch that they choose.
    if scaling is None or number is None or not 1 <= number < math.inf:
        return None
    devices = max(1, devices)
    total = int(number) if scaling.per == "global" else int(number) * devices
    growth = total / scaling.base_batch if scaling.base_batch else None
    wanted = None
    rule = rule or scaling.rule
    if growth is not None and scaling.base_rate is not None and rule != "none":
        wanted = _scale(scaling.base_rate, growth, rule)
    rate = _number(spec, scaling.learning_rate)
    if rate is not None and growth is not None and scaling.rule == "program":
        rate *= growth
    return Batch(devices, total / devices, total, rate, wanted, growth)


def usual_batch(spec: RunSpec, devices: int) -> Batch | None:
    """The batch by the preset's own values on `devices` devices."""
    if spec.scaling is None:
        return None
    # The other defaults, null where nobody set them, do not matter here.
    names = (spec.scaling.batch, spec.scaling.learning_rate)
    defaults = {
        parameter.name: parameter.default
        for parameter in spec.parameters
        if parameter.name in names
    }
    return batch_of(with_values(spec, defaults), devices)


def rescaled(
    spec: RunSpec, before: int, devices: int, rule: ScalingRule | None = None
) -> dict[str, int | float]:
    """The parameters to change, by name, to keep the samples on each of `before` devices.

    The learning rate follows the batch in all by the rule; a program that scales by itself keeps
    its own. What a person has set stays: only parameters that still have the preset's value are
    changed.
    """
    scaling, now = spec.scaling, batch_of(spec, before, rule)
    if scaling is None or now is None:
        return {}
    each = max(1, round(now.each))
    batch = each * devices if scaling.per == "global" else each
    changed = with_values(spec, {scaling.batch: batch})
    after = batch_of(changed, devices, rule)
    changes: dict[str, int | float] = {scaling.batch: batch}
    wanted = None if after is None else after.wanted
    if scaling.learning_rate and wanted is not None and (rule or scaling.rule) != "program":
        changes[scaling.learning_rate] = wanted
    untouched = {item.name: item.value for item in spec.parameters if item.value == item.default}
    return {name: value for name, value in changes.items() if untouched.get(name, value) != value}


def describe_batch(spec: RunSpec, devices: int) -> str:
    """`batch 392 = 56 each on 7 devices; lr 0.00122 (linear from 0.0002 at 64)`, or nothing."""
    scaling, batch = spec.scaling, batch_of(spec, devices)
    if scaling is None or batch is None:
        return ""
    plural = "s" if batch.devices > 1 else ""
    text = f"batch {batch.total:,} = {batch.each:g} each on {batch.devices} device{plural}"
    if batch.rate is None:
        return text
    text += f"; lr {batch.rate:.3g}"
    if batch.wanted is None or scaling.rule == "none":
        return text
    if scaling.rule == "program":
        own_rate = _number(spec, scaling.learning_rate)
        return f"{text} (the program scales its {own_rate:g} by {batch.growth:.3g})"
    origin = f"{scaling.rule} from {scaling.base_rate:g} at {scaling.base_batch}"
    if not math.isclose(batch.rate, batch.wanted, rel_tol=_TOLERANCE):
        origin += f" would be {batch.wanted:g}"
    return f"{text} ({origin})"


def batch_notes(spec: RunSpec, devices: int) -> tuple[str, ...]:
    """What a person should know of this batch on these devices; none without the key `scaling`."""
    scaling, batch = spec.scaling, batch_of(spec, devices)
    if scaling is None or batch is None:
        return ()
    notes = [describe_batch(spec, devices)]
    if batch.each != int(batch.each):
        notes.append(uneven_text(batch.total, batch.devices))
    notes += _geometry_notes(spec, batch)
    if batch.growth is not None and batch.growth > WARN_ABOVE:
        notes.append(
            f"the batch is {batch.growth:.3g} × the one whose learning rate is known "
            f"({scaling.base_batch}): "
            f"above {WARN_ABOVE:g} × no scaling rule is to be trusted; watch the loss"
        )
    elif batch.growth is not None and batch.growth >= WARM_UP_ABOVE and scaling.learning_rate:
        notes.append(
            f"the batch is {batch.growth:.3g} × its base: warm the learning rate up over the "
            "first 5 epochs"
        )
    if _goes_on(spec) and batch.growth is not None and batch.growth > 1 and scaling.learning_rate:
        notes.append(
            "it goes on from trained weights: scaling rules are for training from the start; "
            "begin below the scaled rate, and watch the loss"
        )
    return tuple(notes)


def uneven_text(total: int, devices: int) -> str:
    """Why a batch cannot be dealt out evenly, with the nearest that can."""
    below = total // devices * devices
    nearest = " or ".join(str(size) for size in (below, below + devices) if size)
    return f"a batch of {total:,} does not divide by {devices} devices: {nearest} does"


def _goes_on(spec: RunSpec) -> bool:
    """Whether it starts from somebody's weights (a parameter such as `model`), not its own run."""
    names = ("model", "init_from", "pretrained", "finetune_from")
    return any(part.value for part in spec.parameters if part.name in names)


def _geometry_notes(spec: RunSpec, batch: Batch) -> list[str]:
    """Warnings about samples on each device and in all, whatever the learning rate."""
    notes, scaling = [], spec.scaling
    usual = usual_batch(spec, batch.devices)
    base = scaling.base_batch if scaling is not None else None
    is_known_good = batch.devices == 1 and base is not None and batch.total >= base
    if batch.each < FEW_EACH and not is_known_good and (usual is None or usual.each > batch.each):
        notes.append(
            f"only {batch.each:g} sample{'s' if batch.each != 1 else ''} on each device: "
            f"below {FEW_EACH} GPUs idle and gradients get noisy; use "
            + ("fewer GPUs or a larger batch" if batch.devices > 1 else "a larger batch")
        )
    if batch.total > LARGE_BATCH:
        notes.append(
            f"a batch of {batch.total:,} in all: above {LARGE_BATCH:,} a larger learning rate "
            "alone is no longer to be trusted; warm up, and watch the loss"
        )
    return notes


def _scale(rate: float, growth: float, rule: ScalingRule) -> float:
    """`rate` after the rule, to three digits, as a person would write it."""
    factors = {"linear": growth, "program": growth, "sqrt": math.sqrt(growth)}
    return float(f"{rate * factors.get(rule, 1.0):.3g}")


def _number(spec: RunSpec, name: str) -> float | None:
    found = next((parameter.value for parameter in spec.parameters if parameter.name == name), None)
    return None if isinstance(found, bool) or not isinstance(found, (int, float)) else found
