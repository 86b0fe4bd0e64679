"""What is measured of a run beside what its preset expects of it."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from runners.model.gpus import GpuUse
from runners.model.plan import LaunchPlan
from runners.model.run import Progress
from runners.model.spec import Expectation
from runners.model.units import duration_text, gib_text

_SLOWER_BY = 1.25
"""A pace varies by itself: an epoch may take so many times what is expected of it."""
_SETTLED_S = 300.0
"""Compiling and the first epoch say nothing about the rest."""


def shortfalls(
    plan: LaunchPlan | None,
    progress: Progress,
    epoch_s: float | None,
    usage: Sequence[GpuUse],
    seconds: float | None,
) -> tuple[str, ...]:
    """A sentence for each value worse than expected, after `seconds`; none while it settles."""
    if plan is None or (seconds or 0.0) < _SETTLED_S:
        return ()
    expected = _of_stage(plan.spec.expect, progress.phase)
    # A stage has its own number; that of the whole run follows the batch.
    memory = expected.memory
    if expected is plan.spec.expect and expected.memory_per_sample is not None:
        # Few presets say it, and every list of runs would load what computes it.
        from runners.model.python_command import devices_in_all
        from runners.model.workload import expected_memory

        memory = expected_memory(plan.spec, devices_in_all(plan))
    found = [sentence for use in usage for sentence in _of_gpu(expected, memory, use)]
    wanted, rate, unit = expected.samples_per_second_per_gpu, progress.rate, progress.rate_unit
    if wanted is not None and rate is not None and plan.gpus and unit in ("samples", "images"):
        each = rate / len(plan.gpus)
        if each < wanted / _SLOWER_BY:
            found.append(f"{each:.4g} {unit}/s on each GPU, expected {wanted:.4g}")
    wanted_s = expected.epoch_s
    if wanted_s is not None and epoch_s is not None and epoch_s > _SLOWER_BY * wanted_s:
        found.append(f"{duration_text(epoch_s)} an epoch, expected {duration_text(wanted_s)}")
    return tuple(found)


def final_shortfalls(
    plan: LaunchPlan | None, metrics: Mapping[str, float | int | None]
) -> tuple[str, ...]:
    """A sentence for each metric of a run that is done whose last value is not below its mark."""
    marks = plan.spec.expect.final_below if plan is not None else {}
    return tuple(
        f"{name} {value:.4g} in the end, expected below {mark:.4g}"
        for name, mark in marks.items()
        if (value := metrics.get(name)) is not None and not value < mark
    )


def _of_gpu(expected: Expectation, memory: int | None, use: GpuUse) -> Iterator[str]:
    used, peak = use.mean_utilization, use.peak_memory
    if expected.utilization is not None and used is not None:
        low, high = expected.utilization
        wanted = f"{low:.0f} %" if high is None else f"{low:.0f}–{high:.0f} %"
        if used < low:
            yield f"GPU {use.index}: mean use {used:.0f} %, expected {wanted}"
    if memory is not None and peak is not None and peak > memory:
        more = f"more than the {gib_text(memory)} expected"
        yield f"GPU {use.index}: peak VRAM {gib_text(peak)}, {more}"


def _of_stage(expected: Expectation, phase: str | None) -> Expectation:
    """What is expected of the stage that runs: its own values, and the whole run's use."""
    for name, stage in expected.stages.items():
        # `stage 1` is none of the stages 10 to 12.
        if phase and re.search(rf"{re.escape(name)}(?!\d)", phase, re.IGNORECASE):
            used = stage.utilization or expected.utilization
            return msgspec.structs.replace(stage, utilization=used)
    return expected
