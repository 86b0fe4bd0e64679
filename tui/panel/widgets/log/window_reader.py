"""A log as it is being read: which one, which rows of it, what is selected, whether it follows.

Knows no screen: what moves the reader says whether there is something to paint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runners.watch.logs.index import Change
from runners.watch.logs.reader import LogLine, LogSource
from tui.panel.widgets.log.document import LogDocument
from tui.panel.widgets.log.rows import ShownLine
from tui.panel.widgets.log.viewport import Viewport

if TYPE_CHECKING:
    from runners.watch.logs.extract import Lines
    from runners.watch.logs.filter import LineFilter


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
            return self.extend_to(lines.read_forward(self._end, by + 1)[-1:])
        return self.extend_to(lines.read_backward(self._end, -by)[:1])

    def extend_to(self, lines: Sequence[LogLine]) -> int | None:
        """Move the end to the first of these; where it is now, None if it did not move."""
        if not lines or not self.active or lines[0].start == self._end:
            return None
        self._end = lines[0].start
        return self._end


class LogPlace(NamedTuple):
    """How one looked at a log, for when one comes back."""

    wrap: bool
    following: bool
    top: int
    top_row: int


class Part(NamedTuple):
    """Lines to take elsewhere: where the first and the last begin; `number` (from 0) of one."""

    lines: Lines
    first: int
    last: int
    number: int | None


class LogReader:
    """A document, the rows of it that are seen, and the lines chosen. It begins at the end."""

    def __init__(self, path: Path | None = None, place: LogPlace | None = None) -> None:
        """`place`: how the log was left the last time."""
        self.document = LogDocument(path)
        self.view = Viewport(self.document)
        self.selection = LogSelection()
        self.following = True
        """Whether the end is shown and stays shown as the log grows; only `follow` sets it."""
        self.found_at: int | None = None
        """Where the line begins that was gone to last; None after the reader moved."""
        self.wanted_line: int | None = None
        """The line, from 1, to go to once it is counted."""
        self.paused_at = (0, 0)
        """Lines (-1: not known) and bytes there were when it ceased to follow."""
        self.painted_size = 0
        self._before_filter = (0, True)
        if place is not None:
            self.view.wrap = place.wrap
            if not place.following:
                self.follow(False)
                self.view.top, self.view.top_row = place.top, place.top_row
                self.view.forget(keep_row=True)

    @property
    def place(self) -> LogPlace:
        """How the log is looked at."""
        return LogPlace(self.view.wrap, self.following, self.view.top, self.view.top_row)

    @property
    def line(self) -> ShownLine | None:
        """The line that keys act on: the one gone to last, or the one in the middle."""
        return self.view.line_near(self.found_at)

    @property
    def news_is_below(self) -> bool:
        """Whether what is appended lies below the screen: it stands still then."""
        return not self.following and self.view.is_full and self.view.bottom < self.painted_size

    @property
    def near(self) -> int:
        """The offset that is looked at."""
        return self.document.size if self.following else self.view.top

    def follow(self, following: bool) -> None:
        """Follow the end, or remember how much there was when the reader stopped."""
        if self.following and not following:
            count, exact = self.document.line_count
            self.paused_at = (count if exact else -1, self.document.size)
        self.following = following

    def refresh(self) -> Change:
        """Look at the file again; nothing that was chosen or gone to is in another one."""
        change = self.document.refresh()
        if change in (Change.TRUNCATED, Change.REPLACED):
            self.view.forget()
            self.selection.clear()
            self.found_at = None
            self.painted_size = 0
            self.paused_at = (-1, self.document.size)
        return change

    def fill(self, force: bool) -> bool:
        """Read what belongs on the screen; unless forced, only what can have changed."""
        changed = False
        if self.following:
            changed = self.view.show_end()
        elif force or not self.news_is_below:
            changed = self.view.fill()
        self.painted_size = self.document.size
        return changed

    # ---- moving

    def move(self, rows: int) -> bool:
        """Scroll by so many rows, or move the selection's end; up ends the following."""
        if self.selection.active:
            return self._reveal(self.selection.extend(self.document.shown, rows))
        if not self.view.move(rows):
            return False
        if rows < 0:
            self.follow(False)
        self.found_at = None
        return True

    def go_start(self) -> bool:
        """Show the first line, or select up to it."""
        if self.selection.active:
            return self._reveal(self.selection.extend_to(self.document.shown.read_forward(0, 1)))
        return self.go(0)

    def go_end(self) -> bool:
        """Follow the end, or select down to it."""
        if self.selection.active:
            last = self.document.shown.read_backward(self.document.size, 1)
            return self._reveal(self.selection.extend_to(last))
        self.found_at = None
        self.follow(True)
        return True

    def go_line(self, number: int) -> bool:
        """Show line `number`, from 1; False: it must be counted first, and is waited for."""
        index = self.document.index
        start = index.offset_of(number - 1)
        if start is None and not index.complete:
            self.wanted_line = number
            return False
        self.wanted_line = None
        if start is None:
            start = self.document.size if number > 0 else 0
        return self.go(start)

    def go_percent(self, percent: float) -> bool:
        """Show the line at so many percent of the bytes."""
        share = min(max(percent, 0.0), 100.0) / 100
        return self.go(self.document.source.start_of(int(self.document.size * share)))

    def go(self, start: int) -> bool:
        """Show the line that begins at `start` at the top."""
        self.follow(False)
        self.view.show(start)
        return True

    def go_to_found(self, start: int) -> None:
        """Show a line that was looked for, without moving if it is on the screen."""
        self.found_at = start
        self.follow(False)
        if self.view.row_of(start) is None:
            self.view.show(start, above=self.view.height // 3)

    def seek_from(self, backward: bool) -> int:
        """The offset from which to look for something further on."""
        if self.found_at is not None:
            return self.found_at
        if backward and self.following:
            return self.view.bottom
        return self.view.top - (not backward)

    # ---- the selection

    def toggle_selection(self) -> bool:
        """Begin a selection at the line that keys act on; again: end it; False without a line."""
        line = self.line
        if self.selection.clear():
            return True
        if line is None:
            return False
        self.follow(False)
        self.selection.begin(line.start)
        return True

    def take_lines(self) -> Part | None:
        """The selection, which ends, or the line that keys act on; None without any line."""
        line, chosen = self.line, self.selection.range
        if line is None:
            return None
        self.selection.clear()
        if chosen is None:
            number = self.document.index.line_at(line.start)
            return Part(self.document.source, line.start, line.start, number)
        number = self.document.index.line_at(chosen[0]) if chosen[0] == chosen[1] else None
        return Part(self.document.shown, *chosen, number)

    def take_bytes(self) -> tuple[int, int]:
        """Where the selection, which ends, begins and ends in the file; without any, all of it."""
        chosen = self.selection.range
        self.selection.clear()
        if chosen is None:
            return 0, self.document.size
        return chosen[0], self.document.source.end_of(chosen[1])

    def _reveal(self, end: int | None) -> bool:
        """Stay with the selection's end, which moved to this line."""
        if end is None:
            return False
        self.view.reveal(end, above=self.view.height - 1)
        return True

    # ---- the filter

    def filter(self, text: str, regex: bool = False) -> bool:
        """Show only lines that match, among those of the rank shown; raises BadExpression."""
        chosen = self.document.filter
        return self._set_filter(text, regex, chosen.rank if chosen is not None else None)

    def show_next_rank(self, ranks: list[int]) -> bool:
        """Show the lines of the next of these ranks that match, after the last one those of all."""
        chosen, rank = self.document.filter, self.document.rank_after(ranks)
        if chosen is None:
            return self._set_filter("", False, rank)
        return self._set_filter(chosen.text, chosen.regex, rank)

    def _set_filter(self, text: str, regex: bool, rank: int | None) -> bool:
        if not text and rank is None:
            return self.end_filter()
        before = (self.view.top, self.following)
        first = self.document.filter is None
        self.document.set_filter(text, regex, rank, self.near)
        if first:
            self._before_filter = before
        return True

    def end_filter(self) -> bool:
        """Show all lines; the one that was looked at stays where it is."""
        view, rows = self.view, self.view.rows
        at = view.row_of(self.found_at)
        if at is None:
            at = len(rows) - 1 if self.following else 0
        if not self.document.set_filter(""):
            return False
        if not rows:
            top, following = self._before_filter
            self.follow(following)
            view.show(top)
            return True
        start = rows[at].line.start
        view.show_end()
        if not self.following or view.row_of(start) is None:
            self.follow(False)
            view.show(start, above=at)
        return True
