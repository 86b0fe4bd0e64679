"""The live log: any size, painted seldom, never jumping under the reader."""

import re
from pathlib import Path
from time import monotonic
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip
from textual.timer import Timer
from textual.worker import get_current_worker

from runners.watch.logfile import Change, LogFile
from runners.watch.logsearch import Pattern
from tui.panes.log_rows import CURRENT_MARK, MARK, draw
from tui.panes.log_search import LogSearch, errors, seek
from tui.panes.log_view import Row, Viewport
from tui.panes.log_watch import watch_file

FRAME = 1 / 30
"""Seconds between paints of a log with a line now and then."""
CHATTY_FRAME = 1 / 15
"""Seconds between paints once more than a screenful comes per paint: nobody reads those."""

_PAUSED_FRAME = 0.5  # the count of new lines below a reader
_INDEX_AT_ONCE = 4 << 20  # bytes counted on the spot: a millisecond or two
_INDEX_STEP = 8 << 20
_BAR = 10_000  # the scroll bar's length, in no unit: it shows a share of the bytes
_KEPT_STRIPS = 1000


class LogPane(ScrollView):
    """One log on the screen. It follows the end until its reader scrolls up, and again after End or G."""

    DEFAULT_CSS = """
    LogPane {
        border: round $panel-lighten-2;
        background: $background;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        &:focus { border: round $accent; }
    }
    """
    ALLOW_SELECT = False
    can_focus = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("left,h", "scroll_left", "Left", show=False),
        Binding("right,l", "scroll_right", "Right", show=False),
        Binding("pagedown,space,ctrl+f", "page_down", "Page down", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("home,g", "scroll_home", "Start"),
        Binding("end,G", "scroll_end", "Follow"),
        Binding("w", "toggle_wrap", "Wrap"),
        Binding("n", "next_match", "Next match", show=False),
        Binding("N", "previous_match", "Previous match", show=False),
        Binding("e", "next_error", "Next error"),
        Binding("E", "previous_error", "Previous error", show=False),
    ]

    following: reactive[bool] = reactive(True, init=False)
    wrap: reactive[bool] = reactive(False, init=False)

    class FollowingChanged(Message):
        """The pane began or ceased to follow the end."""

        def __init__(self, following: bool) -> None:
            super().__init__()
            self.following = following

    class SearchChanged(Message):
        """`count` lines match so far; `current` is looked at (from 1; 0: none or not known yet)."""

        def __init__(self, count: int, current: int, done: bool, error: str = "") -> None:
            super().__init__()
            self.count = count
            self.current = current
            self.done = done
            self.error = error

    class NothingFound(Message):
        """There is no such line in the whole log."""

    class _Progress(Message):
        """A thread got on with an index or a count."""

    class _Sought(Message):
        """A thread found a line (None: there is none)."""

        def __init__(self, log: LogFile, start: int | None, match: bool) -> None:
            super().__init__()
            self.log = log
            self.start = start
            self.match = match

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.log_file: LogFile | None = None
        self.search_state: LogSearch | None = None
        self._view: Viewport | None = None
        self._title = ""
        self._titles = ("", "")
        self._left = 0
        self._here: int | None = None
        self._wanted_line: int | None = None
        self._paused_at = (0, 0)
        self._painted = 0.0
        self._painted_size = 0
        self._pending: Timer | None = None
        self._strips: dict[tuple[int, int, int], Strip] = {}
        self._strip_look: tuple[object, ...] = ()

    # ---- what the screen calls

    def show(self, path: Path | None, title: str = "") -> None:
        """Show another log from its end, or none."""
        if self.is_mounted:
            self.workers.cancel_node(self)
        self.log_file = LogFile(path) if path is not None else None
        self._view = Viewport(self.log_file) if self.log_file is not None else None
        self._title = title or (path.name if path is not None else "")
        self._here = self._wanted_line = self.search_state = None
        self._left = self._painted_size = 0
        self._strips.clear()
        self.following = True
        if self.is_mounted:
            self._start()

    def poll(self) -> bool:
        """Look whether the log changed, and paint soon if it did; cheap: anyone may call it at any time."""
        if self.log_file is None or not self.is_attached:
            return False
        change = self.log_file.refresh()
        if change is Change.NONE:
            return False
        if change is not Change.GROWN:
            self._begin_anew()
        self._paint_soon()
        return True

    def search(self, pattern: str, regex: bool = False) -> None:
        """Mark and count the lines that match, and show the newest not below the screen; "" ends it."""
        self.search_state = None
        self._strips.clear()
        self.refresh()
        if self.log_file is None or not pattern:
            self.post_message(self.SearchChanged(0, 0, True))
            return
        try:
            self.search_state = LogSearch(self.log_file.source, pattern, regex)
        except re.error as why:
            self.post_message(self.SearchChanged(0, 0, True, f"not a regular expression: {why}"))
            return
        below = self._view.bottom if self._view is not None else self.log_file.size
        self._seek(self.search_state.pattern, below, backward=True, match=True)
        self._count_matches()

    def next_match(self) -> None:
        """Go to the match below; from the last to the first."""
        self._seek_match(backward=False)

    def previous_match(self) -> None:
        """Go to the match above; from the first to the last."""
        self._seek_match(backward=True)

    def next_error(self) -> None:
        """Go to the next line that tells of a failure; to the newest one while following."""
        self._seek_error(backward=self.following)

    def previous_error(self) -> None:
        """Go to the failure above."""
        self._seek_error(backward=True)

    def go_start(self) -> None:
        """Show the first line."""
        self._go(0)

    def go_end(self) -> None:
        """Show the end, and follow it."""
        self._here = None
        self.following = True
        self._paint(force=True)

    def go_line(self, number: int) -> None:
        """Show line `number`, from 1; once it has been counted, if it has not been yet."""
        if self.log_file is None:
            return
        start = self.log_file.index.offset_of(number - 1)
        if start is not None:
            self._wanted_line = None
            self._go(start)
        elif self.log_file.index.complete:
            self._go(self.log_file.size if number > 0 else 0)
        else:
            self._wanted_line = number

    def go_percent(self, percent: float) -> None:
        """Show the line at so many percent of the bytes."""
        if self.log_file is not None:
            share = min(max(percent, 0.0), 100.0) / 100
            self._go(self.log_file.source.start_of(int(self.log_file.size * share)))

    def shown_text(self) -> list[str]:
        """The rows on the screen, as text."""
        return [row.line.safe.text[row.start : row.end] for row in self._view.rows] if self._view else []

    # ---- keys and mouse

    def action_scroll_down(self) -> None:
        """One row down."""
        self._move(1)

    def action_scroll_up(self) -> None:
        """One row up."""
        self._move(-1)

    def action_page_down(self) -> None:
        """A screen down, one row of it kept."""
        self._move(max(1, self._height - 1))

    def action_page_up(self) -> None:
        """A screen up, one row of it kept."""
        self._move(-max(1, self._height - 1))

    def action_scroll_home(self) -> None:
        """The first line."""
        self.go_start()

    def action_scroll_end(self) -> None:
        """The end, followed."""
        self.go_end()

    def action_scroll_left(self) -> None:
        """Half a screen to the left."""
        self._shift(-1)

    def action_scroll_right(self) -> None:
        """Half a screen to the right."""
        self._shift(1)

    def action_toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrap = not self.wrap

    def action_next_match(self) -> None:
        """See `next_match`."""
        self.next_match()

    def action_previous_match(self) -> None:
        """See `previous_match`."""
        self.previous_match()

    def action_next_error(self) -> None:
        """See `next_error`."""
        self.next_error()

    def action_previous_error(self) -> None:
        """See `previous_error`."""
        self.previous_error()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows down."""
        event.prevent_default().stop()
        self._move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three rows up."""
        event.prevent_default().stop()
        self._move(-3)

    def on_scroll_up(self, message: ScrollUp) -> None:
        """A click above the scroll bar's thumb."""
        message.prevent_default().stop()
        self.action_page_up()

    def on_scroll_down(self, message: ScrollDown) -> None:
        """A click below the scroll bar's thumb."""
        message.prevent_default().stop()
        self.action_page_down()

    def on_scroll_to(self, message: ScrollTo) -> None:
        """The scroll bar's thumb was dragged."""
        message.prevent_default().stop()
        if message.y is not None:
            self.go_percent(100 * message.y / _BAR)

    # ---- life

    def on_mount(self) -> None:
        """Begin to watch, if there is something to."""
        self._start()

    def on_resize(self) -> None:
        """Fit the rows to the new size."""
        self._paint(force=True)

    def on_show(self) -> None:
        """Catch up with what came while hidden."""
        self._paint(force=True)

    def watch_following(self, following: bool) -> None:
        """Remember how much there was when the reader stopped."""
        if self.log_file is not None and not following:
            count, exact = self.log_file.line_count
            self._paused_at = (count if exact else -1, self.log_file.size)
        self.post_message(self.FollowingChanged(following))

    def watch_wrap(self) -> None:
        """Draw again, from the same line."""
        self._left = 0
        if self._view is not None:
            self._view.top_row = 0
        self._strips.clear()
        self._paint(force=True)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        width = self.scrollable_content_region.width
        base = self.rich_style
        if self._view is None or y >= len(self._view.rows):
            return Strip.blank(width, base)
        look = (width, base, self._left)
        if look != self._strip_look or len(self._strips) > _KEPT_STRIPS:
            self._strips.clear()
            self._strip_look = look
        row = self._view.rows[y]
        key = (row.line.start, row.line.end, row.start)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(row, width, base)
        return strip

    def _draw(self, row: Row, width: int, base: Style) -> Strip:
        safe, left, end = row.line.safe, self._left, row.end
        start = row.start
        if safe.text.isascii():
            start, end, left = start + left, min(end, start + left + width), 0
        marks = self.search_state.marks if self.search_state is not None else None
        mark = CURRENT_MARK if row.line.start == self._here else MARK
        strip = draw(safe, min(start, end), end, base, marks, mark)
        return strip.crop_extend(left, left + width, base)

    @property
    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)

    def _start(self) -> None:
        if self.log_file is not None:
            watching = watch_file(self.log_file.path, self.poll, FRAME)
            self.run_worker(watching, group="watch", exclusive=True)
        self._paint(force=True)

    def _begin_anew(self) -> None:
        """The file is another one, or cut short: nothing counted or found before is true."""
        assert self.log_file is not None and self._view is not None
        self._strips.clear()
        self._view.forget()
        self._here = None
        self._painted_size = 0
        self._paused_at = (-1, self.log_file.size)
        if self.search_state is not None:
            self.search_state = self.search_state.renewed(self.log_file.source)

    # ---- painting

    def _paint_soon(self) -> None:
        """Paint now, or when a frame has passed since the last time."""
        assert self.log_file is not None
        if self._pending is not None:
            return
        grown = self.log_file.size - self._painted_size
        chatty = grown > self._height * max(80, self.size.width)
        frame = _PAUSED_FRAME if not self.following and self._is_full else CHATTY_FRAME if chatty else FRAME
        wait = self._painted + frame - monotonic()
        if wait <= 0.002:
            self._paint()
        else:
            self._pending = self.set_timer(wait, self._paint)

    @property
    def _is_full(self) -> bool:
        """Whether what is appended lies below the screen."""
        assert self._view is not None and self.log_file is not None
        return len(self._view.rows) >= self._view.height and self._view.bottom < self._painted_size

    def _paint(self, force: bool = False) -> None:
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        if self._view is None or self.log_file is None:
            self._retitle()
            self.refresh()
            return
        if not self.is_mounted or not self.size or not (force or self.is_on_screen):
            return
        view = self._view
        before = view.rows
        region = self.scrollable_content_region
        view.width, view.height, view.wrap = region.width, max(1, region.height), self.wrap
        self._left = min(self._left, max(0, view.widest - view.width))
        if self.following:
            view.show_end()
        elif force or not self._is_full:
            view.fill()
        self._painted, self._painted_size = monotonic(), self.log_file.size
        self._index()
        if self.search_state is not None and not self.search_state.matches.complete:
            self._count_matches()
        self._retitle()
        self._place_bar()
        if force or view.rows != before:
            self.refresh()

    def _retitle(self) -> None:
        titles = (self._title, self._state())
        if titles != self._titles:
            # As content, not as text, in which brackets would be taken for markup.
            self._titles = titles
            self.border_title, self.border_subtitle = Content(titles[0]), Content(titles[1])

    def _state(self) -> str:
        log = self.log_file
        if log is None:
            return "no log"
        count, exact = log.line_count
        lines = f"{'' if exact else '~'}{count:,} line{'' if count == 1 else 's'}"
        if self.following:
            return f"following · {lines}" if log.size else "following · nothing written yet"
        known, size = self._paused_at
        if exact and known >= 0:
            new = f"{count - known:,} new line{'' if count - known == 1 else 's'} · " if count > known else ""
        else:
            new = f"{(log.size - size) / 1e6:,.1f} MB new · " if log.size > size else ""
        at = log.index.line_at(self._view.top) if self._view is not None else None
        place = f"line {at + 1:,} of {lines}" if at is not None else lines
        return f"paused · {new}G follows · {place}"

    def _place_bar(self) -> None:
        assert self._view is not None and self.log_file is not None
        size = max(1, self.log_file.size)
        bar = self.vertical_scrollbar
        # Rounded, since each change of the bar paints it anew.
        share = max(_BAR // 100, _BAR * (self._view.bottom - self._view.top) // size // 100 * 100)
        bar.window_virtual_size = _BAR
        bar.window_size = share
        at_end = self._view.bottom >= self.log_file.size
        bar.position = _BAR - share if at_end else min(_BAR - share, _BAR * self._view.top // size)

    # ---- moving

    def _go(self, start: int, above: int = 0) -> None:
        if self._view is None:
            return
        self.following = False
        self._view.show(start, above)
        self._paint(force=True)

    def _move(self, rows: int) -> None:
        if self._view is None:
            return
        place = (self._view.top, self._view.top_row)
        self._view.move(rows)
        if place != (self._view.top, self._view.top_row):
            self.following = False if rows < 0 else self.following
            self._here = None
            self._paint(force=True)

    def _shift(self, direction: int) -> None:
        if self._view is None or self.wrap:
            return
        most = max(0, self._view.widest - self._view.width)
        self._left = min(most, max(0, self._left + direction * max(8, self._view.width // 2)))
        self.refresh()

    # ---- threads: each knows its log, and what it says of another is not listened to

    def _index(self) -> None:
        log = self.log_file
        assert log is not None
        if log.size - log.index.scanned <= _INDEX_AT_ONCE:
            log.index_step(_INDEX_AT_ONCE)
        elif not any(worker.group == "index" and worker.is_running for worker in self.workers):
            self.run_worker(lambda: self._build_index(log), thread=True, group="index", exit_on_error=False)

    def _build_index(self, log: LogFile) -> None:
        worker = get_current_worker()
        told = monotonic()
        while not worker.is_cancelled and not log.index_step(_INDEX_STEP):
            if monotonic() - told > _PAUSED_FRAME:
                told = monotonic()
                self.post_message(self._Progress())
        self.post_message(self._Progress())

    def _count_matches(self) -> None:
        state = self.search_state
        if state is None or any(w.group == "count" and w.is_running for w in self.workers):
            return
        self.run_worker(lambda: self._count_in_thread(state), thread=True, group="count", exit_on_error=False)

    def _count_in_thread(self, state: LogSearch) -> None:
        worker = get_current_worker()
        state.count(
            lambda: worker.is_cancelled or self.search_state is not state,
            lambda: self._tell_search(state),
        )

    def _tell_search(self, state: LogSearch) -> None:
        if state is self.search_state:
            matches = state.matches
            current = matches.rank(self._here) if self._here is not None else None
            self.post_message(self.SearchChanged(matches.count, current or 0, matches.complete))

    def _seek_match(self, backward: bool) -> None:
        if self.search_state is not None:
            self._seek(self.search_state.pattern, self._from_here(backward), backward, match=True)

    def _seek_error(self, backward: bool) -> None:
        self._seek(errors(), self._from_here(backward), backward, match=False)

    def _from_here(self, backward: bool) -> int:
        if self._here is not None:
            return self._here
        if self._view is None:
            return 0
        return self._view.bottom if backward and self.following else self._view.top - (not backward)

    def _seek(self, pattern: Pattern, offset: int, backward: bool, match: bool) -> None:
        log = self.log_file
        if log is None:
            return
        source = log.source

        def look() -> None:
            worker = get_current_worker()
            start = seek(source, pattern, offset, backward, lambda: worker.is_cancelled)
            if not worker.is_cancelled and log.source is source:
                self.post_message(self._Sought(log, start, match))

        self.run_worker(look, thread=True, group="seek", exclusive=True, exit_on_error=False)

    def on_log_pane__progress(self) -> None:
        """A thread got on: show it, and go where someone waits to go."""
        if self._wanted_line is not None:
            self.go_line(self._wanted_line)
        else:
            self._paint()

    def on_log_pane__sought(self, message: _Sought) -> None:
        """A line was found: show it, without moving if it is on the screen."""
        if message.log is not self.log_file or self._view is None:
            return
        if message.start is None:
            self.post_message(self.NothingFound())
            return
        self._here = message.start
        self._strips.clear()
        self.following = False
        if not any(row.line.start == message.start for row in self._view.rows):
            self._view.show(message.start, above=self._height // 3)
        self._paint(force=True)
        if message.match and self.search_state is not None:
            self._tell_search(self.search_state)
