"""One log as it is looked at: its file, its lines counted, filtered and searched.

Knows no screen. Threads do the long work (`threads`); what they found in a file that was replaced
belongs to an index, a filter or a search that the document no longer holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runners.watch.logs.index import Change, LogFile
from runners.watch.logs.reader import LogSource

if TYPE_CHECKING:
    from runners.watch.logs.filter import LineFilter
    from runners.watch.logs.search import Pattern
    from tui.panel.widgets.log.searching import LogFilter, LogSearch

_INDEX_AT_ONCE = 8 << 20  # bytes counted on the spot: two or three milliseconds
_FILTER_AT_ONCE = 256 << 10  # bytes appended that are filtered on the spot


class LogDocument(LogFile):
    """One log by its path; without a path it is empty for ever."""

    filter: LogFilter | None = None
    search: LogSearch | None = None

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path)

    @property
    def shown(self) -> LineFilter | LogSource:
        """The lines that are shown: all, or those the filter lets through."""
        return self.filter.lines if self.filter is not None else self.source

    def narrowed(self, pattern: Pattern) -> Pattern:
        """The same pattern among the lines that are shown."""
        if self.filter is None:
            return pattern
        from runners.watch.logs.search import AllOf

        return AllOf(pattern, self.filter.pattern)

    def refresh(self) -> Change:
        """Look at the file again; filter and search begin anew when it is another one."""
        before = self.source
        change = super().refresh()
        if self.source is not before:
            if self.filter is not None:
                self.filter = self.filter.begun_anew(self.source)
            self._renew_search()
        return change

    # ---- filter and search

    def set_filter(
        self, text: str, regex: bool = False, rank: int | None = None, near: int = 0
    ) -> bool:
        """Show only lines that match; without text and rank, all. Whether anything changed.

        `near` is the offset to look around first. Raises BadExpression, a ValueError.
        """
        if not text and rank is None:
            changed = self.filter is not None
            self.filter = None
        else:
            from tui.panel.widgets.log.searching import LogFilter

            self.filter = LogFilter(self.source, text, regex, rank, near, self._has_untagged)
            self.filter.lines.step(1)
            changed = True
        if changed:
            self._renew_search()
        return changed

    def set_search(self, text: str, regex: bool = False) -> LogSearch | None:
        """Search for a text among the lines that are shown, "" for none; raises BadExpression."""
        self.search = None
        if text:
            from tui.panel.widgets.log.searching import LogSearch

            also = self.filter.pattern if self.filter is not None else None
            self.search = LogSearch(self.source, text, regex, also)
        return self.search

    @property
    def _has_untagged(self) -> bool:
        if self.path is None:
            return False
        from runners.watch.logs.rank_logs import has_rank_logs

        return has_rank_logs(self.path.parent)

    def rank_after(self, ranks: list[int]) -> int | None:
        """The rank to show next: the first, the next one, then all (None)."""
        now = self.filter.rank if self.filter is not None else None
        ranks = sorted({0, *ranks}) if self._has_untagged else ranks
        return next((rank for rank in ranks if now is None or rank > now), None)

    def _renew_search(self) -> None:
        if self.search is not None:
            # The pattern was one before, so it is one now.
            self.set_search(self.search.text, self.search.regex)

    # ---- a little work at once, much by a thread

    def filter_on(self, near: int) -> bool:
        """Filter what was appended, if that is little; whether a thread must go on with the rest.

        `near` is the offset the reader looks at.
        """
        if self.filter is None:
            return False
        lines = self.filter.lines
        lines.near = near
        if lines.behind <= _FILTER_AT_ONCE:
            lines.step(1)
        return not lines.complete

    def index_on(self) -> bool:
        """Count the lines that were appended, if that is little; whether a thread must go on."""
        if self.size - self.index.scanned > _INDEX_AT_ONCE:
            return True
        self.index.step(_INDEX_AT_ONCE)
        return False
