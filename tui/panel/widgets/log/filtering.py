"""Showing only the lines that match, or those of one rank."""

from time import monotonic

from textual.message import Message
from textual.worker import get_current_worker

from runners.watch.logs.expressions import BadExpression
from runners.watch.logs.ranks import ranks_in
from runners.watch.logs.reader import BLOCK, LogSource
from runners.watch.logs.search import AllOf, Pattern
from tui.panel.widgets.log.finding import LogFinding
from tui.panel.widgets.log.search import LogSearch
from tui.panel.widgets.log.wanted import Wanted

_AT_ONCE = 256 << 10  # bytes appended that are searched on the spot
_TOLD = 0.1  # seconds between signs of life


class LogFiltering(LogFinding):
    """The part of the log pane that hides lines."""

    wanted: Wanted | None = None
    _unfiltered = (0, True)

    class Told(Message, namespace="log_pane"):
        """Something to tell the reader."""

        def __init__(self, words: str, severe: bool = False, seconds: float = 4) -> None:
            super().__init__()
            self.words = words
            self.severe = severe
            self.seconds = seconds

    class _Ranks(Message, namespace="log_pane"):
        """A thread found these ranks."""

        def __init__(self, source: LogSource, ranks: list[int]) -> None:
            super().__init__()
            self.source = source
            self.ranks = ranks

    def filter(self, text: str, regex: bool = False) -> None:
        """Show only the lines that match; "" ends it. The rank, if one is chosen, stays chosen."""
        self._want(text, regex, self.wanted.rank if self.wanted is not None else None)

    def end_filter(self) -> None:
        """Show all lines; the one that was looked at stays where it is."""
        self._want("", False, None)

    def action_next_rank(self) -> None:
        """Show the lines of all ranks, of the first one, of the next one …"""
        if self.log_file is None:
            return
        source = self.log_file.source
        self.run_worker(
            lambda: self.post_message(self._Ranks(source, ranks_in(source))),
            thread=True,
            group="ranks",
            exclusive=True,
        )

    def on_log_pane__ranks(self, message: _Ranks) -> None:
        """Go on to the next rank there is."""
        if self.log_file is None or message.source is not self.log_file.source:
            return
        if not message.ranks:
            self.post_message(self.Told("no line here names a rank, as [rank0]: or [default0]: do"))
            return
        now = self.wanted
        rank = next(
            (rank for rank in message.ranks if now is None or now.rank is None or rank > now.rank),
            None,
        )
        self._want(now.text if now else "", now.regex if now else False, rank)

    def narrow(self, pattern: Pattern) -> Pattern:
        """The same, among the lines that are shown."""
        return AllOf(pattern, self.wanted.pattern) if self.wanted is not None else pattern

    def _want(self, text: str, regex: bool, rank: int | None) -> None:
        log, view = self.log_file, self.view
        if log is None or view is None:
            return
        if not text and rank is None:
            self._show_all()
            return
        try:
            wanted = Wanted(log.source, text, regex, rank, log.size if self.following else view.top)
        except BadExpression as why:
            self.post_message(self.Told(f"not a regular expression: {why}", severe=True))
            return
        if self.wanted is None:
            self._unfiltered = (view.top, self.following)
        self.wanted = wanted
        view.matching = wanted.lines
        wanted.lines.step(1)
        self._changed()

    def _show_all(self) -> None:
        view = self.view
        if self.wanted is None or view is None:
            return
        rows = view.rows
        at = len(rows) - 1 if self.following else 0
        at = next((y for y, row in enumerate(rows) if row.line.start == self.here), at)
        self.wanted = view.matching = None
        if not rows:
            top, self.following = self._unfiltered
            view.show(top)
        else:
            start = rows[at].line.start
            view.show_end()
            if not self.following or not any(row.line.start == start for row in view.rows):
                self.following = False
                view.show(start, above=at)
        self._changed()

    def _changed(self) -> None:
        if self.search_state is not None and self.log_file is not None:
            old = self.search_state
            self.search_state = LogSearch(self.log_file.source, old.text, old.regex, self._also)
        self.redraw()
        self.paint(force=True)

    @property
    def _also(self) -> Pattern | None:
        return self.wanted.pattern if self.wanted is not None else None

    def _renew_filter(self) -> None:
        """The file is another one."""
        old = self.wanted
        if old is not None and self.log_file is not None and self.view is not None:
            self.wanted = Wanted(self.log_file.source, old.text, old.regex, old.rank, self.view.top)
            self.view.matching = self.wanted.lines

    def _filter_on(self) -> None:
        """Search what came; little of it at once, much by a thread."""
        wanted, log, view = self.wanted, self.log_file, self.view
        if wanted is None or log is None or view is None:
            return
        wanted.lines.near = log.size if self.following else view.top
        if wanted.lines.behind <= _AT_ONCE:
            wanted.lines.step(1)
        if not wanted.lines.complete and not wanted.running:
            wanted.running = True
            self.run_worker(
                lambda: self._go_through(wanted), thread=True, group="filter", exclusive=True
            )

    def _go_through(self, wanted: Wanted) -> None:
        worker = get_current_worker()
        told = 0.0
        while not worker.is_cancelled and self.wanted is wanted and not wanted.lines.step(BLOCK):
            if monotonic() - told > _TOLD:
                told = monotonic()
                self.post_message(self._Progress())
        wanted.running = False
        self.post_message(self._Progress())
