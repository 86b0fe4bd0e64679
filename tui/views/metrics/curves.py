"""A run's series as curves over steps, epochs, time or money, joined over resumed runs."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from runners.cost.rates import device_count
from runners.model.run import Run
from runners.watch.metrics.series import Series, best_at, downsample
from tui.views.format import axis_time
from tui.views.metrics.scales import Scale, clock_ticks, short, ticks

AxisName = Literal["step", "epoch", "time", "GPU-hours", "dollars"]
AXES: tuple[AxisName, ...] = ("step", "epoch", "time", "GPU-hours", "dollars")
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
"""Weights of what was before, for each further value."""


class BestValue(NamedTuple):
    """The best value of a curve and its step, NaN for what is measured over time alone."""

    value: float
    step: float
    higher: bool = False


class Curve(NamedTuple):
    """One run's course of one metric: rising places on the x axis, and values."""

    xs: Sequence[float]
    ys: Sequence[float]
    lost: int = 0
    """How many values are not finite."""
    best: BestValue | None = None
    seams: tuple[float, ...] = ()
    """Where a run begins that was resumed from the one before it."""
    stages: tuple[tuple[float, str], ...] = ()
    """Where the stages of a training begin, with their names."""

    def beside_steps(self) -> "Curve":
        """The same, drawn in one chart with its steps' curve, which marks where stages begin."""
        return self._replace(stages=())

    def part(self, buckets: int, low: float, high: float) -> list[tuple[float, float]]:
        """The points from `low` to `high`, thinned, and one beyond each end for the line."""
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


class Stretch(NamedTuple):
    """What one run adds to a curve, and what leads from its moments to places on the axes.

    `start` is the run's in unix seconds, `seconds` how long it has run, `devices` how many GPUs it
    holds. What has no steps stands where `reference`, a series with steps and times, was at the
    time; `cost` is the run's cost so far. A run without the metric has no `series`.
    """

    series: Series | None
    start: float
    seconds: float
    devices: float = 0.0
    reference: Series | None = None
    cost: Series | None = None

    @property
    def version(self) -> tuple[object, ...]:
        """Equal as long as the curve is: series only grow, or are cut and grow anew."""
        known = [series for series in (self.series, self.reference, self.cost) if series]
        counts = [
            (id(series), len(series), repr(series.last), series.steps[-1]) for series in known
        ]
        # `repr`: NaN, which a run may end in, does not equal itself.
        return (self.start, self.seconds, self.devices, *counts)

    def extent(self, axis: AxisName) -> float | None:
        """How far what comes after it is moved on, on an axis; None where that is not known."""
        if axis == "dollars":
            return self.cost.last if self.cost else None
        if axis == "GPU-hours":
            return self.devices * self.seconds / 3600 or None
        return self.seconds if axis == "time" else 0.0


def stretch_of(run: Run, series: Mapping[str, Series], name: str) -> Stretch:
    """What `run`, whose `series` are known, adds to the curve of metric `name`."""
    return Stretch(
        series.get(name),
        run.started or run.created,
        0.0 if run.is_live else run.seconds(0.0) or 0.0,
        float(device_count(run.plan.gpus)) if run.plan else 0.0,
        _reference(series),
        series.get("cost"),
    )


def curve_of(
    line: Sequence[tuple[Run, Mapping[str, Series]]],
    name: str,
    axis: AxisName = "step",
    higher: bool | None = None,
) -> Curve | None:
    """Metric `name` of the last run of `line`, joined with its ancestors; None without values."""
    return join([stretch_of(run, series, name) for run, series in line], axis, 0.0, higher)


def join(
    parts: Sequence[Stretch], axis: AxisName, weight: float = 0.0, higher: bool | None = None
) -> Curve | None:
    """One curve of runs, each resumed from the one before; None where an axis is not known.

    `higher` says whether more is better, None that nobody knows. What a run did after the
    checkpoint that the next one resumed from is left out where steps or epochs tell so; time and
    money count it, for it was spent.
    """
    xs, values, steps, counts = array("d"), array("d"), array("d"), array("b")
    seams: list[float] = []
    stages: list[tuple[float, str]] = []
    moved = spent = 0.0
    for i, part in enumerate(parts):
        if part.series is not None:
            own = places(part, axis)
            if own is None:
                return None
            at = bisect_left(xs, own[0] + moved)
            # What was done after the checkpoint was done again by the run that resumed from it.
            del xs[at:], values[at:], steps[at:], counts[at:]
            seams = [seam for seam in seams if seam < own[0] + moved]
            stages = [stage for stage in stages if stage[0] < own[0] + moved]
            if xs:
                seams.append(own[0] + moved)
            stages += _stages(part.series, own, moved, stages[-1][1] if stages else "")
            raise_by = spent if part.series.source == "cost" else 0.0
            xs.extend(x + moved for x in own)
            values.extend(value + raise_by for value in part.series.values)
            steps.extend(part.series.steps)
            counts.extend(part.series.counts)
        extent = part.extent(axis) if i < len(parts) - 1 else 0.0
        if extent is None:
            return None
        moved += extent
        spent += part.cost.last if part.cost else 0.0
    if not xs:
        return None
    timed = any(part.series is not None and by_time(part.series) for part in parts)
    at_best = None if higher is None else best_at(values, counts, higher)
    best = None
    # An only value is the best of nothing.
    if higher is not None and at_best is not None and len(values) > 1:
        best = BestValue(values[at_best], math.nan if timed else steps[at_best], higher)
    lost = sum(1 for value in values if not math.isfinite(value))
    return Curve(xs, smooth(values, weight), lost, best, tuple(seams), tuple(stages))


