"""The threads of one log pane: each knows its log, and what it says of another is not heard.

Each job reports its progress, and ends when asked to: `stopped` says whether to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

from textual.widget import Widget
from textual.worker import get_current_worker

from runners.watch.logs.index import LineIndex
from runners.watch.logs.reader import BLOCK, LogSource
from tui.panel.widgets.log.document import LogDocument
from tui.panel.widgets.log.window_reader import Part
from tui.views.format import size

if TYPE_CHECKING:
    from runners.watch.logs.extract import Text
    from runners.watch.logs.search import Pattern
    from tui.panel.widgets.log.searching import LogSearch

Stopped = Callable[[], bool]

_INDEX_STEP = 8 << 20
_COUNT_STEP = 4 << 20
_INDEX_REPORT_S = 0.5
_FILTER_REPORT_S = 0.1
_WRITE_REPORT_S = 0.25
# Grown by so much while it is counted: then the program that writes needs the core more.
_STORM = 64 << 20
_STORM_REST_S = 0.01
_WRITE = "write"
WATCH = "watch"
"""The group of what goes on from log to log."""


class Written(NamedTuple):
    """How a file is written: the share done, then its bytes, or why it is not."""

    share: float = 0.0
    bytes: int | None = None
    error: str = ""

    def progress(self, path: Path) -> str:
        """How far it is, while it is written."""
        going = self.bytes is None and not self.error and self.share < 1
        return f"writing {path.name}: {self.share:.0%} · " if going else ""

    def result(self, path: Path) -> str:
        """What became of it, once it is known."""
        if self.error:
            return f"not written: {path}: {self.error}"
        return f"wrote {path} ({size(self.bytes)})" if self.bytes is not None else ""


class LogThreads:
    """Starts jobs for `owner` and hands it, in its own thread, what they found."""

    def __init__(self, owner: Widget, progressed: Callable[[], None]) -> None:
        """`progressed` is called when lines were counted or filtered."""
        self._owner = owner
        self._progressed = progressed
        self._indexing: LineIndex | None = None

    def cancel(self) -> None:
        """End what is about the log shown; a file is written to its end whatever is looked at."""
        for worker in [running for running in self._owner.workers if running.node is self._owner]:
            if worker.group not in (_WRITE, WATCH):
                worker.cancel()

    def work_on(self, document: LogDocument, near: int) -> None:
        """Filter and count what was appended: at once where it is little; `near` is looked at."""
        chosen = document.filter
        # One thread for each filter and index, however often a paint comes by.
        if document.filter_on(near) and chosen is not None and not chosen.running:
            chosen.running = True

            def filter_lines(stopped: Stopped) -> None:
                pace = Pace(_FILTER_REPORT_S)
                while not (stopped() or document.filter is not chosen or chosen.lines.step(BLOCK)):
                    if pace.is_due():
                        self._report()
                chosen.running = False
                self._report()

            self._start("filter", filter_lines)
        index = document.index
        if document.index_on() and self._indexing is not index:
            self._indexing = index

            def count(stopped: Stopped) -> None:
                pace, before = Pace(_INDEX_REPORT_S), document.size
                while not stopped() and not index.step(_INDEX_STEP):
                    if document.size - before > _STORM:
                        sleep(_STORM_REST_S)
                    if pace.is_due():
                        self._report()
                # Another log may be indexed by now.
                if self._indexing is index:
                    self._indexing = None
                self._report()

            self._start("index", count)

    def count_matches(self, document: LogDocument, report: Callable[[LogSearch], None]) -> None:
        """Count the lines that the search finds; `report` is called in the thread."""
        search = document.search
        if search is None or search.counting or search.matches.complete:
            return
        search.counting = True

        def count(stopped: Stopped) -> None:
            done = False
            while not (done or stopped() or document.search is not search):
                done = search.matches.step(_COUNT_STEP)
                report(search)
            search.counting = False
            # What came meanwhile is counted with the next paint, which may not come by itself.
            self._owner.call_later(self.count_matches, document, report)

        self._start("count", count)

    def seek(
        self,
        source: LogSource,
        pattern: Pattern,
        offset: int,
        backward: bool,
        found: Callable[[int | None], None],
    ) -> None:
        """Look for the next line that matches; `found` is called in the thread."""

        from tui.panel.widgets.log.searching import seek

        def find(stopped: Stopped) -> None:
            start = seek(source, pattern, offset, backward, stopped)
            if not stopped():
                found(start)

        self._start("seek", find)

    def find_ranks(self, source: LogSource, found: Callable[[LogSource, list[int]], None]) -> None:
        """Find the ranks that the log names."""
        from runners.watch.logs.ranks import ranks_in

        self._start("ranks", lambda _: self._owner.call_later(found, source, ranks_in(source)))

    def gather(self, part: Part, cap: int, found: Callable[[Text], None]) -> None:
        """Take these lines as text, at most `cap` bytes of it."""

        from runners.watch.logs.extract import text_of

        def read(_: Stopped) -> None:
            text = text_of(part.lines, part.first, part.last, cap)
            self._owner.call_later(found, text)

        self._start("copy", read)

    def write(
        self,
        document: LogDocument,
        path: Path,
        overwrite: bool,
        part: tuple[int, int],
        report: Callable[[Path, Written], None],
    ) -> None:
        """Write the raw bytes of the lines shown, from `part[0]` to `part[1]`, into a file."""
        source, chosen = document.source, document.filter
        lines = chosen.lines if chosen is not None else None

        def write(stopped: Stopped) -> None:
            from runners.watch.logs.extract import write_part

            pace, done = Pace(_WRITE_REPORT_S), Written(1.0, 0)
            try:
                for share, count in write_part(source, path, overwrite, part, lines):
                    if stopped():
                        done = Written(1.0)
                        break
                    done = Written(1.0, count)
                    if pace.is_due():
                        self._owner.call_later(report, path, Written(share))
            except OSError as why:
                done = Written(error=str(why.strerror or why))
            self._owner.call_later(report, path, done)

        self._start(_WRITE, write)

    def _report(self) -> None:
        self._owner.call_later(self._progressed)

    def _start(self, group: str, job: Callable[[Stopped], object]) -> None:
        def run() -> None:
            worker = get_current_worker()
            job(lambda: worker.is_cancelled)

        self._owner.run_worker(run, thread=True, group=group, exclusive=True)


class Pace:
    """Says when to tell again: each telling is a paint."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last = monotonic()

    def is_due(self) -> bool:
        """Whether enough time has passed since it last said so."""
        now = monotonic()
        if now - self._last <= self._every_s:
            return False
        self._last = now
        return True
