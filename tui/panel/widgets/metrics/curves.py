"""A run's series as curves over steps, epochs or time: smoothed if asked for, and thinned without
losing spikes.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal, NamedTuple

from runners.watch.metrics.series import Series, downsample

AxisName = Literal["step", "epoch", "time"]
AXES: tuple[AxisName, ...] = ("step", "epoch", "time")
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
"""Weights of what was before, for each further value."""


class Curve(NamedTuple):
    """One run's course of one metric: rising places on the x axis, and values."""

    xs: Sequence[float]
    ys: Sequence[float]
    lost: int = 0
    """How many values are not finite."""

    def part(self, buckets: int, low: float, high: float) -> list[tuple[float, float]]:
        """The points from `low` to `high`, thinned, and one on each side, towards which the line
        goes.
        """
        kept = downsample(self.xs, self.ys, buckets, low, high)
        before, after = bisect_left(self.xs, low) - 1, bisect_right(self.xs, high)
        sides = [i for i in (before,) if i >= 0 and math.isfinite(self.ys[i])]
        ends = [i for i in (after,) if i < len(self.xs) and math.isfinite(self.ys[i])]
        return [(self.xs[i], self.ys[i]) for i in (*sides, *kept, *ends)]

    def at(self, x: float) -> float:
        """The value at the point nearest to `x`; NaN where there is none."""
        if not len(self.xs):
            return math.nan
        i = bisect_left(self.xs, x)
        if i == len(self.xs) or (i and x - self.xs[i - 1] <= self.xs[i] - x):
            i -= 1
        return self.ys[i]


def by_time(series: Series) -> bool:
    """True for what is measured over time alone."""
    return series.source in ("gpus", "cost")


def places(
    series: Series, axis: AxisName, start: float, reference: Series | None
) -> Sequence[float] | None:
    """Where the values of a series stand on an axis; None where that cannot be known.

    `start` is the run's in unix seconds. What has no steps stands where `reference`, a series of
    the same run with steps and times, was at the time.
    """
    if axis == "time":
        return _rising(array("d", (time - start for time in series.times)))
    if by_time(series):
        if reference is None:
            return None
        column = reference.steps if axis == "step" else reference.epochs
        return _rising(
            array("d", (_between(time, reference.times, column) for time in series.times))
        )
    if axis == "step":
        return series.steps
    return _rising(_spread(series))


def _rising(column: "array[float]") -> "array[float] | None":
    """The column if all of it is known and it rises; None otherwise."""
    if any(not math.isfinite(x) for x in column):
        return None
    if any(column[i] > column[i + 1] for i in range(len(column) - 1)):
        column = array("d", sorted(column))  # a clock that was set back
    return column


def _spread(series: Series) -> "array[float]":
    """Epochs with their steps spread evenly: the values of epoch 3 stand between 2 and 3."""
    epochs, spread = series.epochs, array("d")
    i = 0
    while i < len(epochs):
        end = i + 1
        while end < len(epochs) and epochs[end] == epochs[i]:
            end += 1
        whole = epochs[i] == math.floor(epochs[i]) if math.isfinite(epochs[i]) else False
        count = end - i
        spread.extend(
            epochs[i] - 1 + (k + 1) / count if whole and count > 1 else epochs[i]
            for k in range(count)
        )
        i = end
    return spread


def _between(time: float, times: Sequence[float], column: Sequence[float]) -> float:
    i = bisect_left(times, time)
    if i == 0:
        return column[0]
    if i == len(times):
        return column[-1]
    share = (time - times[i - 1]) / ((times[i] - times[i - 1]) or 1.0)
    return column[i - 1] + share * (column[i] - column[i - 1])


def smooth(values: Sequence[float], weight: float) -> Sequence[float]:
    """An exponential mean that counts no value before the first; what is not finite stays and is
    not counted.
    """
    if not weight:
        return values
    smoothed, mean, mass = array("d"), 0.0, 0.0
    for value in values:
        if not math.isfinite(value):
            smoothed.append(value)
            continue
        mean = weight * mean + (1 - weight) * value
        mass = weight * mass + (1 - weight)
        smoothed.append(mean / mass)
    return smoothed
