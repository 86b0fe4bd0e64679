"""A log that grows, is truncated or is replaced while it is shown."""

import os
from enum import Enum
from pathlib import Path

from runners.host.files import open_plain
from runners.watch.logs.index import LineIndex
from runners.watch.logs.reader import LogLine, LogSource

_FINGERPRINT = 64


class Change(Enum):
    """What `refresh` found."""

    NONE = "as before"
    GROWN = "longer"
    TRUNCATED = "cut short or written anew"
    REPLACED = "another file"


class LogFile:
    """A log by its path: empty without path or file, a deleted one as it was last seen."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None
        self._ending = b""
        self._begin(LogSource(-1))
        self.refresh()

    @property
    def size(self) -> int:
        """Bytes, as of the last refresh."""
        return self.source.size

    @property
    def line_count(self) -> tuple[int, bool]:
        """How many lines, and whether they were counted (else estimated from those read)."""
        if self.index.complete:
            return self.index.count, True
        if self.index.scanned:
            return self.index.count * self.size // self.index.scanned, False
        # By the mean length of the last lines: the index has not begun yet.
        last = self.tail(200)
        return len(last) * self.size // max(1, self.size - last[0].start), False

    def refresh(self) -> Change:
        """Look at the file again; cheap when nothing happened."""
        if self.path is None:
            return Change.NONE
        try:
            found = self.path.stat()
        except OSError:
            return Change.NONE
        if (found.st_dev, found.st_ino) != self._identity:
            return self._open(self.path)
        if found.st_size < self.size or (found.st_size > self.size and not self._continues()):
            # A descriptor of its own for the new source: threads may still read by the old one.
            self._begin(LogSource(os.dup(self.source.descriptor), found.st_size))
            return Change.TRUNCATED
        if found.st_size == self.size:
            return Change.NONE
        self._extend(found.st_size)
        return Change.GROWN

    def lines(self, first: int, count: int) -> list[bytes]:
        """Lines by number, from 0; none where the index has not come yet."""
        start = self.index.offset_of(first)
        lines = () if start is None else self.source.read_forward(start, count)
        return [line.data for line in lines]

    def tail(self, count: int) -> list[LogLine]:
        """The last lines; needs no index."""
        return self.source.read_backward(self.size, count)

    def _open(self, path: Path) -> Change:
        try:
            descriptor = open_plain(path)
        except OSError:
            return Change.NONE
        source = LogSource(descriptor)
        found = source.status()
        known, self._identity = self._identity, (found.st_dev, found.st_ino)
        self._begin(source, found.st_size)
        if known is None:
            return Change.GROWN if found.st_size else Change.NONE
        return Change.REPLACED

    def _begin(self, source: LogSource, size: int = -1) -> None:
        # A new index, never an emptied one: a thread may still be counting for the old.
        self.source = source
        self.index = LineIndex(source)
        self._extend(source.size if size < 0 else size)

    def _extend(self, size: int) -> None:
        self.source.size = size
        self._ending = self.source.read(max(0, size - _FINGERPRINT), size)

    def _continues(self) -> bool:
        """Whether the last known bytes are in their place: not in a log truncated and refilled."""
        return self.source.read(max(0, self.size - _FINGERPRINT), self.size) == self._ending
