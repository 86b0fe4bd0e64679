"""The live log: any size, painted seldom, never jumping under the reader.

The pane holds keys and painting. What they act on is a `LogReader`: a document, the rows of it
that are seen, and what is selected. Long work is done by `LogThreads`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip
from textual.timer import Timer

from runners.model.units import counted
from runners.watch.logs.index import Change
from tui.panel.terminal.osc import CAP
from tui.panel.terminal.repainting import KeptRows, TitledBorder
from tui.panel.widgets.log.messages import (
    InputWanted,
    LinesCopied,
    LogNotice,
    SearchChanged,
)
from tui.panel.widgets.log.rows import StripCache, StripStyle, explanation_line
from tui.panel.widgets.log.seeking import LogSeeker
from tui.panel.widgets.log.threads import WATCH, LogThreads, Written
from tui.panel.widgets.log.title import BAR, describe, place_bar, title_of
from tui.panel.widgets.log.watch import FRAME, FileWatch, frame_of
from tui.panel.widgets.log.window_reader import LogPlace, LogReader
from tui.panel.widgets.pane_keys import LOG_KEYS
from tui.panel.widgets.row_painting import StyleOnce

if TYPE_CHECKING:
    from runners.watch.logs.extract import Text

_WRAPPED = {False: "long lines are cut", True: "long lines are wrapped"}
_NO_LINE = "there is no line here yet"
_CORNERS = 4
"""Cells of a border's line beside its words."""
_CSS = """
LogPane {
    border: round $foreground 35%;
    background: $background;
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-size-vertical: 1;
    &:focus { border: round $accent; }
}
"""


