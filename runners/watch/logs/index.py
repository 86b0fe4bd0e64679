"""Which line is where: one number per MiB of the file, built a little at a time by any thread."""

import threading
from array import array
from bisect import bisect_right

from runners.watch.logs.reader import BLOCK, LogSource


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
