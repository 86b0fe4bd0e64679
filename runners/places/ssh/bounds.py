"""Which numbers and texts another machine may send: what no screen can show is none."""

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

from runners.model.gpus import GpuSnapshot

_GREATEST = 1e19
_LONGEST = 1 << 16
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
            is_finite = isinstance(part, int) or math.isfinite(part)
            if not is_finite or part > _GREATEST or part < -_GREATEST:
                raise ValueError(f"the number {str(part)[:40]}")
        else:
            waiting += _parts(part)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, (list, tuple, set, frozenset)) else ()


def require_gpu(gpu: GpuSnapshot) -> None:
    """Raise ValueError for readings that no GPU has."""
    for name, (least, most) in _RANGES.items():
        value: float | None = getattr(gpu, name)
        if value is not None and (value < least or value > most):
            raise ValueError(f"a GPU whose {name} is {str(value)[:40]}")
