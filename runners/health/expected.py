"""A run's pace beside what its preset expects of it."""

from runners.model.quantities import duration_text
from runners.model.run import Progress, Run
from runners.model.spec import Expectation

_SLOWER_BY = 1.25
_SETTLED_S = 300.0
"""Compiling and the first epoch say nothing about the rest."""


def slower_than_expected(
    run: Run, progress: Progress, epoch_s: float | None, seconds: float
) -> tuple[str, ...]:
    """What of its pace falls short, in words, after `seconds` of running.

    Nothing while it settles.
    """
    plan = run.plan
    if plan is None or seconds < _SETTLED_S:
        return ()
    expected = _of_stage(plan.expect, progress.phase)
    found = []
    wanted_s = expected.epoch_s
    if wanted_s is not None and epoch_s is not None and epoch_s > _SLOWER_BY * wanted_s:
        found.append(f"{duration_text(epoch_s)} an epoch, expected {duration_text(wanted_s)}")
    wanted_rate, rate, unit = (
        expected.samples_per_second_per_gpu,
        progress.rate,
        progress.rate_unit,
    )
    if wanted_rate is not None and rate is not None and unit in ("samples", "images"):
        each = rate / max(1, len(plan.gpus))
        if each < wanted_rate / _SLOWER_BY:
            found.append(f"{each:.3g} {unit}/s on each GPU, expected {wanted_rate:.3g}")
    return tuple(found)


def _of_stage(expected: Expectation, phase: str | None) -> Expectation:
    for name, stage in expected.stages.items():
        if phase and name.lower() in phase.lower():
            return stage
    return expected
