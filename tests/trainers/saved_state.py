"""What two checkpoints hold, compared whole: every number, counter and random generator."""

from pathlib import Path
from typing import Any

import torch

from trainers.common.meters import GAUGES

ABOUT_THE_RUN = {"settings", "written_by", "seconds", *GAUGES}
"""Where and when it was written, and how long that took: what differs between equal runs."""


def differing(one: Any, other: Any, where: str = "") -> list[str]:
    """The names of what differs between two nested values, to the bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in {**one, **other} if name not in ABOUT_THE_RUN]
        missing = [f"{where}.{name}" for name in names if (name in one) != (name in other)]
        shared = [name for name in names if name in one and name in other]
        return missing + [
            found
            for name in shared
            for found in differing(one[name], other[name], f"{where}.{name}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, (a, b) in pairs for found in differing(a, b, f"{where}[{i}]")]
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
        return [] if same else [where]
    return [] if type(one) is type(other) and (one == other or one != one) else [where]


def load(path: Path) -> Any:
    """A checkpoint that a test has made; what reads without running code takes ten times as long."""
    return torch.load(path, map_location="cpu", weights_only=False)


def differing_files(one: Path, other: Path) -> list[str]:
    """The names of what differs between two checkpoints."""
    return differing(load(one), load(other))
