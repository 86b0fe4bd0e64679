"""What a run reports about itself, read line by line as it comes: progress, pace, metrics, the loss so far."""

import os
from collections import deque
from pathlib import Path

import msgspec

from runners.model.events import Event
from runners.model.run import Progress

_event = msgspec.json.Decoder(Event)
_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 512 * 1024
_PACE_EVENTS = 60
_TREND_POINTS = 240


class EventStream:
    """The events of one run, followed from its file; `poll` takes in what is new and costs little when nothing is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics: dict[str, float | int | None] = {}
        self.summary: dict[str, float | int | None] = {}
        self.trend: deque[float] = deque(maxlen=_TREND_POINTS)
        self.images: list[str] = []
        self.epoch: int | None = None
        self.epochs: int | None = None
        self.step: int | None = None
        self.steps: int | None = None
        self.last_time: float | None = None
        self._paces: deque[tuple[float, int, int]] = deque(maxlen=_PACE_EVENTS)
        self._offset = 0
        self._rest = b""

    def poll(self) -> bool:
        """Read what was appended since the last call; True when anything was."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            size = os.fstat(descriptor).st_size
            if size < self._offset:
                self.__init__(self.path)  # type: ignore[misc]  # truncated: begin again
            if size == self._offset:
                return False
            if self._offset == 0 and size > _HEAD_BYTES + _TAIL_BYTES:
                self._take(os.pread(descriptor, _HEAD_BYTES, 0))
                self._offset, self._rest = size - _TAIL_BYTES, b""
                self._paces.clear()
                # The first piece after the jump is half a line: it fails to decode and is passed over.
            while self._offset < size:
                block = os.pread(descriptor, 1 << 20, self._offset)
                if not block:
                    break
                self._offset += len(block)
                self._take(block)
        finally:
            os.close(descriptor)
        return True

    def progress(self, now: float) -> Progress:
        """How far the run is, and when it should end by its own pace after the first epoch."""
        fraction = self.step / self.steps if self.step is not None and self.steps else None
        pace = self.pace()
        eta = None
        if pace is not None and self.step is not None and self.steps and self.last_time is not None:
            eta = max(0.0, pace * (self.steps - self.step) - (now - self.last_time))
        return Progress(self.epoch, self.epochs, self.step, self.steps, fraction, eta)

    def pace(self) -> float | None:
        """Seconds per step, lately; the first epoch (compiling, warming up) counts only while it is all there is."""
        paces = [entry for entry in self._paces if entry[2] > 1] or list(self._paces)
        if len(paces) < 2 or paces[-1][1] <= paces[0][1]:
            return None
        return (paces[-1][0] - paces[0][0]) / (paces[-1][1] - paces[0][1])

    def _take(self, block: bytes) -> None:
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            try:
                self._accept(_event.decode(line))
            except (msgspec.DecodeError, OverflowError):
                continue

    def _accept(self, event: Event) -> None:
        loss = event.values.get("loss") if event.type == "metrics" else None
        point = None if loss is None else float(loss)
        if event.type == "start":
            self.epochs, self.steps = event.epochs, event.steps
            self._paces.clear()
            self.trend.clear()
        if event.type == "image" and event.path:
            self.images.append(event.path)
        self.last_time = event.time
        self.epoch = event.epoch if event.epoch is not None else self.epoch
        self.step = event.step if event.step is not None else self.step
        if event.type == "summary":
            self.summary.update(event.values)
        if event.type in ("metrics", "epoch", "summary"):
            self.metrics.update(event.values)
        if event.type == "metrics":
            if point is not None:
                self.trend.append(point)
            if event.step is not None:
                self._paces.append((event.time, event.step, event.epoch or 1))
