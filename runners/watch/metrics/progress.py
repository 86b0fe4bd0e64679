"""How far a run is, how its loss develops and when it should end, from samples as they come."""

import math
from collections import deque

from msgspec import convert
from msgspec.structs import replace

from runners.model.run import Progress
from runners.model.states import State
from runners.watch.metrics.epoch_means import StepNames, mean_name
from runners.watch.metrics.followed import Extremes, TrackerState
from runners.watch.metrics.pace import EpochCount, StepPace
from runners.watch.metrics.sample import NO_HEADLINE, Sample, decimals_of, headline_rank, sensible

_TREND_POINTS = 240
_RATES = ("samples", "images", "examples", "tokens", "img", "train_samples", "batch", "steps", "it")


_LOOKED_AT = 200
_MOST_METRICS = 300
"""A program that invents a new name on every line must not fill the memory."""
_PRIVATE = ("stated_pace", "stated_eta", "stated_at", "is_partly")
_SHORT_S = 5.0
_PLAIN_STATE = tuple(
    name
    for name in TrackerState.__struct_fields__
    if name not in ("paces", "epoch_paces", "epochs_over", "epochs_begun", "stepped", "by_epoch")
)


class ProgressTracker:
    """Where a run is; keeps only what is recent, for a line in a list and not for a curve."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.metrics: dict[str, float | int | None] = {}
        self.trend: deque[float] = deque(maxlen=_TREND_POINTS)
        self.whole_trend: list[float] = []
        """Every `stride`th value of the headline since the beginning, those that are finite."""
        self.stride = 1
        self.extremes: dict[str, Extremes] = {}
        """Of all finite values since the beginning, unless `is_partial`."""
        self.is_partial = False
        self.noted = 0
        self.newest: deque[float] = deque(maxlen=_TREND_POINTS)
        """The last values of the headline, those that are not finite too; `noted` counts all."""
        self.step_names = StepNames()
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
        self._is_partly = False
        self._pace = StepPace()
        self._epoch_pace = StepPace()
        self._counted = EpochCount()
        self._begun: list[int] = []
        """An epoch, and the step at which it was first seen, of two; they are of one length."""

    def state(self) -> TrackerState:
        """All that another tracker needs to go on with the next sample."""
        fields: dict[str, object] = {}
        for name in _PLAIN_STATE:
            value = getattr(self, f"_{name}" if name in _PRIVATE else name)
            fields[name] = list(value) if isinstance(value, deque) else value
        fields["paces"], fields["epoch_paces"] = self._pace.points, self._epoch_pace.points
        fields["epochs_over"], fields["epochs_begun"] = self._counted.state(), self._begun
        fields["stepped"] = sorted(self.step_names.stepped)
        fields["by_epoch"] = sorted(self.step_names.by_epoch)
        return convert(fields, TrackerState)

    def go_on_from(self, state: TrackerState) -> None:
        """Go on as the tracker whose state it is."""
        self.step_names = StepNames(state.stepped, state.by_epoch)
        for name in _PLAIN_STATE:
            value, own = getattr(state, name), f"_{name}" if name in _PRIVATE else name
            if isinstance(before := getattr(self, own), deque):
                value = deque(value, maxlen=before.maxlen)
            setattr(self, own, value)
        self._pace, self._epoch_pace = StepPace(state.paces), StepPace(state.epoch_paces)
        self._counted.go_on_from(state.epochs_over)
        self._begun = list(state.epochs_begun)

    def forget_pace(self) -> None:
        """What comes next does not continue what was there."""
        self._pace.forget()
        self._epoch_pace.forget()
        self._counted, self._begun = EpochCount(), []

    def forget_place(self) -> None:
        """What comes next may be far from what was there."""
        self.forget_pace()
        self.step = self.epoch = None

    def clock_was_set(self, by: float, now: float, begin: float | None = None) -> None:
        """The clock was set forward by so many seconds, to `now`: nothing has taken that long.

        Or the run was paused for as long, from `begin` on.
        """
        for pace in (self._pace, self._epoch_pace):
            pace.clock_was_set(by, now, begin)
        before = now - by / 2 if begin is None else begin
        if self._stated_at is not None and self._stated_at <= before:
            self._stated_at += by

    def reach(self, axis: str, place: float) -> None:
        """Take the last place in its files, which counts what `axis` is, for where the run is."""
        if axis == "epoch":
            self.epoch = int(place)
        elif axis == "step" and place >= 0:
            self.step = int(place)

    def begin_attempt(self) -> None:
        """The program starts again, and so do its pace and trend."""
        self.forget_pace()
        self.trend.clear()

    def note(self, sample: Sample, trend: bool = True, of_epoch: bool | None = False) -> None:
        """Add what a line or an event says; values `of_epoch` may be means of those by steps."""
        sample = sensible(sample)
        self.last_time = sample.time if sample.time is not None else self.last_time
        self.epoch = self.epoch if sample.epoch is None else max(1, math.ceil(sample.epoch))
        if sample.epochs is not None:
            # NaN means that a total proved wrong.
            self.epochs = int(sample.epochs) if math.isfinite(sample.epochs) else None
        # What is counted from below zero says nothing of how far the run is.
        self.step = self.step if sample.step is None or sample.step < 0 else int(sample.step)
        if sample.steps is not None:
            self.steps = int(sample.steps) if math.isfinite(sample.steps) else None
        self.phase = self.phase if sample.phase is None else sample.phase
        self.batch = self.batch if sample.batch is None else sample.batch
        self._stated_pace = self._stated_pace if sample.pace is None else sample.pace
        if self.step is not None and self.steps is not None and self.step > self.steps:
            # A total that a step passes is a total of something else, of a bar per epoch, say.
            self.steps = None
        if self.epoch is not None and self.epochs is not None and self.epoch > self.epochs:
            self.epochs = None
        self._note_pace(sample)
        self.unit = sample.unit if sample.step is not None else self.unit
        for given, value in sample.values.items():
            if self.step_names.take(given, of_epoch) and given in self.metrics:
                self.metrics[mean_name(given)] = self.metrics.pop(given)
                self.extremes[mean_name(given)] = self.extremes.pop(given)
            name = self.step_names.name_of(given, of_epoch)
            if name in self.metrics or len(self.metrics) < _MOST_METRICS:
                self.metrics[name] = value
                at = next((x for x in (sample.at, self.step, self.epoch) if x is not None), None)
                self._note_extremes(name, value, given not in sample.running, at)
        if trend:
            self._note_trend(sample)

    def _note_pace(self, sample: Sample) -> None:
        if sample.eta is not None:
            # With its moment: an ETA that was printed long ago has shrunk since.
            if self._stated_eta is not None and sample.eta > 3 * (self._stated_eta + _SHORT_S):
                # One that begins anew was of something shorter: of an epoch, an evaluation.
                self._is_partly = True
            self._stated_eta, self._stated_at = sample.eta, sample.time
        if sample.time is not None and sample.step is not None:
            self._pace.note(sample.time, sample.step, self.epoch or 1)
        if self.step is not None and self.epoch is not None and sample.step is not None:
            if not self._begun or self.step < self._begun[-1]:
                self._begun = [self.epoch, self.step]
            elif self.epoch > self._begun[-2]:
                self._begun = [*self._begun[:2], self.epoch, self.step]
        if sample.epoch is not None and self.epoch is not None:
            over = None if sample.over is None else int(sample.over)
            self._counted.note(self.epoch, bool(sample.values), sample.time, over)
            for time, over in self._counted.changed:
                # Each one for itself: the first epoch's pace is left out like a first epoch's.
                self._epoch_pace.note(time, over, 1)

    def progress(self, now: float, epochs: int | None = None, steps: int | None = None) -> Progress:
        """How far the run is, and its ETA; `epochs` and `steps` where the run reports none."""
        epochs, steps = self.epochs or epochs, self.steps or steps
        steps = steps if self.step is None or steps is None or self.step <= steps else None
        epochs = epochs if self.epoch is None or epochs is None or self.epoch <= epochs else None
        by_step = self.step is not None and (steps is not None or not epochs)
        done, total = (self.step, steps) if by_step else (self._counted.at_least, epochs)
        rate, unit = self._rate(self.pace())
        eta = self._eta(now, by_step, self.step if by_step else self._counted.over, total)
        if by_step and self._is_first_epoch and (epochs or 1) > 1:
            # The first epoch of several decodes, compiles and fills caches: it tells no other's.
            eta = None
        return Progress(
            self.epoch,
            epochs,
            self.step,
            steps,
            done / total if done is not None and total else None,
            # Of less than a second nobody would see that it is not over.
            eta if eta is not None and eta >= 1.0 else None,
            self.phase,
            rate,
            unit,
            self.counted,
        )

    def _eta(self, now: float, by_step: bool, done: int | None, total: int | None) -> float | None:
        """Seconds until the last step or epoch; None also when it is done and the run goes on."""
        if not by_step and total and self.step is not None and len(self._begun) == 4:
            # Inside an epoch the steps know more: those of all epochs are as many.
            first, at, last, begun = self._begun
            each = (begun - at) / (last - first)
            # Steps that went on from nothing may count from the run's own start.
            whole = each * (first - 1) <= at <= each * first
            steps = each * total if whole else at + each * (total + 1 - first)
            if (eta := self._pace.remaining_s(max(steps, self.step), now)) is not None:
                return eta if steps > self.step else None
        if done is not None and total:
            if done >= total:
                return None
            # A pace in steps says nothing about epochs.
            pace = self._pace if by_step else self._epoch_pace
            if pace.tells(total):
                # What it leaves open is not known by what the program prints of its pace either.
                return pace.remaining_s(total, now)
            if self._stated_pace is not None and (by_step or self.step is None):
                return _still_left(self._stated_pace * (total - done), self.last_time, now)
        if self._stated_eta is None or self._is_partly:
            return None
        return _still_left(self._stated_eta, self._stated_at, now)

    @property
    def counted(self) -> str:
        """What its places count: steps, or what there is instead."""
        return self.unit or ("epochs" if self.step is None and self.epoch is not None else "steps")

    @property
    def _is_first_epoch(self) -> bool:
        """Whether no step of a second epoch was seen; False where no epoch was."""
        if len(self._begun) < 4:
            return bool(self._begun)
        first, _, last, begun = self._begun
        return last == first + 1 and self.step == begun

    def pace(self) -> float | None:
        """Recent seconds per step, without what is no step, by its own times or its own word."""
        each = self._pace.per_step
        return self._stated_pace if each is None else each

    def _rate(self, pace: float | None) -> tuple[float | None, str]:
        """Samples per second where they are reported or can be computed, else steps."""
        for unit in _RATES if self.metrics else ():
            for name in (f"{unit}_per_second", f"{unit}_per_s", f"{unit}/s", f"{unit}_per_sec"):
                rate = self.metrics.get(name)
                if rate and math.isfinite(rate):
                    return rate, unit.removeprefix("train_")
        if not pace or self.step is None:
            return None, ""
        return (self.batch / pace, "samples") if self.batch else (1 / pace, self.unit or "steps")

    def _note_extremes(self, name: str, value: float, counts: bool, step: float | None) -> None:
        known = self.extremes.get(name)
        if known is None:
            known = self.extremes[name] = Extremes()
        at = None if step is None else float(step)
        known.count, known.last_at = known.count + 1, at
        if known.finite < _LOOKED_AT and math.isfinite(value):
            known.decimals = max(known.decimals or 0, decimals_of(value))
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
                self.whole_trend, self.stride = [], 1
            if name == self.headline:
                self.noted += 1
                self.newest.append(value)
                if math.isfinite(value):
                    self.trend.append(value)
                    self._keep_whole(value)

    def _keep_whole(self, value: float) -> None:
        if self.noted % self.stride == 0:
            self.whole_trend.append(value)
        if len(self.whole_trend) > _TREND_POINTS:
            del self.whole_trend[::2]
            self.stride *= 2


def at_end(progress: Progress, state: State) -> Progress:
    """The progress of a run that has ended so: nothing is left, whatever its last line said.

    A single epoch shows only by its end that it is over. One that ended well is not 95 % done by
    its last `step 19/20`: its count stays as it was told, of which share that is, nobody knows.
    """
    whole = progress.step is None and progress.epoch is not None
    if state is State.DONE and whole and progress.epoch == progress.epochs:
        progress = replace(progress, fraction=1.0)
    elif state is State.DONE and progress.fraction is not None and progress.fraction < 1.0:
        progress = replace(progress, fraction=None)
    return replace(progress, eta_s=None)


def _still_left(seconds: float, since: float | None, now: float) -> float | None:
    """What is left at `now` of seconds that were left at `since`; None when all passed."""
    left = seconds if since is None else seconds - (now - since)
    return left if left > 0 else None
