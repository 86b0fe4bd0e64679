"""A run's gpus.jsonl kept short: full, each two lines become one, so the older the coarser."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from runners.host.files import open_binary
from runners.model.gpus import GpuInterval, UsageInterval
from runners.state.decoding import decode_lines

FULL = 2 << 20
"""Bytes at which the file is thinned: a day and more of one GPU, five hours of eight."""

N = TypeVar("N", int, float)


def compact(path: Path) -> None:
    """Halve the lines of the file at `path`; OSError when the disk refuses, with nothing lost."""
    draft = path.with_suffix(".tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as target, open_binary(path) as source:
        for interval in _pairs(decode_lines(source, UsageInterval)):
            target.write(msgspec.json.encode(interval) + b"\n")
    draft.replace(path)


def _pairs(intervals: Iterator[UsageInterval]) -> Iterator[UsageInterval]:
    """Each two neighbours with the same GPUs as one."""
    before: UsageInterval | None = None
    for interval in intervals:
        if before is None:
            before = interval
        elif [gpu.uuid for gpu in before.gpus] == [gpu.uuid for gpu in interval.gpus]:
            yield merge(before, interval)
            before = None
        else:
            yield before
            before = interval
    if before is not None:
        yield before


def merge(first: UsageInterval, second: UsageInterval) -> UsageInterval:
    """Two intervals of the same GPUs as one that ends with the second."""
    seconds = first.seconds, second.seconds
    gpus = (_merge(a, b, seconds) for a, b in zip(first.gpus, second.gpus, strict=True))
    simulated = first.simulated or second.simulated
    return UsageInterval(second.time, round(sum(seconds), 3), tuple(gpus), simulated, second.uptime)


def _merge(a: GpuInterval, b: GpuInterval, seconds: tuple[float, float]) -> GpuInterval:
    return GpuInterval(
        a.index,
        a.uuid,
        utilization=_mean((a.utilization, b.utilization), seconds),
        memory=greatest(a.memory, b.memory),
        power_w=_mean((a.power_w, b.power_w), seconds),
        temperature_c=greatest(a.temperature_c, b.temperature_c),
        lowest=least(first(a.lowest, a.utilization), first(b.lowest, b.utilization)),
        highest=greatest(first(a.highest, a.utilization), first(b.highest, b.utilization)),
        highest_w=greatest(first(a.highest_w, a.power_w), first(b.highest_w, b.power_w)),
    )


def _mean(values: tuple[float | None, float | None], seconds: tuple[float, float]) -> float | None:
    known = [
        (value, weight) for value, weight in zip(values, seconds, strict=True) if value is not None
    ]
    weights = sum(weight for _, weight in known)
    return round(sum(value * weight for value, weight in known) / weights, 1) if weights else None


def first(value: N | None, otherwise: N | None) -> N | None:
    """`value`, or what stands in for it where it is not known."""
    return otherwise if value is None else value


def greatest(a: N | None, b: N | None) -> N | None:
    """The greater of two values, or the one that is known."""
    return max((value for value in (a, b) if value is not None), default=None)


def least(a: N | None, b: N | None) -> N | None:
    """The lesser of two values, or the one that is known."""
    return min((value for value in (a, b) if value is not None), default=None)
