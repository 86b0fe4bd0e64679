"""An open log file, read by offset: where lines begin and end, and the lines around a place.

A line ends at its newline. So that one line of a hundred megabytes needs no more memory than
another, a line is also cut at every whole MiB of the file that ends a block without a single
newline. Both can be seen from the bytes nearby, whatever is before or after: a place once found to
begin a line always does.
"""

import os
from typing import NamedTuple

from runners.watch.logs.render import LIMIT

BLOCK = 1 << 20
"""In bytes: the grid on which endless lines are cut, and the step of the line index."""

_CHUNK = 64 * 1024


class LogLine(NamedTuple):
    """One line: where it begins, where the next does, its bytes, and how many were not read."""

    start: int
    end: int
    data: bytes
    more: int = 0


class LogSource:
    """A file up to `size`, as last looked at; closed when nobody refers to it any more."""

    def __init__(self, descriptor: int, size: int = 0) -> None:
        self.descriptor = descriptor
        self.size = size

    def __del__(self) -> None:
        # A thread may still count lines of a replaced file: whoever lets go last closes it.
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def status(self) -> os.stat_result:
        """What the system says of the open file."""
        return os.fstat(self.descriptor)

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`; fewer if the file became shorter or went away."""
        if self.descriptor < 0 or end <= start:
            return b""
        try:
            return os.pread(self.descriptor, end - start, start)
        except OSError:
            return b""

    def start_of(self, offset: int) -> int:
        """Where the line begins that contains the byte at `offset`."""
        grid = offset - offset % BLOCK
        found = self._newline_before(grid, offset)
        # No newline since the grid: the line came from the block before, or was cut at the grid.
        if found < 0 and grid > 0:
            found = self._newline_before(grid - BLOCK, grid)
        return found + 1 if found >= 0 else grid

    def end_of(self, start: int) -> int:
        """Where the line ends that begins at `start`."""
        grid = start - start % BLOCK + BLOCK
        found = self._newline_from(start, min(grid, self.size))
        if found >= 0:
            return found + 1
        # A line that begins on the grid and has no newline in its block is cut at the next.
        if start % BLOCK == 0 or grid >= self.size:
            return min(grid, self.size)
        found = self._newline_from(grid, min(grid + BLOCK, self.size))
        return found + 1 if found >= 0 else min(grid + BLOCK, self.size)

    def read_forward(self, start: int, count: int) -> list[LogLine]:
        """At most `count` lines from the one that begins at `start`."""
        lines: list[LogLine] = []
        base, chunk = start, b""
        while len(lines) < count and start < self.size:
            found = chunk.find(b"\n", start - base)
            if found < 0 and base + len(chunk) < self.size:
                base, chunk = start, self.read(start, min(start + _CHUNK, self.size))
                found = chunk.find(b"\n")
            # Longer than a chunk: read its end only, or its beginning.
            if found < 0 and len(chunk) >= _CHUNK:
                line = self._long(start, self.end_of(start))
            else:
                end = base + found + 1 if found >= 0 else base + len(chunk)
                line = LogLine(start, end, chunk[start - base : end - base])
            # The file became shorter while it was read.
            if line.end <= start:
                break
            lines.append(line)
            start = line.end
        return lines

    def read_backward(self, end: int, count: int) -> list[LogLine]:
        """At most `count` lines before `end`, which is a line's end; in the file's order."""
        lines: list[LogLine] = []
        base, chunk = end, b""
        while len(lines) < count and end > 0:
            found = chunk.rfind(b"\n", 0, max(0, end - 1 - base))
            if found < 0 and base > 0:
                base = max(0, end - _CHUNK)
                chunk = self.read(base, end)
                found = chunk.rfind(b"\n", 0, max(0, end - 1 - base))
            if found < 0 and base > 0:
                line = self._long(self.start_of(end - 1), end)
            else:
                line = LogLine(base + found + 1, end, chunk[found + 1 : end - base])
            lines.append(line)
            end = line.start
        lines.reverse()
        return lines

    def _long(self, start: int, end: int) -> LogLine:
        """A line too long to be read whole: a progress bar's last redraws, else its beginning."""
        tail = self.read(max(start, end - LIMIT), end)
        if b"\r" in tail.rstrip(b"\r\n"):
            return LogLine(start, end, tail)
        return LogLine(
            start, end, self.read(start, min(end, start + LIMIT)), max(0, end - start - LIMIT)
        )

    def _newline_before(self, low: int, high: int) -> int:
        # Small steps first, as most lines are short; then whole blocks.
        width = _CHUNK
        while high > low:
            start = max(low, high - width)
            found = self.read(start, high).rfind(b"\n")
            if found >= 0:
                return start + found
            high, width = start, BLOCK
        return -1

    def _newline_from(self, low: int, high: int) -> int:
        width = _CHUNK
        while low < high:
            found = self.read(low, min(high, low + width)).find(b"\n")
            if found >= 0:
                return low + found
            low, width = low + width, BLOCK
        return -1
