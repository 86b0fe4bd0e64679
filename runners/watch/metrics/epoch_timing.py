"""A run's rhythm by its own events: how long until its first epoch was done, and how long each
epoch took after it.

The first epoch compiles and warms up (15 to 30 min for the guides' programs), so it is never taken
for the others.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

_HEAD, _TAIL = 512 << 10, 512 << 10


class _Event(msgspec.Struct):
    time: float
    type: str
    epoch: int | None = None
    epochs: int | None = None


_event = msgspec.json.Decoder(_Event)


class EpochTiming(msgspec.Struct, frozen=True):
    """Unix seconds of the program's start and of each epoch's end, in order; how many epochs there
    are in all.
    """

    ends: tuple[tuple[int, float], ...]
    epochs: int | None
    began: float | None

    @property
    def seconds_per_epoch(self) -> float | None:
        """Seconds per epoch after the first; None before two epochs are done."""
        paces = [
            (t1 - t0) / (e1 - e0)
            for (e0, t0), (e1, t1) in zip(self.ends, self.ends[1:], strict=False)
            if e1 > e0
        ]
        return max(0.0, median(paces)) if paces else None

    @property
    def done(self) -> int:
        """Epochs done, those of an earlier attempt that it was resumed from included."""
        return self.ends[-1][0] if self.ends else 0

    def remaining_s(self, now: float) -> float | None:
        """Seconds until its last epoch should be done, by its epochs after the first; None before
        two are done.
        """
        each = self.seconds_per_epoch
        if each is None or not self.epochs:
            return None
        return max(0.0, each * (self.epochs - self.done) - max(0.0, now - self.ends[-1][1]))


def median(values: Sequence[float]) -> float:
    """The middle of some values, of two middles their mean. (`statistics` takes longer to import
    than this to run.)
    """
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def read_epoch_timing(run: Path) -> EpochTiming:
    """The rhythm of the run in this directory, by at most a MiB of its events: the first and the
    last.
    """
    return EpochTimingReader(run).read()


class EpochTimingReader:
    """The rhythm of a run that goes on: the first look reads at most a MiB, the others what is
    new.
    """

    def __init__(self, run: Path) -> None:
        self._path = run / "events.jsonl"
        self._offset, self._rest = 0, b""
        self._ends: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._epochs: int | None = None
        self._began: float | None = None

    def read(self) -> EpochTiming:
        """The rhythm as the events have it now."""
        for line in self._lines():
            try:
                self._note(_event.decode(line))
            except msgspec.DecodeError:
                continue
        # A program that reports metrics alone has ended an epoch when the next one's first metrics
        # are there.
        found = self._ends or {epoch: self._last[epoch] for epoch in sorted(self._last)[:-1]}
        return EpochTiming(tuple(sorted(found.items())), self._epochs, self._began)

    def _note(self, event: _Event) -> None:
        if event.type == "start":
            self._ends, self._last = {}, {}
            self._epochs, self._began = event.epochs, event.time
        elif event.type == "epoch" and event.epoch is not None:
            self._ends[event.epoch] = event.time
        elif event.type == "metrics" and event.epoch is not None:
            self._last[event.epoch] = event.time

    def _lines(self) -> list[bytes]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            size = os.fstat(descriptor).st_size
            begin, self._offset = (self._offset, size) if size >= self._offset else (0, size)
            if size - begin <= _HEAD + _TAIL:
                blocks = [self._rest + os.pread(descriptor, size - begin, begin)]
            else:
                # Half a line on either side of the gap fails to decode and is passed over.
                blocks = [
                    self._rest + os.pread(descriptor, _HEAD, begin),
                    os.pread(descriptor, _TAIL, size - _TAIL),
                ]
        finally:
            os.close(descriptor)
        *whole, self._rest = [line for block in blocks for line in block.split(b"\n")]
        return [*whole, self._rest]
