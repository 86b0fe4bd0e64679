"""What is looked for in a log: a filter and a search as a person gave them.

Loaded with the first of them: most logs are only followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from runners.watch.logs.expressions import Expression, compile_expression
from runners.watch.logs.filter import LineFilter
from runners.watch.logs.ranks import RankPattern
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import AllOf, MatchCount, Pattern, RegexPattern, TextPattern, find

_SHOWN_CHARACTERS = 24


class LogFilter:
    """A text or regular expression, a rank, or both. Raises BadExpression."""

    def __init__(
        self,
        source: LogSource,
        text: str,
        regex: bool,
        rank: int | None,
        near: int,
        untagged: bool = False,
    ) -> None:
        """`near`: the offset to look around first; `untagged`: what names no rank is rank 0's."""
        self.text = text
        self.regex = regex
        self.rank = rank
        self.untagged = untagged and rank == 0
        self.pattern = _pattern(text, regex, rank, self.untagged)
        self.lines = LineFilter(source, self.pattern, near)
        self.running = False
        """Whether a thread is at it."""

    def begun_anew(self, source: LogSource) -> LogFilter:
        """The same filter for another file."""
        return LogFilter(source, self.text, self.regex, self.rank, source.size, self.untagged)

    @property
    def description(self) -> str:
        """What is shown, for a title: `filter: loss · rank 3`."""
        text = f"/{self.text}/" if self.regex else self.text
        text = "".join(character if character.isprintable() else "·" for character in text)
        if len(text) > _SHOWN_CHARACTERS:
            text = f"{text[: _SHOWN_CHARACTERS - 1]}…"
        parts = [f"filter: {text}"] if text else []
        if self.rank is not None:
            parts.append(f"rank {self.rank}")
        return " · ".join(parts)


def _pattern(text: str, regex: bool, rank: int | None, untagged: bool) -> Pattern:
    if not text:
        return RankPattern(rank, untagged) if rank is not None else TextPattern("")
    found = _text_pattern(text, regex)
    return found if rank is None else AllOf(found, RankPattern(rank, untagged))


def _text_pattern(text: str, regex: bool) -> Pattern:
    return RegexPattern(text) if regex else TextPattern(text)


class LogSearch:
    """One search: its pattern, what it marks, and how many lines match."""

    def __init__(
        self, source: LogSource, text: str, regex: bool = False, also: Pattern | None = None
    ) -> None:
        """`also`: what the lines must match besides. Raises BadExpression when `text` is none."""
        self.text = text
        self.regex = regex
        wanted = _text_pattern(text, regex)
        self.pattern = AllOf(wanted, also) if also is not None else wanted
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
