"""Which rows of a log are on the screen.

The place is the offset of the line at the top and a row of it, never a count from the start: it is
found without an index, holds while the file grows, and is the same whether lines are wrapped or
not.
"""

from typing import NamedTuple

from runners.watch.logs.file import LogFile
from runners.watch.logs.filter import LineFilter
from runners.watch.logs.reader import LogLine, LogSource
from tui.panel.widgets.log.rows import ShownLine

_KEPT_CHARACTERS = 4 << 20
_KEPT_LINES = 1000


class Row(NamedTuple):
    """One row of the screen: characters of a line."""

    line: ShownLine
    start: int
    end: int


class Viewport:
    """A window of rows onto a log."""

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self._lines: dict[tuple[int, int], ShownLine] = {}
        self._characters = 0
        self.width = 80
        self.height = 1
        self.wrap = False
        self.top = 0
        self.top_row = 0
        self.rows: list[Row] = []
        self.matching: LineFilter | None = None
        """The only lines shown, if not all are."""

    @property
    def lines(self) -> LineFilter | LogSource:
        """Where lines are read from."""
        return self.matching if self.matching is not None else self._log.source

    @property
    def bottom(self) -> int:
        """The offset after the last line on the screen."""
        return self.rows[-1].line.end if self.rows else self.top

    @property
    def widest(self) -> int:
        """Cells of the widest line on the screen."""
        return max((row.line.width() for row in self.rows), default=0)

    def show_end(self) -> None:
        """Fill the screen so that it ends with the log's end."""
        missing = self.height
        self.top = self.top_row = 0
        for line in reversed(self.lines.read_backward(self._log.size, self.height)):
            count = self._count(line)
            self.top, self.top_row = line.start, max(0, count - missing)
            missing -= count
            if missing <= 0:
                break
        self._fill()

    def show(self, offset: int, above: int = 0) -> None:
        """Put the line that begins at `offset` at the top, or `above` rows below it."""
        self.top, self.top_row = offset, 0
        if above:
            self._climb(above)
        self.fill()

    def fill(self) -> None:
        """Read again what is on the screen; no empty rows are left below while there are lines
        above.
        """
        self._fill()
        complete = self.matching is None or self.matching.complete
        if len(self.rows) < self.height and (self.top or self.top_row) and complete:
            self.show_end()

    def move(self, rows: int) -> None:
        """Scroll down, or up, by so many rows."""
        if rows < 0:
            self._climb(-rows)
        else:
            self._descend(rows)
        self.fill()

    def forget(self, keep_row: bool = False) -> None:
        """The bytes may not be what they were: keep the place if there is one."""
        self._lines.clear()
        self._characters = 0
        top = self._log.source.start_of(min(self.top, self._log.size))
        self.top_row = self.top_row if keep_row and top == self.top else 0
        self.top = top

    def _fill(self) -> None:
        rows: list[Row] = []
        skip = self.top_row
        for line in self.lines.read_forward(self.top, self.height):
            shown = self._shown(line)
            starts = shown.rows(self._wrap_width())
            for start, end in zip(starts, [*starts[1:], len(shown.safe.text)], strict=True):
                if skip:
                    skip -= 1
                elif len(rows) < self.height:
                    rows.append(Row(shown, start, end))
            if len(rows) >= self.height:
                break
        self.rows = rows

    def _climb(self, rows: int) -> None:
        if rows <= self.top_row:
            self.top_row -= rows
            return
        rows -= self.top_row
        self.top_row = 0
        for line in reversed(self.lines.read_backward(self.top, rows)):
            count = self._count(line)
            self.top, self.top_row = line.start, max(0, count - rows)
            rows -= count
            if rows <= 0:
                break

    def _descend(self, rows: int) -> None:
        rows += self.top_row
        for line in self.lines.read_forward(self.top, rows + 1):
            count = self._count(line)
            self.top, self.top_row = line.start, min(rows, count - 1)
            rows -= count
            if rows < 0:
                break

    def _count(self, line: LogLine) -> int:
        return len(self._shown(line).rows(self._wrap_width()))

    def _wrap_width(self) -> int:
        return max(1, self.width) if self.wrap else 0

    def _shown(self, line: LogLine) -> ShownLine:
        key = (line.start, line.end)
        shown = self._lines.get(key)
        if shown is None:
            if self._characters > _KEPT_CHARACTERS or len(self._lines) > _KEPT_LINES:
                self._lines.clear()
                self._characters = 0
            shown = self._lines[key] = ShownLine(line)
            self._characters += len(shown.safe.text)
        return shown
