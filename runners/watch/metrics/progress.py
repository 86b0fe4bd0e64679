"""How far a run is, how its loss develops and when it should end, from samples as they come."""

import math
from collections import deque

from msgspec import convert

from runners.model.run import Progress
from runners.watch.metrics.followed import Extremes, TrackerState
from runners.watch.metrics.sample import NO_HEADLINE, Sample, headline_rank, sensible

_PACES = 60
_TREND_POINTS = 240
_RATES = ("samples", "images", "examples", "tokens", "img", "train_samples", "batch", "steps", "it")


_MOST_METRICS = 300
"""A program that invents a new name on every line must not fill the memory."""
_PRIVATE = ("stated_pace", "stated_eta", "stated_at", "paces", "first_epoch")


class ProgressTracker:
    """Where a run is; keeps only what is recent, for a line in a list and not for a curve."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.metrics: dict[str, float | int | None] = {}
        self.trend: deque[float] = deque(maxlen=_TREND_POINTS)
        self.extremes: dict[str, Extremes] = {}
        """Of all finite values since the beginning, unless `is_partial`."""
        self.is_partial = False
        self.noted = 0
        self.newest: deque[float] = deque(maxlen=_TREND_POINTS)
        """The last values of the headline, those that are not finite too; `noted` counts all."""
        self.headline: str | None = None
        self.epoch: int | None = None
        self.epochs: int | None = None
        self.step: int | None = None
        self.steps: int | None = None
        self.phase: str | None = None
        self.batch: float | None = None
        self.last_time: float | None = None
        self.unit = ""
        self._stated_pace: float | None = None
        self._stated_eta: float | None = None
        self._stated_at: float | None = None
        self._paces: deque[tuple[float, float, int]] = deque(maxlen=_PACES)
        self._first_epoch: int | None = None

    def state(self) -> TrackerState:
        """All that another tracker needs to go on with the next sample."""
        fields: dict[str, object] = {}
        for name in TrackerState.__struct_fields__:
            value = getattr(self, f"_{name}" if name in _PRIVATE else name)
            fields[name] = list(value) if isinstance(value, deque) else value
        return convert(fields, TrackerState)

    def go_on_from(self, state: TrackerState) -> None:
        """Go on as the tracker whose state it is."""
        for name in TrackerState.__struct_fields__:
            value, own = getattr(state, name), f"_{name}" if name in _PRIVATE else name
            if isinstance(before := getattr(self, own), deque):
                value = deque(value, maxlen=before.maxlen)
            setattr(self, own, value)

    def forget_pace(self) -> None:
        """What comes next does not continue what was there."""
        self._paces.clear()

    def forget_place(self) -> None:
        """What comes next may be far from what was there."""
        self.forget_pace()
        self.step = self.epoch = None

    def begin_attempt(self) -> None:
        """The program starts again, and so do its pace and trend."""
        self._paces.clear()
        self.trend.clear()
        self._first_epoch = None

    def note(self, sample: Sample, trend: bool = True) -> None:
        """Add what a line or an event says."""
        sample = sensible(sample)
        self.last_time = sample.time if sample.time is not None else self.last_time
        self.epoch = self.epoch if sample.epoch is None else max(1, math.ceil(sample.epoch))
        if sample.epochs is not None:
            # NaN means that a total proved wrong.
            self.epochs = int(sample.epochs) if math.isfinite(sample.epochs) else None
        self.step = self.step if sample.step is None else int(sample.step)
        if sample.steps is not None:
            self.steps = int(sample.steps) if math.isfinite(sample.steps) else None
        self.phase = self.phase if sample.phase is None else sample.phase
        self.batch = self.batch if sample.batch is None else sample.batch
        self._stated_pace = self._stated_pace if sample.pace is None else sample.pace
        if sample.eta is not None:
            self._stated_eta = sample.eta
            # With its moment: an ETA that was printed long ago has shrunk since.
            self._stated_at = sample.time
        self.unit = sample.unit if sample.step is not None else self.unit
        for name, value in sample.values.items():
            if name in self.metrics or len(self.metrics) < _MOST_METRICS:
                self.metrics[name] = value
                self._note_extremes(name, value, name not in sample.running)
        if trend:
            self._note_trend(sample)

    def note_pace(self, time: float | None, epoch: int | None) -> None:
        """Note that the last step was done at `time` (unix seconds), in `epoch`."""
        done = self.step if self.step is not None else self.epoch
        if time is None or done is None:
            return
        # Which epoch is the first depends on the checkpoint that the run was resumed from.
        if self._first_epoch is None:
            self._first_epoch = epoch or 1
        entry = (time, float(done), epoch or 1)
        # Several lines of one step or one moment are one point; a smaller step is a new count.
        if self._paces and (self._paces[-1][0] == time or self._paces[-1][1] > done):
            self._paces.pop()
        self._paces.append(entry)

    def progress(self, now: float, epochs: int | None = None, steps: int | None = None) -> Progress:
        """How far the run is, and its ETA; `epochs` and `steps` where the run reports none."""
        epochs, steps = self.epochs or epochs, self.steps or steps
        by_step = self.step is not None and (steps is not None or not epochs)
        done, total = (self.step, steps) if by_step else (self.epoch, epochs)
        fraction = min(1.0, done / total) if done is not None and total else None
        # A pace in steps says nothing about epochs.
        pace = self.pace() if by_step or self.step is None else None
        eta = None
        if pace is not None and done is not None and total:
            # Time since the last report counts too: the ETA goes on falling between two reports.
            since = now - self.last_time if self.last_time is not None else 0.0
            eta = max(0.0, pace * (total - done) - since)
        elif self._stated_eta is not None:
            since = now - self._stated_at if self._stated_at is not None else 0.0
            eta = max(0.0, self._stated_eta - since)
        rate, unit = self._rate(self.pace())
        return Progress(
            self.epoch,
            epochs,
            self.step,
            steps,
            fraction,
            eta,
            self.phase,
            rate,
            unit,
            self.unit or "steps",
        )

    def pace(self) -> float | None:
        """Recent seconds per step; the first epoch (compiling) counts only while it is alone."""
        paces = [entry for entry in self._paces if entry[2] != self._first_epoch]
        paces = paces if len(paces) > 1 else list(self._paces)
        if len(paces) < 2 or paces[-1][1] <= paces[0][1]:
            return self._stated_pace
        return (paces[-1][0] - paces[0][0]) / (paces[-1][1] - paces[0][1])

    def _rate(self, pace: float | None) -> tuple[float | None, str]:
        """Samples per second where they are reported or can be computed, else steps."""
        for unit in _RATES:
            for name in (f"{unit}_per_second", f"{unit}_per_s", f"{unit}/s", f"{unit}_per_sec"):
                rate = self.metrics.get(name)
                if rate and math.isfinite(rate):
                    return rate, unit.removeprefix("train_")
        if not pace or self.step is None:
            return None, ""
        return (self.batch / pace, "samples") if self.batch else (1 / pace, self.unit or "steps")

    def _note_extremes(self, name: str, value: float, counts: bool) -> None:
        known = self.extremes.get(name)
        if known is None:
            known = self.extremes[name] = Extremes()
        at = None if self.step is None else float(self.step)
        known.count, known.last_at = known.count + 1, at
        if not math.isfinite(value):
            return
        known.finite += 1
        if not counts:
            return
        if known.least is None or value < known.least:
            known.least, known.least_at = value, at
        if known.most is None or value > known.most:
            known.most, known.most_at = value, at

    def _note_trend(self, sample: Sample) -> None:
        for name, value in sample.values.items():
            rank = headline_rank(name)
            # A better headline has appeared: the trend of another metric must not go on in it.
            if rank < (NO_HEADLINE if self.headline is None else headline_rank(self.headline)):
                self.headline = name
                self.trend.clear()
                self.newest.clear()
                self.noted = 0
            if name == self.headline:
                self.noted += 1
                self.newest.append(value)
                if math.isfinite(value):
                    self.trend.append(value)
