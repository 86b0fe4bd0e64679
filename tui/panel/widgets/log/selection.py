"""Lines of a log chosen to be taken elsewhere."""

from __future__ import annotations

from runners.watch.logs.filter import LineFilter
from runners.watch.logs.reader import LogSource


class LogSelection:
    """From the line where it was begun to the line where it ends now, both by their offsets."""

    def __init__(self) -> None:
        self._begun: int | None = None
        self._end = 0

    @property
    def active(self) -> bool:
        """Whether lines are selected."""
        return self._begun is not None

    @property
    def range(self) -> tuple[int, int] | None:
        """Where the first and the last selected line begin; None: no selection."""
        if self._begun is None:
            return None
        return min(self._begun, self._end), max(self._begun, self._end)

    def begin(self, start: int) -> None:
        """Select the line that begins at `start`."""
        self._begun = self._end = start

    def clear(self) -> bool:
        """Select nothing; whether something was selected."""
        was, self._begun = self.active, None
        return was

    def contains(self, start: int) -> bool:
        """Whether the line that begins at `start` is selected."""
        chosen = self.range
        return chosen is not None and chosen[0] <= start <= chosen[1]

    def extend(self, lines: LineFilter | LogSource, by: int) -> int | None:
        """Move the end by so many of the lines shown; where it is now, None if it did not move."""
        if by > 0:
            found = lines.read_forward(self._end, by + 1)[-1:]
        else:
            found = lines.read_backward(self._end, -by)[:1]
        return self._end_at(found[0].start) if found else None

    def extend_to_start(self, lines: LineFilter | LogSource) -> int | None:
        """Select up to the first line shown; where that begins."""
        found = lines.read_forward(0, 1)
        return self._end_at(found[0].start) if found else None

    def extend_to_end(self, lines: LineFilter | LogSource, size: int) -> int | None:
        """Select down to the last line shown before `size`; where that begins."""
        found = lines.read_backward(size, 1)
        return self._end_at(found[0].start) if found else None

    def _end_at(self, start: int) -> int | None:
        if not self.active or start == self._end:
            return None
        self._end = start
        return start
