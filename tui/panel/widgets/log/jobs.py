"""The long work on a log, for threads: each job tells of its progress, and ends when asked to.

`stopped` says whether to end; `report` is called when there is something new to show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from runners.watch.logs.extract import write_part
from runners.watch.logs.file import LogFile
from runners.watch.logs.filter import LineFilter
from runners.watch.logs.index import LineIndex
from runners.watch.logs.reader import BLOCK, LogSource
from tui.panel.widgets.log.log_filter import LogFilter
from tui.panel.widgets.log.search_state import LogSearch

Stopped = Callable[[], bool]
Report = Callable[[], None]

_INDEX_STEP = 8 << 20
_COUNT_STEP = 4 << 20
_INDEX_REPORT_S = 0.5
_FILTER_REPORT_S = 0.1
_WRITE_REPORT_S = 0.25
# Grown by so much while it is counted: then the program that writes needs the core more.
_STORM = 64 << 20
_STORM_REST_S = 0.01


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


def count_lines(file: LogFile, index: LineIndex, stopped: Stopped, report: Report) -> None:
    """Count the lines up to the end of the file."""
    pace, size = Pace(_INDEX_REPORT_S), file.size
    while not stopped() and not index.step(_INDEX_STEP):
        if file.size - size > _STORM:
            sleep(_STORM_REST_S)
        if pace.is_due():
            report()


def filter_lines(chosen: LogFilter, stopped: Stopped, report: Report) -> None:
    """Find the lines that the filter lets through, where the reader looks first."""
    pace = Pace(_FILTER_REPORT_S)
    while not stopped() and not chosen.lines.step(BLOCK):
        if pace.is_due():
            report()
    chosen.running = False
    report()


def count_matches(search: LogSearch, stopped: Stopped, report: Report) -> None:
    """Count the lines that match."""
    while not stopped():
        done = search.matches.step(_COUNT_STEP)
        report()
        if done:
            break
    search.counting = False


def write_lines(
    source: LogSource,
    path: Path,
    overwrite: bool,
    part: tuple[int, int],
    lines: LineFilter | None,
    stopped: Stopped,
    report: Callable[[float], None],
) -> int | None:
    """Write a part of the log into a file; bytes written, None when stopped. Raises OSError.

    `report` is given the share that is done.
    """
    pace, written = Pace(_WRITE_REPORT_S), 0
    for share, size in write_part(source, path, overwrite, part, lines):
        if stopped():
            return None
        written = size
        if pace.is_due():
            report(share)
    return written
