"""One search of a log, and going to what it finds."""

from __future__ import annotations

import re
from collections.abc import Callable

from runners.watch.logs.expressions import Expression, compile_expression
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import AllOf, MatchCount, Pattern, RegexPattern, TextPattern, find


class LogSearch:
    """One search: its pattern, what it marks, and how many lines match."""

    def __init__(
        self, source: LogSource, text: str, regex: bool = False, also: Pattern | None = None
    ) -> None:
        """`also`: what the lines must match besides. Raises BadExpression when `text` is none."""
        self.text = text
        self.regex = regex
        wanted: Pattern = RegexPattern(text) if regex else TextPattern(text)
        self.pattern: Pattern = AllOf(wanted, also) if also is not None else wanted
        self.marks: Expression = compile_expression(text if regex else re.escape(text))
        self.matches = MatchCount(source, self.pattern)
        self.counting = False
        """Whether a thread is at it."""
        self.at: int | None = None
        """Where the line begins that is looked at."""

    @property
    def current(self) -> int:
        """Which of the matches is looked at, from 1; 0: none, or not known yet."""
        return (self.matches.rank(self.at) or 0) if self.at is not None else 0


def seek(
    source: LogSource, pattern: Pattern, offset: int, backward: bool, stopped: Callable[[], bool]
) -> int | None:
    """The next line that matches, from the file's other end if there is none; None if none does."""
    for start in (offset, source.size if backward else -1):
        for found in find(source, pattern, start, backward):
            if stopped():
                return None
            if found.start is not None:
                return found.start
    return None
