"""One metric over a run: parallel arrays of steps, epochs, times and values, eight bytes each."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence

from runners.watch.metrics.final import FinalMetric
from runners.watch.metrics.sample import decimals_of, not_finite

UNKNOWN = math.nan
_MOST_STAGES = 64
"""A program that begins a stage with every line must not fill the memory."""
_LOOKED_AT = 200


class Series:
    """The history of one metric.

    Steps never fall; epochs count from 1, times are unix seconds, NaN where not known. A value may
    be NaN or infinite: a loss that diverged is shown, not hidden.
    """

    __slots__ = (
        "also",
        "axis",
        "counts",
        "epochs",
        "name",
        "simulated",
        "source",
        "stages",
        "steps",
        "times",
        "unit",
        "values",
    )

    def __init__(
        self, name: str, source: str = "", unit: str = "", simulated: bool = False
    ) -> None:
        self.name = name
        self.source = source
        self.also: tuple[str, ...] = ()
        """Other sources that have the same values, or some of them."""
        self.unit = unit
        self.simulated = simulated
        self.steps, self.epochs, self.times, self.values = (array("d") for _ in range(4))
        self.axis = "step"
        """What `steps` count: steps, or what there is instead: epochs, samples, lines …"""
        self.stages: list[tuple[float, str]] = []
        """The steps at which the stages of its training begin, with their names."""
        self.counts = array("b")
        """Of each value whether it may be the best: a mean over a part of an epoch may not."""

    def __len__(self) -> int:
        return len(self.values)

    def add(
        self,
        step: float,
        value: float,
        epoch: float = UNKNOWN,
        time: float = UNKNOWN,
        counts: bool = True,
    ) -> None:
        """Append a value; at a step that exists already, or before it, it replaces what follows."""
        # A run that was resumed from a checkpoint repeats steps: the later attempt is what counts.
        if self.steps and step <= self.steps[-1]:
            self.cut(step)
        self.append(step, value, epoch, time, counts)

    def append(
        self,
        step: float,
        value: float,
        epoch: float = UNKNOWN,
        time: float = UNKNOWN,
        counts: bool = True,
    ) -> None:
        """Append a value that replaces none: one before the last step is placed at that step."""
        self.steps.append(max(step, self.steps[-1]) if self.steps else step)
        self.epochs.append(epoch)
        self.times.append(time)
        self.values.append(value)
        self.counts.append(counts)

    def cut(self, step: float) -> None:
        """Forget everything from `step` on."""
        at = bisect_left(self.steps, step)
        for column in (self.steps, self.epochs, self.times, self.values):
            del column[at:]
        del self.counts[at:]
        self.stages = [stage for stage in self.stages if stage[0] < step]

    def begin_stage(self, name: str) -> None:
        """The last value is of this stage, and so is what comes until the next one begins."""
        if len(self.stages) < _MOST_STAGES and (not self.stages or self.stages[-1][1] != name):
            self.stages.append((self.steps[-1], name))

    @property
    def sources(self) -> tuple[str, ...]:
        """Everywhere its values stand; first where they were read."""
        return (self.source, *self.also)

    @property
    def last(self) -> float:
        """The newest value."""
        return self.values[-1]

    def extremes(self) -> tuple[float, float] | None:
        """The least and the greatest finite value; None when there is none."""
        finite = [value for value in self.values if math.isfinite(value)]
        return (min(finite), max(finite)) if finite else None


def best_at(values: Sequence[float], counts: Sequence[int], higher: bool) -> int | None:
    """Where the best of the finite values is that count, the first of several; None without any."""
    known = [i for i, value in enumerate(values) if counts[i] and math.isfinite(value)]
    return (max if higher else min)(known, key=values.__getitem__, default=None)


def downsample(
    xs: Sequence[float], ys: Sequence[float], buckets: int, low: float, high: float
) -> list[int]:
    """Indices of at most 4 × `buckets` points that draw like all of those from `low` to `high`.

    `xs` must rise. Of each bucket the first, the last, the least and the greatest stay, so no spike
    is lost (M4: Jugel, Jerzak, Hackenbroich and Markl, "M4: a visualization-oriented time series
    data aggregation", 2014). Points that are not finite are left out.
    """
    # nextafter: `high` itself belongs to the range, so the right edge is drawn.
    first, end = bisect_left(xs, low), bisect_left(xs, math.nextafter(high, math.inf))
    if end - first <= 4 * buckets or high <= low:
        return [i for i in range(first, end) if math.isfinite(ys[i])]
    kept: list[int] = []
    scale, i = buckets / (high - low), first
    for bucket in range(buckets):
        # The last bucket takes what rounding would leave beyond it.
        stop = end if bucket == buckets - 1 else bisect_left(xs, low + (bucket + 1) / scale, i, end)
        inside = [j for j in range(i, stop) if math.isfinite(ys[j])]
        if inside:
            least, most = min(inside, key=ys.__getitem__), max(inside, key=ys.__getitem__)
            kept += sorted({inside[0], least, most, inside[-1]})
        i = stop
    return kept


def metric_of(series: Series) -> FinalMetric:
    """What is kept of a series; its best value is nobody's before somebody says which it is."""
    odd = not_finite(series.last)
    least = best_at(series.values, series.counts, False)
    most = best_at(series.values, series.counts, True)
    newest = [value for value in series.values[-_LOOKED_AT:] if math.isfinite(value)]
    return FinalMetric(
        last=None if odd else series.last,
        step=series.steps[-1],
        count=len(series),
        minimum=None if least is None else series.values[least],
        maximum=None if most is None else series.values[most],
        minimum_step=None if least is None else series.steps[least],
        maximum_step=None if most is None else series.steps[most],
        source=series.source,
        axis=series.axis,
        # The most among several: a rounded value may show fewer.
        decimals=max(map(decimals_of, newest), default=None),
        finite=sum(map(math.isfinite, series.values)),
        not_finite=odd,
    )
