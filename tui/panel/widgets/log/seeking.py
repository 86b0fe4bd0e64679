"""What a log pane goes to: what a search finds, failures, and the next rank's lines or log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from runners.state.layout import RANK_LOGS
from runners.watch.logs.reader import LogSource
from tui.panel.widgets.log.messages import LogNotice, SearchChanged
from tui.panel.widgets.log.threads import LogThreads
from tui.panel.widgets.log.window_reader import LogReader

if TYPE_CHECKING:
    from runners.watch.logs.search import Pattern
    from tui.panel.widgets.log.searching import LogSearch

_WRAPPED = {False: "from the first again", True: "from the last again"}
"""The notice when a search goes on at the other end, by whether it goes backward."""


class LogSeeker:
    """Searches for `owner`, whose log changes while threads are still at work on another.

    Goes from rank to rank, too: by a log of its own, or by the lines of the output.
    """

    def __init__(
        self,
        owner: Widget,
        threads: LogThreads,
        reader: Callable[[], LogReader],
        show: Callable[[Path, str], None],
        arrived: Callable[[], None],
    ) -> None:
        """`reader`: that of the log shown now; `show` shows another log.

        `arrived` is called when the reader has another place, or shows other lines.
        """
        self._owner = owner
        self._threads = threads
        self._reader = reader
        self._show = show
        self._arrived = arrived
        self._title = ""

    def search(self, text: str, regex: bool) -> None:
        """Mark and count the lines that match, and go to the newest not below; "" ends it."""
        reader = self._reader()
        search = None
        try:
            search = reader.document.set_search(text, regex)
        except ValueError as why:
            notice = f"not a regular expression: {why}"
            self._owner.post_message(LogNotice(notice, severe=True))
        self._owner.refresh()
        if search is None:
            self._owner.post_message(SearchChanged())
            return
        self._seek(search.pattern, reader.view.bottom, True, search)
        self.count_matches()

    def count_matches(self) -> None:
        """Count the matches that have come since."""
        self._threads.count_matches(self._reader().document, self._announce)

    def go_to_match(self, direction: int) -> None:
        """Go to the match below (1) or above (-1); from the last to the first."""
        reader, backward = self._reader(), direction < 0
        search = reader.document.search
        if search is None:
            self._owner.post_message(LogNotice("nothing is searched for: / starts a search"))
        else:
            self._seek(search.pattern, reader.seek_from(backward), backward, search, True)

    def go_to_error(self, direction: int) -> None:
        """Go to the failure below (1) or above (-1); to the newest one while following."""
        reader = self._reader()
        # Who follows stands at the end: below it there is nothing.
        backward = direction < 0 or reader.following
        from runners.watch.logs.search import ErrorPattern

        pattern = reader.document.narrowed(ErrorPattern())
        self._seek(pattern, reader.seek_from(backward), backward, None, True)

    def _seek(
        self,
        pattern: Pattern,
        offset: int,
        backward: bool,
        search: LogSearch | None,
        notice_wrap: bool = False,
    ) -> None:
        document = self._reader().document
        source = document.source

        def found(start: int | None) -> None:  # in the thread
            wrapped = start is not None and (start > offset if backward else start < offset)
            shown = "the lines shown" if document.filter is not None else "this log"
            notice = "no match" if search is not None else f"no errors in {shown}"
            if start is not None:
                notice = _WRAPPED[backward] if wrapped and notice_wrap else ""
            self._owner.call_later(self._go, source, start, notice)
            sought = search or document.search
            # What is no match, as a failure, is none of those that are counted.
            if sought is not None and (search is not None or start is not None):
                sought.at = start
                self._announce(sought)

        self._threads.seek(source, pattern, offset, backward, found)

    def _go(self, source: LogSource, start: int | None, notice: str) -> None:
        reader = self._reader()
        # Another log is shown by now, or this one through another filter.
        if source is not reader.document.source:
            return
        if start is None:
            self._owner.post_message(LogNotice(notice, seconds=3))
            return
        if notice:
            self._owner.post_message(LogNotice(notice, seconds=2))
        reader.go_to_found(start)
        self._arrived()

    def _announce(self, search: LogSearch) -> None:
        # Of a search that was replaced while its thread ran nothing is told.
        if search is self._reader().document.search:
            self._owner.post_message(SearchChanged())

    # ---- ranks

    def show_next_rank(self, title: str) -> None:
        """From all ranks to the first one, from one to the next, from the last to all."""
        self._title, document = title, self._reader().document
        if following := next_rank_file(document.path, title):
            self._show(*following)
        else:
            self._threads.find_ranks(document.source, self._show_rank)

    def _show_rank(self, source: LogSource, ranks: list[int]) -> None:
        reader = self._reader()
        if source is not reader.document.source:
            return
        following = next_rank_file(reader.document.path, self._title, begin=True)
        if ranks:
            if reader.show_next_rank(ranks):
                self._arrived()
        elif following is not None:
            self._show(*following)
        else:
            notice = "no line here names a rank, as [rank0]: or [default0]: do"
            self._owner.post_message(LogNotice(notice))


def next_rank_file(path: Path | None, title: str, begin: bool = False) -> tuple[Path, str] | None:
    """The log after that of a rank, with its title: the next rank's, after the last the output.

    After the output, only to `begin`: the first rank's. None where there is none.
    """
    from runners.watch.logs.rank_logs import rank_logs

    parents = path.parents if path is not None else ()
    run = next((part for part in parents if (part / "output.log").exists()), None)
    if run is None or path is None or not (begin or RANK_LOGS in path.relative_to(run).parts):
        return None
    name = title.partition(" · ")[0]
    places = [(run / "output.log", f"{name} · output.log")]
    for rank, log in rank_logs(run).items():
        places += [(file, f"{name} · rank {rank} · {file.name}") for file in log.paths]
    at = next((i for i, place in enumerate(places) if place[0] == path), -1)
    return places[(at + 1) % len(places)] if len(places) > 1 else None
