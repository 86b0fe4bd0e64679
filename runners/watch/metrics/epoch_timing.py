"""Epoch times by a run's own events; the first epoch compiles, and never predicts the others."""

from pathlib import Path

import msgspec

from runners.model.events import Event
from runners.model.units import median
from runners.watch.metrics.event_reader import EventReader
from runners.watch.metrics.followed import ClockState

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

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._epochs: int | None = None
        self._began: float | None = None
        self._stage, self._stage_from = "", 0.0

    def note(self, event: Event) -> None:
        """Add an event; a start discards what was before it."""
        if event.type == "start":
            # A new attempt may run on other GPUs, or compile again.
            self._ends, self._last = {}, {}
            self._epochs, self._began = event.epochs, event.time
        elif event.type == "epoch" and event.epoch is not None:
            self._ends[event.epoch] = event.time
        elif event.type == "metrics" and event.epoch is not None:
            self._last[event.epoch] = event.time

        if event.stage and event.stage != self._stage:
            self._stage, self._stage_from = event.stage, event.time
        for times in (self._ends, self._last):
            if len(times) > _MOST_EPOCHS:
                del times[next(iter(times))]

    def state(self) -> ClockState:
        """All that another clock needs to go on with the next event."""
        ends, last = self._ends, self._last
        return ClockState(ends, last, self._epochs, self._began, self._stage, self._stage_from)

    def go_on_from(self, state: ClockState) -> None:
        """Go on as the clock whose state it is."""
        self._ends, self._last = dict(state.ends), dict(state.last)
        self._epochs, self._began = state.epochs, state.began
        self._stage, self._stage_from = state.stage, state.stage_from

    @property
    def timing(self) -> EpochTiming:
        """The timing so far; where only metrics come, the first of the next epoch end an epoch."""
        found = self._ends or {epoch: self._last[epoch] for epoch in sorted(self._last)[:-1]}
        return EpochTiming(
            tuple(sorted(found.items())), self._epochs, self._began, self._stage_from
        )


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
