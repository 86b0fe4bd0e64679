"""Which lines of a log are shown: those with a text, those of a rank, or both."""

from __future__ import annotations

from runners.watch.logs.filter import LineFilter
from runners.watch.logs.ranks import RankPattern
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import AllOf, Pattern, RegexPattern, TextPattern

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
    found: Pattern = RegexPattern(text) if regex else TextPattern(text)
    return found if rank is None else AllOf(found, RankPattern(rank, untagged))
