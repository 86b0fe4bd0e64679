"""Which lines of a log are wanted, for as long as they are."""

from runners.watch.logs.filter import LineFilter
from runners.watch.logs.ranks import RankPattern
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import AllOf, Pattern, RegexPattern, TextPattern


class Wanted:
    """Which lines are shown: a text or regular expression, a rank, or both. Raises
    BadExpression.
    """

    def __init__(
        self, source: LogSource, text: str, regex: bool, rank: int | None, near: int
    ) -> None:
        self.text = text
        self.regex = regex
        self.rank = rank
        found: Pattern | None = (
            (RegexPattern(text) if regex else TextPattern(text)) if text else None
        )
        ranked = RankPattern(rank) if rank is not None else None
        self.pattern: Pattern = (
            AllOf(found, ranked) if found and ranked else found or ranked or TextPattern("")
        )
        self.lines = LineFilter(source, self.pattern, near)
        self.running = False

    @property
    def words(self) -> str:
        """What is shown, for a title."""
        text = f"/{self.text}/" if self.regex else self.text
        text = "".join(character if character.isprintable() else "·" for character in text)
        text = text if len(text) <= 24 else f"{text[:23]}…"
        words = [f"filter: {text}"] if text else []
        return " · ".join([*words, f"rank {self.rank}"] if self.rank is not None else words)
