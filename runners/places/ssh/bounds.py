"""Which numbers and texts another machine may send: what no screen can show is none."""

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec

from runners.model.gpus import GpuSnapshot

_GREATEST = 1e19
_LONGEST = 1 << 16
_MOST_VALUES = 200_000
_MOST_POINTS = 100_000
_ANY_NUMBER = frozenset({"metrics", "summary", "trend", "plan", "settings"})
_RANGES: dict[str, tuple[float, float]] = {
    "index": (0, 1 << 16),
    "utilization": (0, 1000),
    "memory_utilization": (0, 1000),
    "memory_used": (0, 1 << 50),
    "memory_total": (0, 1 << 50),
    "temperature_c": (-300, 1000),
    "power_w": (0, 100_000),
    "power_limit_w": (0, 100_000),
    "clock_mhz": (0, 1_000_000),
    "memory_clock_mhz": (0, 1_000_000),
}
"""What a GPU can have, far above of what any has."""


def require_sane(value: Any) -> None:
    """Raise ValueError when any number in `value` is not finite or absurd, or a text too long."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if len(part) > _LONGEST:
                raise ValueError(f"a text of {len(part):,} characters")
        elif isinstance(part, (int, float, Decimal)):
            _require_number(part)
        else:
            waiting += _parts(part)


def require_answer(value: Any) -> None:
    """Raise ValueError when a number in an answer about runs is not finite or absurd.

    What a program measured, and what a preset says, may well be.
    """
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += [inner for name, inner in part.items() if name not in _ANY_NUMBER]
        elif isinstance(part, (int, float)):
            _require_number(part)
        else:
            waiting += _parts(part)


def _require_number(number: "int | float | Decimal") -> None:
    is_finite = isinstance(number, int) or math.isfinite(number)
    if not is_finite or number > _GREATEST or number < -_GREATEST:
        raise ValueError(f"the number {str(number)[:40]}")


def require_few(value: Any) -> None:
    """Raise ValueError for a value with more values in it than any that is shown whole."""
    waiting, count = [value], 0
    while waiting:
        parts = _parts(waiting.pop())
        waiting += parts
        count += len(parts)
        if count > _MOST_VALUES:
            raise ValueError("too many values")


def require_points(steps: Sequence[float], *columns: Sequence[float]) -> None:
    """Raise ValueError for a curve whose steps fall or are no numbers, or that lies beyond all.

    What is not known of the other columns is NaN.
    """
    if len(steps) > _MOST_POINTS:
        raise ValueError(f"a curve of {len(steps):,} points")
    for before, step in pairwise((-_GREATEST, *steps, _GREATEST)):
        if not before <= step:
            raise ValueError("a curve whose steps fall, or are no numbers")
    for column in columns:
        if any(abs(value) > _GREATEST for value in column):
            raise ValueError("a curve beyond all numbers")


def _parts(value: Any) -> Sequence[Any]:
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else ()


def require_gpu(gpu: GpuSnapshot) -> None:
    """Raise ValueError for readings that no GPU has."""
    for name, (least, most) in _RANGES.items():
        value: float | None = getattr(gpu, name)
        if value is not None and (value < least or value > most):
            raise ValueError(f"a GPU whose {name} is {str(value)[:40]}")
