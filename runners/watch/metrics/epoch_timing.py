"""Epoch times by a run's own events; the first epoch compiles, and never predicts the others."""

from pathlib import Path

import msgspec

from runners.model.events import Event
from runners.model.units import median
from runners.watch.metrics.event_reader import EventReader
from runners.watch.metrics.followed import ClockState
from runners.watch.metrics.sample import is_sensible

_MOST_EPOCHS = 512
"""The newest of more: an epoch of long ago says little of the next."""


class EpochTiming(msgspec.Struct, frozen=True):
    """When the program started and each epoch ended (unix seconds), and the number of epochs."""

    ends: tuple[tuple[int, float], ...]
    epochs: int | None
    began: float | None
    stage_from: float = 0.0
    """When the stage that runs was first heard of (unix seconds); 0.0 without stages."""

    @property
    def of_stage(self) -> "EpochTiming":
        """The timing of the epochs of the stage that runs: stages have a pace of their own."""
        ends = tuple(end for end in self.ends if end[1] >= self.stage_from)
        return msgspec.structs.replace(self, ends=ends)

    @property
    def seconds_per_epoch(self) -> float | None:
        """Seconds per epoch after the first; None before two epochs are done."""
        # Some epochs may be missing (a long file's middle is skipped), hence the division.
        paces = [
            (t1 - t0) / (e1 - e0)
            for (e0, t0), (e1, t1) in zip(self.ends, self.ends[1:], strict=False)
            if e1 > e0
        ]
        return max(0.0, median(paces)) if paces else None

    @property
    def done(self) -> int:
        """Epochs done, including those of an earlier attempt that it was resumed from."""
        return self.ends[-1][0] if self.ends else 0

    def remaining_s(self, now: float) -> float | None:
        """Seconds until its last epoch should be done; None before two are, or when it is late."""
        each = self.seconds_per_epoch
        if each is None or not self.epochs:
            return None
        # The time since the last epoch's end is part of the running one.
        left = each * (self.epochs - self.done) - max(0.0, now - self.ends[-1][1])
        return left if left > 0 else None


class EpochClock:
    """When each epoch ended, from a run's events as they come."""

    def __init__(self, kept: ClockState | None = None) -> None:
        """`kept` is what another clock knew, from which this one goes on."""
        self.kept = kept or ClockState({}, {}, None, None)

    def note(self, event: Event) -> None:
        """Add an event; a start discards what was before it."""
        kept = self.kept
        if not is_sensible(event.time):
            return
        if event.type == "start":
            # A new attempt may run on other GPUs, or compile again.
            kept.ends, kept.last = {}, {}
            kept.epochs, kept.began = event.epochs, event.time
        elif event.type == "epoch" and event.epoch is not None:
            kept.ends[event.epoch] = event.time
        elif event.type == "metrics" and event.epoch is not None:
            kept.last[event.epoch] = event.time

        if event.stage and event.stage != kept.stage:
            kept.stage, kept.stage_from = event.stage, event.time
        for times in (kept.ends, kept.last):
            if len(times) > _MOST_EPOCHS:
                del times[next(iter(times))]

    @property
    def timing(self) -> EpochTiming:
        """The timing so far; where only metrics come, the first of the next epoch end an epoch."""
        kept = self.kept
        found = kept.ends or {epoch: kept.last[epoch] for epoch in sorted(kept.last)[:-1]}
        return EpochTiming(tuple(sorted(found.items())), kept.epochs, kept.began, kept.stage_from)


def read_epoch_timing(run: Path) -> EpochTiming:
    """The timing of the run in this directory, from the head and the tail of its events."""
    return EpochTimingReader(run).read()


class EpochTimingReader:
    """The timing of a live run: the first read takes head and tail, later ones what is new."""

    def __init__(self, run: Path) -> None:
        self._clock, self._reader = EpochClock(), EventReader(run / "events.jsonl")

    def read(self) -> EpochTiming:
        """The timing as the events have it now."""
        for event in self._reader.all_new(jump=True):
            self._clock.note(event)
        return self._clock.timing
