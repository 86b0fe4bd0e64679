"""What a run reports about itself, read line by line as it comes: progress, pace, metrics, the
loss so far.
"""

import math
import os
from pathlib import Path

import msgspec

from runners.model.events import Event
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.sample import Sample

_event = msgspec.json.Decoder(Event)
_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 512 * 1024


class EventStream(ProgressTracker):
    """The events of one run, followed from its file; `poll` takes in what is new and costs little
    when nothing is.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.summary: dict[str, float | int | None] = {}
        self.images: list[str] = []
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
                self.forget_pace()
                # The first piece after the jump is half a line: it fails to decode and is passed
                # over.
            while self._offset < size:
                block = os.pread(descriptor, 1 << 20, self._offset)
                if not block:
                    break
                self._offset += len(block)
                self._take(block)
        finally:
            os.close(descriptor)
        return True

    def _take(self, block: bytes) -> None:
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            try:
                self._accept(_event.decode(line))
            except (msgspec.DecodeError, OverflowError):
                continue

    def _accept(self, event: Event) -> None:
        if event.type == "start":
            self.epochs, self.steps = event.epochs, event.steps
            self.begin_attempt()
        if event.type == "image" and event.path:
            self.images.append(event.path)
        if event.type == "summary":
            self.summary.update(event.values)
        values = event.values if event.type in ("metrics", "epoch", "summary") else {}
        known = {
            name: float(value) if value is not None else math.nan for name, value in values.items()
        }
        sample = Sample(known, step=event.step, epoch=event.epoch, time=event.time)
        self.note(sample, trend=event.type == "metrics")
        if event.type == "metrics" and event.step is not None:
            self.note_pace(event.time, event.epoch)
