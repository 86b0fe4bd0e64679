"""A log that grows, is truncated or is replaced while it is shown, and which line is where.

One number per MiB of the file is kept, built a little at a time by any thread.
"""

import os
import threading
from array import array
from bisect import bisect_right
from enum import Enum
from pathlib import Path

from runners.host.files import open_plain
from runners.watch.logs.reader import BLOCK, LogLine, LogSource

_FINGERPRINT = 64


class LineIndex:
    """Lines counted from a source's start, 8 bytes per MiB; safe to read while it is built."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        # marks[k] is the number, from 0, of the line that contains the first byte of block k. It
        # always rises, because a block without a newline ends in a cut.
        self._marks = array("Q", [0])
        self._breaks = 0
        self._last_break = 0
        self._block_has_newline = False
        self._turn = threading.Lock()
        self.scanned = 0

    @property
    def complete(self) -> bool:
        """Whether every byte known of has been counted."""
        return self.scanned >= self._source.size

    @property
    def count(self) -> int:
        """Lines so far; a last line without newline counts."""
        return self._breaks + (self.scanned > self._last_break)

    def step(self, budget: int) -> bool:
        """Count about `budget` more bytes, unless another thread does; whether that is all."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            while budget > 0 and not self.complete:
                read = self._step_block()
                if not read:
                    return True
                budget -= read
            return self.complete
        finally:
            self._turn.release()

    def line_at(self, offset: int) -> int | None:
        """The number, from 0, of the line that begins at `offset`; None where not counted."""
        block = offset // BLOCK
        if offset > self.scanned or block >= len(self._marks):
            return None
        return self._marks[block] + self._source.read(block * BLOCK, offset).count(b"\n")

    def offset_of(self, line: int) -> int | None:
        """Where line `line`, from 0, begins; None where it is not counted yet, or missing."""
        if line < 0 or line >= self.count:
            return None
        block = bisect_right(self._marks, line) - 1
        missing = line - self._marks[block]
        low = block * BLOCK
        # It may begin in an earlier block: the first line of this one is only its rest.
        if not missing:
            return self._source.start_of(low)
        chunk = self._source.read(low, min(low + BLOCK, self.scanned))
        return low + _nth_newline(chunk, missing) + 1

    def _step_block(self) -> int:
        start = self.scanned
        grid = start - start % BLOCK + BLOCK
        chunk = self._source.read(start, min(grid, self._source.size))
        newlines = chunk.count(b"\n")
        if newlines:
            self._breaks += newlines
            self._last_break = start + chunk.rfind(b"\n") + 1
            self._block_has_newline = True
        if start + len(chunk) == grid:
            # A block of one endless line: a cut stands in for its newline, as in the reader.
            if not self._block_has_newline:
                self._breaks += 1
                self._last_break = grid
            self._block_has_newline = False
            # Before `scanned` grows: a reader that sees the new end also finds its mark.
            self._marks.append(self._breaks)
        self.scanned = start + len(chunk)
        return len(chunk)


def _nth_newline(chunk: bytes, nth: int) -> int:
    """Where the `nth` newline is, from 1: by halving, as counting is far faster than stepping."""
    low, high = 0, len(chunk)
    while high - low > 4096:
        middle = (low + high) // 2
        before = chunk.count(b"\n", low, middle)
        if before >= nth:
            high = middle
        else:
            nth -= before
            low = middle
    for _ in range(nth):
        low = chunk.index(b"\n", low, high) + 1
    return low - 1


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
