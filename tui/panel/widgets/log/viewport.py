"""Which rows of a log are on the screen.

The place is the offset of the line at the top and a row of it, never a count from the start: it is
found without an index, holds while the file grows, and is the same whether lines are wrapped or
not.
"""

from runners.watch.logs.reader import LogLine
from tui.panel.widgets.log.document import LogDocument
from tui.panel.widgets.log.rows import Row, ShownLine

_KEPT_CHARACTERS = 4 << 20
_KEPT_LINES = 1000


class Viewport:
    """A window of rows onto a log. What moves it says whether other rows are on the screen."""

    def __init__(self, document: LogDocument) -> None:
        self._document = document
        self._lines: dict[tuple[int, int], ShownLine] = {}
        self._characters = 0
        self.width = 80
        self.height = 1
        self.wrap = False
        self.top = 0
        self.top_row = 0
        self.left = 0
        """Cells by which the rows are shifted to the left."""
        self.rows: list[Row] = []

    @property
    def bottom(self) -> int:
        """The offset after the last line on the screen."""
        return self.rows[-1].line.end if self.rows else self.top

    @property
    def widest(self) -> int:
        """Cells of the widest line on the screen."""
        return max((row.line.width() for row in self.rows), default=0)

    @property
    def is_full(self) -> bool:
        """Whether no row is empty."""
        return len(self.rows) >= self.height

    def row_of(self, start: int | None) -> int | None:
        """The first row, from 0, of the line that begins at `start`; None: not on the screen."""
        return next((y for y, row in enumerate(self.rows) if row.line.start == start), None)

    def line_near(self, start: int | None) -> ShownLine | None:
        """The line that begins at `start` if it is on the screen, else the one in the middle."""
        if not self.rows:
            return None
        at = self.row_of(start)
        return self.rows[len(self.rows) // 2 if at is None else at].line

    def resize(self, width: int, height: int) -> None:
        """Take another size; the rows are those of before until they are filled."""
        self.width, self.height = width, max(1, height)
        self.left = min(self.left, max(0, self.widest - self.width))

    # ---- moving

    def show_end(self) -> bool:
        """Fill the screen so that it ends with the log's end."""
        missing = self.height
        self.top = self.top_row = 0
        for line in reversed(self._document.shown.read_backward(self._document.size, self.height)):
            count = self._count(line)
            self.top, self.top_row = line.start, max(0, count - missing)
            missing -= count
            if missing <= 0:
                break
        return self._fill()

    def show(self, offset: int, above: int = 0) -> bool:
        """Put the line that begins at `offset` at the top, or `above` rows below it."""
        self.top, self.top_row = offset, 0
        if above:
            self._climb(above)
        return self.fill()

    def reveal(self, start: int, above: int) -> bool:
        """Show the line that begins at `start`, `above` rows below the top if it was below them."""
        if start < self.top or (start == self.top and self.top_row):
            return self.show(start)
        return self.row_of(start) is None and self.show(start, above)

    def fill(self) -> bool:
        """Read again what is on the screen; no row is left empty below lines that are above it."""
        before = self.rows
        self._fill()
        chosen = self._document.filter
        complete = chosen is None or chosen.lines.complete
        if not self.is_full and (self.top or self.top_row) and complete:
            self.show_end()
        return self.rows != before

    def move(self, rows: int) -> bool:
        """Scroll down, or up, by so many rows; whether the place is another one."""
        before = (self.top, self.top_row)
        if rows < 0:
            self._climb(-rows)
        else:
            self._descend(rows)
        self.fill()
        return before != (self.top, self.top_row)

    def shift(self, direction: int) -> bool:
        """Scroll half a screen to the right (1) or left (-1), unless lines are wrapped."""
        if self.wrap:
            return False
        most = max(0, self.widest - self.width)
        left = min(most, max(0, self.left + direction * max(8, self.width // 2)))
        changed, self.left = left != self.left, left
        return changed

    def toggle_wrap(self) -> None:
        """Wrap long lines, or cut them, from the same line on."""
        self.wrap = not self.wrap
        self.left = self.top_row = 0

    def forget(self, keep_row: bool = False) -> None:
        """The bytes may not be what they were: keep the place if there is one."""
        self._lines.clear()
        self._characters = 0
        top = self._document.source.start_of(min(self.top, self._document.size))
        self.top_row = self.top_row if keep_row and top == self.top else 0
        self.top = top

    def _fill(self) -> bool:
        rows: list[Row] = []
        skip = self.top_row
        for line in self._document.shown.read_forward(self.top, self.height):
            shown = self._shown(line)
            starts = shown.rows(self._wrap_width())
            for start, end in zip(starts, [*starts[1:], len(shown.safe.text)], strict=True):
                if skip:
                    skip -= 1
                elif len(rows) < self.height:
                    rows.append(Row(shown, start, end))
            if len(rows) >= self.height:
                break
        changed = rows != self.rows
        self.rows = rows
        return changed

    def _climb(self, rows: int) -> None:
        if rows <= self.top_row:
            self.top_row -= rows
            return
        rows -= self.top_row
        self.top_row = 0
        for line in reversed(self._document.shown.read_backward(self.top, rows)):
            count = self._count(line)
            self.top, self.top_row = line.start, max(0, count - rows)
            rows -= count
            if rows <= 0:
                break

    def _descend(self, rows: int) -> None:
        rows += self.top_row
        for line in self._document.shown.read_forward(self.top, rows + 1):
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
