"""Only the lines of a log that match: found in the background, read like the log itself.

The log is searched a MiB at a time, first where the reader is, then outward; what is appended is
searched before all else. Offsets are kept while there are few; where millions of lines match, only
their number per MiB is kept, and a MiB that is shown is searched again.
"""

import threading
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from runners.watch.logs.reader import BLOCK, LogLine, LogSource
from runners.watch.logs.search import Pattern, count_in_block, hits_between, hits_in_block

KEPT = 1 << 20
"""Offsets kept at most: 8 MiB of memory."""

_RECENT = 8  # blocks searched again whose offsets are remembered
_CHUNK = 64 * 1024
_UNKNOWN = -1


class _Tail(NamedTuple):
    """The last block as far as it is written: its matching lines, and the one that is open."""

    block: int
    hits: "array[int]"
    open_from: int
    searched: int
    open_hit: bool

    def starts(self) -> "array[int]":
        """All of the lines that match."""
        return self.hits + array("Q", [self.open_from]) if self.open_hit else self.hits


class LineFilter:
    """The matching lines of a source: one thread at a time runs `step`, any may read meanwhile."""

    def __init__(self, source: LogSource, pattern: Pattern, near: int = 0) -> None:
        """`near`: the offset to search around first; it may be changed at any time."""
        self._source = source
        self.pattern = pattern
        self.near = near
        self._counts = array("l")
        self._missing = 0
        self._number = 0
        self._kept: dict[int, array[int]] = {}
        self._kept_number = 0
        self._recent: dict[int, array[int]] = {}
        self._tail = _Tail(0, array("Q"), 0, 0, False)
        # The blocks at which the search continues, downward and upward; between them all is done.
        self._down = self._up = 0
        self._turn = threading.Lock()

    @property
    def count(self) -> int:
        """Lines found so far."""
        # The last block is not among the counts yet.
        return self._number + len(self._tail.hits) + self._tail.open_hit

    @property
    def complete(self) -> bool:
        """Whether every byte known of has been searched."""
        return not self._missing and self._tail.searched >= self._source.size

    @property
    def behind(self) -> int:
        """Bytes appended that have not been searched."""
        return self._source.size - self._tail.searched

    @property
    def searched(self) -> float:
        """The share of the log that has been searched, 0 to 1."""
        blocks = len(self._counts) + 1
        return (blocks - self._missing) / blocks if self._missing else 1.0

    def step(self, budget: int) -> bool:
        """Search about `budget` more bytes, unless another thread does; whether all is searched."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            while budget > 0 and not self.complete:
                # What was appended comes first: whoever follows the log waits for exactly that.
                if self._tail.searched < self._source.size:
                    budget -= self._search_tail()
                if budget > 0 and self._missing:
                    budget -= BLOCK
                    block = self._next()
                    if self._kept_number < KEPT:
                        self._keep(block, hits_in_block(self._source, self.pattern, block))
                    else:
                        self._count(block, count_in_block(self._source, self.pattern, block))
                    self._missing -= 1
            return self.complete
        finally:
            self._turn.release()

    # ---- reading, as of a LogSource

    def read_forward(self, start: int, count: int) -> list[LogLine]:
        """At most `count` lines that match, from `start` on, up to where the search has come."""
        starts: list[int] = []
        for block in range(start // BLOCK, self._tail.block + 1):
            hits = self.hits(block)
            if hits is None or len(starts) >= count:
                break
            starts += [hit for hit in hits if hit >= start]
        return self._lines(starts[:count])

    def read_backward(self, end: int, count: int) -> list[LogLine]:
        """At most `count` lines that match before `end`, in the file's order."""
        starts: list[int] = []
        known = False
        for block in range(min(end // BLOCK, self._tail.block), -1, -1):
            hits = self.hits(block)
            # Just appended and not searched yet: what is before it is shown meanwhile.
            if hits is None and not known:
                continue
            known = True
            if hits is None or len(starts) >= count:
                break
            starts[:0] = [hit for hit in hits if hit < end]
        return self._lines(starts[-count:]) if count > 0 else []

    def hits(self, block: int, now: bool = False) -> "array[int] | None":
        """Where the matching lines of a block begin; None if not searched yet and not `now`."""
        tail = self._tail
        if block == tail.block:
            return tail.starts()
        # Read once: `step` may be counting this block in another thread.
        known = self._counts[block] if block < len(self._counts) else _UNKNOWN
        if known == _UNKNOWN and not now:
            return None
        if known == 0:
            return array("Q")
        # Blocks whose offsets were not kept are searched again; a reader moves within a few.
        hits = self._kept.get(block) or self._recent.get(block)
        if hits is None:
            hits = array("Q", hits_in_block(self._source, self.pattern, block))
            if len(self._recent) >= _RECENT:
                self._recent = {}
            self._recent[block] = hits
        return hits

    def _lines(self, starts: Iterable[int]) -> list[LogLine]:
        lines: list[LogLine] = []
        base, chunk = 0, b""
        for start in starts:
            found = chunk.find(b"\n", start - base) if base <= start < base + len(chunk) else -1
            # The chunk before may hold the line already: matches are often close together.
            if found < 0:
                base, chunk = (
                    start,
                    self._source.read(start, min(start + _CHUNK, self._source.size)),
                )
                found = chunk.find(b"\n")
            if found >= 0:
                lines.append(LogLine(start, base + found + 1, chunk[start - base : found + 1]))
            else:
                lines += self._source.read_forward(start, 1)
        return lines

    # ---- searching

    def _search_tail(self) -> int:
        """Search what was appended; returns the bytes it took."""
        tail, size = self._tail, self._source.size
        last = (size - 1) // BLOCK
        # The log grew beyond the block that was last: what is left of that is finished first.
        if tail.block < last:
            end = self._source.start_of((tail.block + 1) * BLOCK)
            rest = hits_between(self._source, self.pattern, tail.open_from, end)
            spent = end - tail.open_from
            self._counts.extend([_UNKNOWN] * (last - len(self._counts)))
            self._keep(tail.block, [*tail.hits, *rest])
            self._missing += last - tail.block - 1
            low = self._source.start_of(last * BLOCK)
            tail = _Tail(last, array("Q"), low, low, False)
        else:
            spent = 0
        open_from = (
            max(tail.open_from, self._source.start_of(size - 1))
            if size > tail.open_from
            else tail.open_from
        )
        # A line that ends in a newline will not change, so nothing is open.
        if self._source.read(size - 1, size) == b"\n":
            open_from = size
        hits = hits_between(self._source, self.pattern, tail.open_from, size)
        open_hit = bool(hits) and hits[-1] == open_from
        # A new array, as a reader may hold the old one; a block has few lines, or they are short.
        known = tail.hits + array("Q", hits[:-1] if open_hit else hits)
        # The open line is searched again each time, because it may go on and then match, or not.
        spent += size - tail.open_from
        self._tail = _Tail(tail.block, known, open_from, size, open_hit)
        return max(1, spent)

    def _next(self) -> int:
        """The block not searched yet that is nearest to the reader."""
        counts = self._counts
        near = min(max(0, self.near // BLOCK), len(counts) - 1)
        # The reader jumped to an unknown place: the search starts over from there.
        if counts[near] == _UNKNOWN:
            self._down = self._up = near
        while self._down >= 0 and (
            self._down == self._tail.block or counts[self._down] != _UNKNOWN
        ):
            self._down -= 1
        while self._up < len(counts) and counts[self._up] != _UNKNOWN:
            self._up += 1
        # The nearer of the two, downward where they are equally far.
        if self._down < 0 or (self._up < len(counts) and self._up - near <= near - self._down):
            return self._up
        return self._down

    def _keep(self, block: int, hits: list[int]) -> None:
        # All of a block or nothing: a part of its offsets would look like all matches.
        if hits and self._kept_number + len(hits) <= KEPT:
            self._kept[block] = array("Q", hits)
            self._kept_number += len(hits)
        self._count(block, len(hits))

    def _count(self, block: int, number: int) -> None:
        self._number += number
        self._counts[block] = number
