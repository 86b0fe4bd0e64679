"""The series of one source, built sample by sample."""

from runners.watch.metrics.epoch_means import StepNames, mean_name
from runners.watch.metrics.sample import Sample, sensible
from runners.watch.metrics.series import UNKNOWN, Series

_MOST_SERIES = 300
"""A program that invents a new name on every line must not fill the memory."""


class SeriesSet:
    """Series by name; a new attempt's values replace earlier ones from its first place on."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._printed = source == "output"
        self.series: dict[str, Series] = {}
        self.dropped = False
        self._step: float | None = None
        self._fresh = False
        self._axis = "line"
        self._stage = ""
        self._names = StepNames()

    def begin_attempt(self) -> None:
        """The program starts again, perhaps from a checkpoint."""
        self._fresh, self._step = True, None

    def note(self, sample: Sample, of_epoch: bool | None = False) -> None:
        """Add values at the sample's step; else at the last, by epoch or count, replacing none.

        Those `of_epoch` are means where steps report the same metric.
        """
        sample = sensible(sample)
        place = next((at for at in (sample.at, sample.step) if at is not None), self._step)
        place = place if place is not None else sample.epoch
        if sample.step is not None:
            self._step, self._axis = sample.step, sample.unit.removesuffix("s") or "step"
        if self._step is None:
            self._axis = "line" if sample.epoch is None else "epoch"
        if place is not None and self._fresh and sample.values and sample.at is None:
            # The first place of a new attempt: what the one before did beyond it was lost with it.
            self._fresh = False
            for series in self.series.values():
                series.cut(place)
        self._stage = self._stage if sample.phase is None else sample.phase
        epoch = UNKNOWN if sample.epoch is None else sample.epoch
        time = UNKNOWN if sample.time is None else sample.time
        for name, value in sample.values.items():
            if self._names.take(name, of_epoch) and name in self.series:
                means = self.series.pop(name)
                means.name = mean_name(name)
                self.series[means.name] = means
            found = self._named(self._names.name_of(name, of_epoch))
            if found is not None:
                counts = name not in sample.running
                found.axis = self._axis
                self._add(found, sample.step, place, value, epoch, time, counts)
                if self._stage:
                    found.begin_stage(self._stage)

    def last(self, name: str) -> float | None:
        """The newest value of a metric; None where it has none."""
        series = self.series.get(name)
        return series.last if series is not None and series.values else None

    def filled(self) -> dict[str, Series]:
        """The series that have a value."""
        return {name: series for name, series in self.series.items() if series.values}

    def _add(
        self,
        series: Series,
        step: float | None,
        place: float | None,
        value: float,
        epoch: float,
        time: float,
        counts: bool,
    ) -> None:
        if step is None:
            at = self._next(series) if place is None else place
            series.append(at, value, epoch, time, counts)
        elif self._printed and series.steps and step == series.steps[-1]:
            # A redraw: another value for the same step is kept beside the first.
            if series.values[-1] != value and (value == value or series.last == series.last):
                series.append(step, value, epoch, time, counts)
            series.counts[-1] |= counts
        else:
            series.add(step, value, epoch, time, counts)

    def _next(self, series: Series) -> float:
        return series.steps[-1] + 1 if series.steps else 1.0

    def _named(self, name: str) -> Series | None:
        series = self.series.get(name)
        if series is None:
            if len(self.series) >= _MOST_SERIES:
                self.dropped = True
                return None
            series = self.series[name] = Series(name, self.source)
        return series
