"""Going to what is looked for: matches and errors, found by threads."""

from textual.message import Message
from textual.worker import get_current_worker

from runners.watch.logs.expressions import BadExpression
from runners.watch.logs.file import LogFile
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import ErrorPattern, Pattern
from tui.panel.widgets.log.keys import LogKeys
from tui.panel.widgets.log.search import LogSearch, seek
from tui.panel.widgets.log.view import Viewport


class LogFinding(LogKeys):
    """The part of the log pane that searches. What a thread finds in a file that was replaced is
    dropped.
    """

    log_file: LogFile | None
    view: Viewport | None
    search_state: LogSearch | None
    here: int | None
    """Where the line begins that was gone to last; None after the reader moved."""

    class SearchChanged(Message, namespace="log_pane"):
        """`count` lines match so far; `current` is looked at (from 1; 0: none or not known yet)."""

        def __init__(self, count: int, current: int, done: bool, error: str = "") -> None:
            super().__init__()
            self.count = count
            self.current = current
            self.done = done
            self.error = error

    class NothingFound(Message, namespace="log_pane"):
        """There is no such line in the whole log."""

    class _Sought(Message, namespace="log_pane"):
        """A thread found a line (None: there is none)."""

        def __init__(self, source: LogSource, start: int | None) -> None:
            super().__init__()
            self.source = source
            self.start = start

    class _Progress(Message, namespace="log_pane"):
        """A thread got on."""

    def paint(self, force: bool = False) -> None:
        """Draw."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Forget how the rows looked."""
        raise NotImplementedError

    def narrow(self, pattern: Pattern) -> Pattern:
        """The same, among the lines that are shown."""
        raise NotImplementedError

    @property
    def _also(self) -> Pattern | None:
        """What lines must match to be shown."""
        raise NotImplementedError

    def search(self, pattern: str, regex: bool = False) -> None:
        """Mark and count the lines that match, and show the newest not below the screen; "" ends
        it.
        """
        self.search_state = None
        self.redraw()
        self.refresh()
        if self.log_file is None or not pattern:
            self.post_message(self.SearchChanged(0, 0, True))
            return
        try:
            self.search_state = LogSearch(self.log_file.source, pattern, regex, self._also)
        except BadExpression as why:
            self.post_message(self.SearchChanged(0, 0, True, f"not a regular expression: {why}"))
            return
        below = self.view.bottom if self.view is not None else self.log_file.size
        self._seek(self.search_state.pattern, below, True, self.search_state)
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

    action_next_match = next_match
    action_previous_match = previous_match
    action_next_error = next_error
    action_previous_error = previous_error

    def _count_matches(self) -> None:
        state = self.search_state
        if state is not None and not state.counting and not state.matches.complete:
            state.counting = True
            self.run_worker(lambda: self._count(state), thread=True, group="count", exclusive=True)

    def _count(self, state: LogSearch) -> None:
        worker = get_current_worker()
        state.count(
            lambda: worker.is_cancelled or self.search_state is not state,
            lambda: self._tell_search(state),
        )
        # What came in the meantime is counted with the next paint, which may not come by itself.
        state.counting = False
        self.call_later(self._count_matches)

    def _tell_search(self, state: LogSearch) -> None:
        if state is self.search_state:
            matches = state.matches
            current = matches.rank(state.at) if state.at is not None else None
            self.post_message(self.SearchChanged(matches.count, current or 0, matches.complete))

    def _seek_match(self, backward: bool) -> None:
        if self.search_state is not None:
            self._seek(
                self.search_state.pattern, self._from_here(backward), backward, self.search_state
            )

    def _seek_error(self, backward: bool) -> None:
        self._seek(self.narrow(ErrorPattern()), self._from_here(backward), backward, None)

    def _from_here(self, backward: bool) -> int:
        if self.here is not None:
            return self.here
        if self.view is None:
            return 0
        return self.view.bottom if backward and self.following else self.view.top - (not backward)

    def _seek(self, pattern: Pattern, offset: int, backward: bool, state: LogSearch | None) -> None:
        if self.log_file is None:
            return
        source = self.log_file.source

        def look() -> None:
            worker = get_current_worker()
            start = seek(source, pattern, offset, backward, lambda: worker.is_cancelled)
            if not worker.is_cancelled:
                self.post_message(self._Sought(source, start))
                if state is not None:
                    state.at = start
                    self._tell_search(state)

        self.run_worker(look, thread=True, group="seek", exclusive=True)

    def on_log_pane__sought(self, message: _Sought) -> None:
        """A line was found: show it, without moving if it is on the screen."""
        if self.view is None or self.log_file is None or message.source is not self.log_file.source:
            return
        if message.start is None:
            self.post_message(self.NothingFound())
            return
        self.here = message.start
        self.redraw()
        self.following = False
        if not any(row.line.start == message.start for row in self.view.rows):
            self.view.show(message.start, above=self.page // 3)
        self.paint(force=True)
