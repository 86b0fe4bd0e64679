"""The live log: any size, painted seldom, never jumping under the reader."""

from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from rich.style import Style
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer
from textual.worker import get_current_worker

from runners.watch.logs.file import Change, LogFile
from runners.watch.logs.index import LineIndex
from tui.panel.widgets.log.picking import LogPicking
from tui.panel.widgets.log.rows import CURRENT_MARK, MARK, draw
from tui.panel.widgets.log.search import LogSearch
from tui.panel.widgets.log.title import describe, describe_filter, place_bar
from tui.panel.widgets.log.view import Row, Viewport
from tui.panel.widgets.log.watch import watch_file

FRAME = 1 / 30
"""Seconds between paints of a log with a line now and then."""
CHATTY_FRAME = 1 / 15
"""Seconds between paints once more than a screenful comes per paint: nobody reads those."""

_PAUSED_FRAME = 0.5  # the count of new lines below a reader
_INDEX_AT_ONCE = 8 << 20  # bytes counted on the spot: two or three milliseconds
_INDEX_STEP = 8 << 20
_STORM = (
    64 << 20
)  # grown by so much while it is counted: then the program that writes needs the core more
_STORM_REST = 0.01
_KEPT_STRIPS = 300
_SELECTED = Style(reverse=True)


class _Place(NamedTuple):
    """How one looked at a log, for when one comes back."""

    wrap: bool
    following: bool
    top: int
    top_row: int


_NEW = _Place(False, True, 0, 0)


