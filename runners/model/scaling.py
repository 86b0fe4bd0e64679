"""Batch size and learning rate when the number of GPUs changes: said, offered and checked, never
changed silently.

Linear rule: Goyal et al., "Accurate, Large Minibatch SGD", 2017 (arXiv:1706.02677), who warm up
over five epochs. Square root rule: Krizhevsky, "One weird trick for parallelizing convolutional
neural networks", 2014 (arXiv:1404.5997).
"""

import math

import msgspec

from runners.model.parameters import with_values
from runners.model.spec import GpuRequest, ParameterValue, RunSpec, ScalingRule

WARM_UP_ABOVE = 4.0
"""Growth of the batch from which a warm-up is advised."""
WARN_ABOVE = 10.0
"""Growth of the batch above which neither rule is to be trusted."""
FEW_EACH = 4
"""Samples on a device below which statistics over the batch get noisy and GPUs idle."""
LARGE_BATCH = 1024
"""Samples in all above which the linear rule was seen to need more than a warm-up (Goyal et al.,
section 5.1, saw it hold up to 8,192 only with their warm-up; the guides say 1,024).
"""
_TOLERANCE = 0.02


class Batch(msgspec.Struct, frozen=True):
    """What a spec's batch parameter means on `devices` devices: samples each, samples in all, and
    the learning rate.

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
    if scaling is None or number is None:
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


def devices_of(spec: RunSpec, request: GpuRequest, present: int) -> int:
    """How many devices `spec` computes on when given what `request` asks for, on a host with
    `present` GPUs.
    """
    count = present if request.all else len(request.ids) or request.number
    return (spec.processes or max(1, count)) * (spec.node.count if spec.node else 1)


def rescaled(
    spec: RunSpec, before: int, devices: int, rule: ScalingRule | None = None
) -> dict[str, int | float]:
    """The parameters to change, by name, so that `devices` devices have the samples each that
    `before` had.

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
    if (
        scaling.learning_rate
        and after is not None
        and after.wanted is not None
        and (rule or scaling.rule) != "program"
    ):
        changes[scaling.learning_rate] = after.wanted
    untouched = {
        parameter.name for parameter in spec.parameters if parameter.value == parameter.default
    }
    return {
        name: value
        for name, value in changes.items()
        if name in untouched and value != _number(spec, name)
    }


def describe_batch(spec: RunSpec, devices: int) -> str:
    """`batch 392 = 56 each on 7 devices; lr 0.00122 (linear from 0.0002 at 64)`; empty when
    nothing is known.
    """
    scaling, batch = spec.scaling, batch_of(spec, devices)
    if scaling is None or batch is None:
        return ""
    words = (
        f"batch {batch.total:,} = {batch.each:g} each on {batch.devices} "
        f"device{'s' if batch.devices > 1 else ''}"
    )
    if batch.rate is None:
        return words
    words += f"; lr {batch.rate:.3g}"
    if batch.wanted is None or scaling.rule == "none":
        return words
    if scaling.rule == "program":
        return (
            f"{words} (the program scales its {_number(spec, scaling.learning_rate):g} by "
            f"{batch.growth:.3g})"
        )
    origin = f"{scaling.rule} from {scaling.base_rate:g} at {scaling.base_batch}"
    return (
        f"{words} ({origin})" if _agrees(batch) else f"{words} ({origin} would be {batch.wanted:g})"
    )


def batch_notes(spec: RunSpec, devices: int) -> tuple[str, ...]:
    """What a person should know of this batch on these devices before it runs; empty without a
    word on scaling.
    """
    scaling, batch = spec.scaling, batch_of(spec, devices)
    if scaling is None or batch is None:
        return ()
    notes = [describe_batch(spec, devices)]
    if batch.each != int(batch.each):
        notes.append(f"a batch of {batch.total} does not divide by {batch.devices} devices")
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
    return tuple(notes)


def _geometry_notes(spec: RunSpec, batch: Batch) -> list[str]:
    """Warnings about samples on each device and in all, whatever the learning rate."""
    notes = []
    usual = batch_of(with_values(spec, _defaults(spec)), batch.devices)
    if batch.each < FEW_EACH and (usual is None or usual.each > batch.each):
        notes.append(
            f"only {batch.each:g} sample{'s' if batch.each != 1 else ''} on each device: "
            f"below {FEW_EACH} the GPUs idle and statistics over the batch get noisy; "
            "use fewer GPUs or a larger batch"
        )
    if batch.total > LARGE_BATCH:
        notes.append(
            f"a batch of {batch.total:,} in all: above {LARGE_BATCH:,} a larger learning rate "
            "alone is no longer to be trusted; warm up, and watch the loss"
        )
    return notes


def _defaults(spec: RunSpec) -> dict[str, ParameterValue]:
    return {one.name: one.default for one in spec.parameters}


def _scale(rate: float, growth: float, rule: ScalingRule) -> float:
    """`rate` after the rule, to three digits, as a person would write it."""
    factor = (
        growth if rule in ("linear", "program") else math.sqrt(growth) if rule == "sqrt" else 1.0
    )
    return float(f"{rate * factor:.3g}")


def _agrees(batch: Batch) -> bool:
    return (
        batch.rate is not None
        and batch.wanted is not None
        and math.isclose(batch.rate, batch.wanted, rel_tol=_TOLERANCE)
    )


def _number(spec: RunSpec, name: str) -> float | None:
    found = next((parameter.value for parameter in spec.parameters if parameter.name == name), None)
    return None if isinstance(found, bool) or not isinstance(found, (int, float)) else found