def _stages(
    series: Series, own: Sequence[float], moved: float, before: str
) -> list[tuple[float, str]]:
    """The stages of one run at their places, without the one that goes on from the run before."""
    found = []
    for step, name in series.stages:
        at = bisect_left(series.steps, step)
        if at < len(own) and name != before:
            found.append((own[at] + moved, name))
        before = name
    return found


def known_axes(line: Sequence[tuple[Run, Mapping[str, Series]]]) -> tuple[AxisName, ...]:
    """The axes over which at least one metric of these runs is known."""
    every = [measured for _, series in line for measured in series.values()]
    stepped = [measured for measured in every if not by_time(measured)]
    known: dict[AxisName, bool] = {
        "step": True,
        "epoch": any(math.isfinite(measured.epochs[-1]) for measured in stepped if len(measured)),
        "time": any(math.isfinite(measured.times[-1]) for measured in every if len(measured)),
        "GPU-hours": any(run.plan is not None and run.plan.gpus for run, _ in line),
        "dollars": any("cost" in series for _, series in line),
    }
    return tuple(axis for axis in AXES if known[axis])


def axis_text(axis: AxisName) -> Callable[[float, int], str]:
    """How the numbers of an axis are written, with at least so many digits."""
    if axis == "time":
        return lambda value, digits: axis_time(value, digits - 3)
    if axis == "dollars":
        return lambda value, digits: f"${short(value, digits)}"
    return short


def axis_ticks(axis: AxisName, scale: Scale, most: int) -> list[float]:
    """At most about `most` round places on an axis, rising."""
    return (clock_ticks if axis == "time" else ticks)(scale, most)


def _reference(series: Mapping[str, Series]) -> Series | None:
    """The series with most values whose steps, epochs and times are known."""
    known = [
        candidate
        for candidate in series.values()
        if not by_time(candidate)
        and candidate.times
        and math.isfinite(candidate.times[-1])
        and math.isfinite(candidate.times[0])
    ]
    return max(known, key=len, default=None)


def places(part: Stretch, axis: AxisName) -> Sequence[float] | None:
    """Where a run's values stand on an axis, from its own start; None where that is not known."""
    series, reference = part.series, part.reference
    if series is None:
        return None
    if axis == "time":
        return _rising(array("d", (time - part.start for time in series.times)))
    if axis == "GPU-hours":
        rate = part.devices / 3600
        hours = array("d", ((time - part.start) * rate for time in series.times))
        return _rising(hours) if rate else None
    if axis == "dollars":
        return _across(series, part.cost, part.cost.values) if part.cost else None
    if by_time(series):
        if reference is None:
            return None
        return _across(series, reference, reference.steps if axis == "step" else reference.epochs)
    return series.steps if axis == "step" else _rising(_spread(series))


def _across(series: Series, guide: Series, column: Sequence[float]) -> "array[float] | None":
    """Where `column` of `guide` was at the times of `series`."""
    if not len(guide) or not math.isfinite(sum(series.times)):
        return None
    return _rising(array("d", (_between(time, guide.times, column) for time in series.times)))


def _rising(column: "array[float]") -> "array[float] | None":
    """The column if all of it is known; while a clock that was set back catches up, it stands."""
    return array("d", accumulate(column, max)) if all(map(math.isfinite, column)) else None


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
    """An exponential mean without a bias to the first value; what is not finite stays as it is."""
    if not weight:
        return values
    smoothed, mean, mass = array("d"), 0.0, 0.0
    least, most = math.inf, -math.inf
    for value in values:
        if not math.isfinite(value):
            smoothed.append(value)
            continue
        mean = weight * mean + (1 - weight) * value
        mass = weight * mass + (1 - weight)
        least, most = min(least, value), max(most, value)
        # No mean lies beyond what it is of: rounding would draw a curve of what is constant.
        smoothed.append(min(most, max(least, mean / mass)))
    return smoothed