class LogPane(LogPicking):
    """One log on the screen. It follows the end until its reader scrolls up, and again after End
    or G.
    """

    DEFAULT_CSS = """
    LogPane {
        border: round $foreground 35%;
        background: $background;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        &:focus { border: round $accent; }
    }
    """
    ALLOW_SELECT = False
    can_focus = True

    wrap: reactive[bool] = reactive(False, init=False)

    class FollowingChanged(Message):
        """The pane began or ceased to follow the end."""

        def __init__(self, following: bool) -> None:
            super().__init__()
            self.following = following

    def __init__(
        self, *, frame: float = FRAME, id: str | None = None, classes: str | None = None
    ) -> None:
        """`frame`: seconds between paints at least; a slow line wants more of them."""
        super().__init__(id=id, classes=classes)
        self._frame = frame
        self.log_file: LogFile | None = None
        self.search_state: LogSearch | None = None
        self.view: Viewport | None = None
        self._title = ""
        self._titles = ("", "")
        self._left = 0
        self.here: int | None = None
        self._wanted_line: int | None = None
        self._paused_at = (0, 0)
        self._painted = 0.0
        self._painted_size = 0
        self._pending: Timer | None = None
        self._indexing: LineIndex | None = None
        self._strips: dict[tuple[int, int, int], Strip] = {}
        self._strip_look: tuple[object, ...] = ()
        self._places: dict[Path, _Place] = {}

    # ---- what the screen calls

    def show(self, path: Path | None, title: str = "") -> None:
        """Show another log from its end, or none."""
        if self.is_mounted:
            # A file that is being written is finished whatever is looked at.
            for worker in [
                worker for worker in self.workers if worker.node is self and worker.group != "write"
            ]:
                worker.cancel()
        if self.log_file is not None and self.view is not None:
            self._places[self.log_file.path] = _Place(
                self.wrap, self.following, self.view.top, self.view.top_row
            )
        self.log_file = LogFile(path) if path is not None else None
        self.view = Viewport(self.log_file) if self.log_file is not None else None
        self._title = title or (path.name if path is not None else "")
        self.here = self._wanted_line = self.search_state = self.wanted = self.picked = None
        self._left = self._painted_size = 0
        self.redraw()
        place = self._places.get(path, _NEW) if path is not None else _NEW
        self.wrap = place.wrap
        self.following = place.following
        if self.view is not None and not place.following:
            self.view.top, self.view.top_row = place.top, place.top_row
            self.view.forget(keep_row=True)
        if self.is_mounted:
            self._start()

    def poll(self) -> bool:
        """Look whether the log changed, and paint soon if it did; cheap: anyone may call it at any
        time.
        """
        if self.log_file is None or not self.is_attached:
            return False
        change = self.log_file.refresh()
        if change is Change.NONE:
            return False
        if change is not Change.GROWN:
            self._begin_anew()
        self._paint_soon()
        return True

    def action_toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrap = not self.wrap

    def go_start(self) -> None:
        """Show the first line."""
        if self.picked is not None:
            self.extend_to_start()
        else:
            self._go(0)

    def go_end(self) -> None:
        """Show the end, and follow it."""
        if self.picked is not None:
            self.extend_to_end()
            return
        self.here = None
        self.following = True
        self.paint(force=True)

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

    def line_here(self) -> str:
        """The whole line that was gone to last, else the one in the middle, as text: what a copy
        takes.
        """
        rows = self.view.rows if self.view is not None else []
        place = self.place_here()
        return next((row.line.safe.text for row in rows if row.line.start == place), "")

    def shown_text(self) -> list[str]:
        """The rows on the screen, as text."""
        return (
            [row.line.safe.text[row.start : row.end] for row in self.view.rows] if self.view else []
        )

    # ---- life

    def on_mount(self) -> None:
        """Begin to watch, if there is something to."""
        self._start()

    def on_resize(self) -> None:
        """Fit the rows to the new size."""
        self.paint(force=True)

    def on_show(self) -> None:
        """Catch up with what came while hidden."""
        self.paint(force=True)

    def watch_following(self, following: bool) -> None:
        """Remember how much there was when the reader stopped."""
        if self.log_file is not None and not following:
            count, exact = self.log_file.line_count
            self._paused_at = (count if exact else -1, self.log_file.size)
        self.post_message(self.FollowingChanged(following))

    def watch_wrap(self) -> None:
        """Draw again, from the same line."""
        self._left = 0
        if self.view is not None:
            self.view.top_row = 0
        self.redraw()
        self.paint(force=True)

    def redraw(self) -> None:
        """Forget how the rows looked: marks or width are others."""
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        width = self.scrollable_content_region.width
        base = self.rich_style
        if self.view is None or y >= len(self.view.rows):
            return Strip.blank(width, base)
        look = (width, base, self._left)
        if look != self._strip_look or len(self._strips) > _KEPT_STRIPS:
            self.redraw()
            self._strip_look = look
        row = self.view.rows[y]
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
        mark = CURRENT_MARK if row.line.start == self.here else MARK
        strip = draw(safe, min(start, end), end, base, marks, mark)
        strip = strip.crop_extend(left, left + width, base)
        if self.picked is not None and min(self.picked) <= row.line.start <= max(self.picked):
            strip = strip.apply_style(_SELECTED)
        return strip

    def _start(self) -> None:
        if self.log_file is not None:
            path = self.log_file.path

            watching = partial(watch_file, path, self.poll, self._frame)
            self.run_worker(watching, group="watch", exclusive=True)  # type: ignore[arg-type]
        self.paint(force=True)

    def _begin_anew(self) -> None:
        """The file is another one, or cut short: nothing counted or found before is true."""
        assert self.log_file is not None and self.view is not None
        self.redraw()
        self.view.forget()
        self.here = self.picked = None
        self._painted_size = 0
        self._paused_at = (-1, self.log_file.size)
        self._renew_filter()
        if self.search_state is not None:
            # The pattern was one before, so it is one now.
            old = self.search_state
            self.search_state = LogSearch(self.log_file.source, old.text, old.regex, self._also)

    # ---- painting

    def _paint_soon(self) -> None:
        """Paint now, or when a frame has passed since the last time."""
        assert self.log_file is not None
        if self._pending is not None:
            return
        grown = self.log_file.size - self._painted_size
        chatty = grown > self.page * max(80, self.size.width)
        frame = (
            _PAUSED_FRAME
            if not self.following and self._is_full
            else max(self._frame, CHATTY_FRAME if chatty else FRAME)
        )
        wait = self._painted + frame - monotonic()
        if wait <= 0.002:
            self.paint()
        else:
            self._pending = self.set_timer(wait, self.paint)

    @property
    def _is_full(self) -> bool:
        """Whether what is appended lies below the screen."""
        assert self.view is not None and self.log_file is not None
        return len(self.view.rows) >= self.view.height and self.view.bottom < self._painted_size

    def paint(self, force: bool = False) -> None:
        """Read what belongs on the screen and draw it; unless forced, only what changed and can be
        seen.
        """
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        if self.view is None or self.log_file is None:
            self._retitle()
            self.refresh()
            return
        if not self.is_mounted or not self.size or not (force or self.is_on_screen):
            return
        view = self.view
        before = view.rows
        region = self.scrollable_content_region
        view.width, view.height, view.wrap = region.width, max(1, region.height), self.wrap
        self._left = min(self._left, max(0, view.widest - view.width))
        self._filter_on()
        if self.following:
            view.show_end()
        elif force or not self._is_full:
            view.fill()
        self._painted, self._painted_size = monotonic(), self.log_file.size
        self._index()
        self._count_matches()
        self._retitle()
        place_bar(self.vertical_scrollbar, self.view, self.log_file)
        if force or view.rows != before:
            self.refresh()

    def _retitle(self) -> None:
        subtitle = describe(
            self.log_file, self.view, self.following, self._paused_at, self.wanted is not None
        )
        if self.picked is not None:
            subtitle = self.picked_words()
        title = self._title + describe_filter(self.log_file, self.wanted)
        titles = (title, f"{self.writing} · {subtitle}" if self.writing else subtitle)
        if titles != self._titles:
            # As content, not as text, in which brackets would be taken for markup.
            self._titles = titles
            self.border_title, self.border_subtitle = Content(titles[0]), Content(titles[1])

    # ---- moving

    def _go(self, start: int, above: int = 0) -> None:
        if self.view is None:
            return
        self.following = False
        self.view.show(start, above)
        self.paint(force=True)

    def move(self, rows: int) -> None:
        """Scroll down, or up, by so many rows; up ends the following."""
        if self.view is None:
            return
        if self.picked is not None:
            self.extend(rows)
            return
        place = (self.view.top, self.view.top_row)
        self.view.move(rows)
        if place != (self.view.top, self.view.top_row):
            self.following = False if rows < 0 else self.following
            self.here = None
            self.paint(force=True)

    def shift(self, direction: int) -> None:
        """Show what is to the right (1) or left (-1) of the screen, unless lines are wrapped."""
        if self.view is None or self.wrap:
            return
        most = max(0, self.view.widest - self.view.width)
        self._left = min(most, max(0, self._left + direction * max(8, self.view.width // 2)))
        self.refresh()

    # ---- threads: each knows its log, and what it says of another is not listened to

    def _index(self) -> None:
        log = self.log_file
        assert log is not None
        if log.size - log.index.scanned <= _INDEX_AT_ONCE:
            log.index_step(_INDEX_AT_ONCE)
        elif self._indexing is not log.index:
            index = self._indexing = log.index
            self.run_worker(
                lambda: self._build(log, index), thread=True, group="index", exclusive=True
            )

    def _build(self, log: LogFile, index: LineIndex) -> None:
        worker = get_current_worker()
        told, size = monotonic(), log.size
        while not worker.is_cancelled and not index.step(_INDEX_STEP):
            if log.size - size > _STORM:
                sleep(_STORM_REST)
            if monotonic() - told > _PAUSED_FRAME:
                told = monotonic()
                self.post_message(self._Progress())
        if self._indexing is index:
            self._indexing = None
        self.post_message(self._Progress())

    def on_log_pane__progress(self) -> None:
        """A thread got on: show it, and go where someone waits to go."""
        if self._wanted_line is not None:
            self.go_line(self._wanted_line)
        else:
            self.paint()