class LogPane(KeptRows, TitledBorder, StyleOnce, ScrollView):
    """One log on the screen; it follows the end until its reader scrolls up, and again after G."""

    DEFAULT_CSS = _CSS
    BINDINGS: ClassVar[list[BindingType]] = LOG_KEYS
    # Textual's selection is of what is on the screen; a log's goes on while it scrolls.
    ALLOW_SELECT = False
    can_focus = True

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.reader = LogReader()
        self._threads = LogThreads(self, self._progressed)
        self._seeker = LogSeeker(self, self._threads, lambda: self.reader, self.show, self._repaint)
        self._strips = StripCache()
        self._places: dict[Path, LogPlace] = {}
        self._title = ""
        self._writing = ""
        self._row_width = 0
        self._painted = 0.0
        self._pending: Timer | None = None
        self._file_watch = FileWatch(self.poll, FRAME)
        self.explanation: tuple[str, ...] = ()

    # ---- which log

    def show(self, path: Path | None, title: str = "") -> None:
        """Show another log, as it was left or from its end; or none."""
        if self.is_mounted:
            self._threads.cancel()
        if self.reader.document.path is not None:
            self._places[self.reader.document.path] = self.reader.place
        self.reader = LogReader(path, self._places.get(path) if path is not None else None)
        self._title = title or (path.name if path is not None else "")
        self._strips.clear()
        self._file_watch.choose(path)
        self._repaint()

    def poll(self) -> bool:
        """Look whether the log changed, and paint soon if it did; cheap at any time."""
        if not self.is_attached:
            return False
        change = self.reader.refresh()
        if change is Change.NONE:
            return False
        # Rows are kept by their place in the file, which means another text now.
        if change is not Change.GROWN:
            self._strips.clear()
        self._paint_soon()
        return True

    def on_mount(self) -> None:
        self.run_worker(self._file_watch.run(), group=WATCH)
        self._repaint()

    # ---- keys, wheel, scroll bar

    def action_move(self, rows: int) -> None:
        """Scroll down, or up, by so many rows, or move the selection's end."""
        self._repaint_if(self.reader.move(rows))

    def action_page(self, pages: float) -> None:
        """A screen down or up, one row of it kept; or a part of it."""
        self.action_move(int(pages * max(2, self.reader.view.height - 1)))

    def action_shift(self, direction: int) -> None:
        """Half a screen to the right (1) or left (-1), unless lines are wrapped."""
        if self.reader.view.shift(direction):
            self.refresh()

    def action_go_start(self) -> None:
        self._repaint_if(self.reader.go_start())

    def action_go_end(self) -> None:
        """The end, followed."""
        self._repaint_if(self.reader.go_end())

    def action_toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.reader.view.toggle_wrap()
        self._repaint()
        self.post_message(LogNotice(_WRAPPED[self.reader.view.wrap]))  # short lines look the same

    def action_ask(self, purpose: str) -> None:
        """Have the line to type in opened."""
        self.post_message(InputWanted(purpose))

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _wheel(self, event: events.MouseEvent) -> None:
        # Textual's own scrolling is by virtual lines, which a log of gigabytes has not.
        event.prevent_default().stop()
        self.action_move(3 if isinstance(event, events.MouseScrollDown) else -3)

    @on(ScrollDown)
    @on(ScrollUp)
    def _beside_thumb(self, message: Message) -> None:
        """A click below or above the scroll bar's thumb."""
        message.prevent_default().stop()
        self.action_page(1 if isinstance(message, ScrollDown) else -1)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """The scroll bar's thumb was dragged."""
        message.prevent_default().stop()
        if message.y is not None:
            self.go_percent(100 * message.y / BAR)

    def go_line(self, number: int) -> None:
        """Show line `number`, from 1; once it has been counted, if it has not been yet."""
        self._repaint_if(self.reader.go_line(number))

    def go_percent(self, percent: float) -> None:
        """Show the line at so many percent of the bytes."""
        self._repaint_if(self.reader.go_percent(percent))

    def leave(self) -> bool:
        """End the selection, or else the filter; False: there was neither."""
        left = self.reader.selection.clear() or self.reader.end_filter()
        self._repaint_if(left)
        return left

    # ---- filter

    def filter(self, text: str, regex: bool = False) -> None:
        """Show only the lines that match; "" ends it. The rank, if one is chosen, stays chosen."""
        try:
            changed = self.reader.filter(text, regex)
        except ValueError as why:
            self.post_message(LogNotice(f"not a regular expression: {why}", severe=True))
            return
        self._repaint_if(changed)

    def action_next_rank(self) -> None:
        """Show the lines of all ranks, of the first one, of the next one …"""
        self._seeker.show_next_rank(self._title)

    # ---- search

    def search(self, text: str, regex: bool = False) -> None:
        """Mark and count the lines that match, and go to the newest not below; "" ends it."""
        self._seeker.search(text, regex)

    def action_seek(self, what: str, direction: int) -> None:
        """Go to the `match` or `error` below (1) or above (-1)."""
        seek = self._seeker.go_to_match if what == "match" else self._seeker.go_to_error
        seek(direction)

    @on(SearchChanged)
    def _count(self) -> None:
        self._retitle()

    # ---- lines taken elsewhere

    def action_select(self) -> None:
        """Begin a selection at the line gone to last, or in the middle; again: end it."""
        began = self.reader.toggle_selection()
        self._repaint() if began else self.post_message(LogNotice(_NO_LINE))

    def action_copy_lines(self) -> None:
        """Hand the selection, or the line that keys act on, to the screen's clipboard."""
        part = self.reader.take_lines()
        if part is not None:
            self._threads.gather(part, CAP, partial(self._copied, part.number))
            self._repaint()
        else:
            self.post_message(LogNotice(_NO_LINE))

    def _copied(self, number: int | None, text: Text) -> None:
        what = f"line {number + 1:,}" if number is not None else counted(text.lines, "line")
        self.post_message(LinesCopied(text.data, what, text.cut))

    def write_to(self, path: Path, overwrite: bool) -> None:
        """Write the selection, else the lines that are shown, else the log, as raw bytes."""
        part = self.reader.take_bytes()
        self._threads.write(self.reader.document, path, overwrite, part, self._written)
        self._repaint()

    def _written(self, path: Path, done: Written) -> None:
        self._writing = done.progress(path)
        if outcome := done.result(path):
            severe = bool(done.error)
            self.post_message(LogNotice(outcome, severe, seconds=8 if severe else 4))
        self._retitle()

    # ---- painting

    @on(events.Resize)
    @on(events.Show)
    def _repaint(self) -> None:
        self.paint(force=True)

    def _repaint_if(self, changed: bool) -> None:
        if changed:
            self._repaint()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._row_width = self.scrollable_content_region.width  # asked once, not for each row
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width, base = self._row_width, self.style_of()
        view, search = self.reader.view, self.reader.document.search
        if y >= len(view.rows):
            return explanation_line(() if view.rows else self.explanation, y, width, base)
        start = view.rows[y].line.start
        return self._strips.strip(
            view.rows[y],
            StripStyle(view.left, width, base, search.marks if search is not None else None),
            current=start == self.reader.found_at,
            selected=self.reader.selection.contains(start),
        )

    def _paint_soon(self) -> None:
        """Paint now, or when a frame has passed since the last time."""
        wait = self._painted + frame_of(self.reader, self.app, self.size.width) - monotonic()
        if wait <= 0.002:
            self.paint()
        elif self._pending is None:
            # Then more may have come, or a key.
            self._pending = self.set_timer(wait, self._paint_later)

    def _paint_later(self) -> None:
        self._pending = None
        self._paint_soon()

    def paint(self, force: bool = False) -> None:
        """Read what belongs on the screen and draw it; unless forced, only what changed."""
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        if not self.is_mounted or not self.size or not (force or self.is_on_screen):
            return
        reader, region = self.reader, self.scrollable_content_region
        reader.view.resize(region.width, region.height)
        self._threads.work_on(reader.document, reader.near)
        self._seeker.count_matches()
        changed = reader.fill(force)
        self._painted = monotonic()
        self._retitle()
        place_bar(self.vertical_scrollbar, reader.view, reader.document.size)
        if force or changed:
            self.refresh()

    def _retitle(self) -> None:
        width = self.size.width - _CORNERS
        place = self._writing + describe(self.reader, width - len(self._writing))
        self.retitle(title_of(self._title, self.reader.document, width), place)

    def _progressed(self) -> None:
        """A thread got on: show it, and go where the reader waits to go."""
        if self.reader.wanted_line is not None:
            self.go_line(self.reader.wanted_line)
        else:
            self.paint()
