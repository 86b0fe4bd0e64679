"""Which batch to try next: doubling until one does not fit, then bisecting. Pure."""

from collections.abc import Sequence

from runners.lifecycle.launch.probe_results import ProbeStep

FINENESS = 16
"""The search ends when what fits and what does not are within this part of each other."""


def next_batch(tried: Sequence[ProbeStep], first: int, unit: int, most: int | None) -> int | None:
    """The next value to try, a multiple of `unit` of at most `most`; None when nothing is left.

    `first` is tried first; every batch is tried once.
    """
    fits = max((step.batch for step in tried if step.fits), default=0)
    fails = min((step.batch for step in tried if not step.fits), default=None)
    if not tried:
        return first
    if fails is None:
        wanted = fits * 2 if most is None else min(fits * 2, most // unit * unit)
        return wanted if wanted > fits else None
    if fails - fits <= max(unit, fits // FINENESS):
        return None
    middle = (fits + fails) // 2 // unit * unit
    return max(middle, fits + unit) if max(middle, fits + unit) < fails else None


def largest(tried: Sequence[ProbeStep]) -> ProbeStep | None:
    """The largest batch that fitted."""
    return max((step for step in tried if step.fits), key=lambda step: step.batch, default=None)
