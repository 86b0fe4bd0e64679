"""What a preset expects of a run: `expect: {utilization: 60-80%, memory: 40G, per_epoch: 2m}`."""

import re

from runners.model.spec import Expectation
from runners.presets.reading.diagnostics import Diagnostics
from runners.presets.reading.units import parse_duration, parse_size
from runners.presets.schema_course import ExpectKeys, StageExpectKeys

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?(?:\s*[-–]\s*(\d+(?:\.\d+)?)\s*%?)?")


def build_expectation(keys: ExpectKeys, source: Diagnostics) -> Expectation:
    """The expectations of a run and of its stages; errors name the key."""
    whole = _build(keys, ("expect",), source)
    stages = {
        name: _build(stage, ("expect", "stages", name), source)
        for name, stage in keys.stages.items()
    }
    return Expectation(
        whole.utilization,
        whole.memory,
        whole.samples_per_second_per_gpu,
        whole.epoch_s,
        stages,
    )


def parse_percent_range(value: str | int) -> tuple[float, float | None]:
    """`60-80%` as (60, 80), `90%` as (90, None); ValueError otherwise."""
    match = _PERCENT.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"expected a share such as 60-80% or 90%, got {value!r}")
    low, high = float(match[1]), None if match[2] is None else float(match[2])
    if low > 100 or (high is not None and not low <= high <= 100):
        raise ValueError(f"expected percent from 0 to 100, lower end first, got {value!r}")
    return low, high


def _build(keys: StageExpectKeys, where: tuple[str | int, ...], source: Diagnostics) -> Expectation:
    share, memory, pace = keys.utilization, keys.memory, keys.per_epoch
    percent = size = seconds = None
    if share is not None:
        percent = source.attempt((*where, "utilization"), lambda: parse_percent_range(share))
    if memory is not None:
        size = source.attempt((*where, "memory"), lambda: parse_size(memory))
    if pace is not None:
        seconds = source.attempt((*where, "per_epoch"), lambda: parse_duration(pace))
    return Expectation(percent, size, keys.samples_per_second_per_gpu, seconds)
