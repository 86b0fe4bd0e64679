"""Searching the log from the pane: the bar to type in, and the state of one search."""

import re
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from runners.watch.logs.expressions import Expression, compile_expression
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import AllOf, MatchCount, Pattern, RegexPattern, TextPattern, find

_STEP = 4 << 20


class SearchBar(Input):
    """A line to type a search in. Text between slashes is a regular expression: `/loss:
    nan|inf/`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]

    class Closed(Message):
        """Escape was pressed: the screen hides the bar and gives the focus back."""

    def action_close(self) -> None:
        """Say that the bar is done with."""
        self.post_message(self.Closed())

    @property
    def wanted(self) -> tuple[str, bool]:
        """The pattern, and whether it is a regular expression."""
        text = self.value
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            return text[1:-1], True
        return text, False


class LogSearch:
    """One search: its pattern and how many lines match. Threads run `count`, and `seek`."""

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
        self.at: int | None = None

    def count(self, stopped: Callable[[], bool], tell: Callable[[], None]) -> None:
        """Count the matching lines, telling of it every few MiB and at the end."""
        while not stopped():
            done = self.matches.step(_STEP)
            tell()
            if done:
                return


def seek(
    source: LogSource, pattern: Pattern, offset: int, backward: bool, stopped: Callable[[], bool]
) -> int | None:
    """The next line that matches, from the file's other end if there is none; None if none does at
    all.
    """
    for start in (offset, source.size if backward else -1):
        for found in find(source, pattern, start, backward):
            if stopped():
                return None
            if found.start is not None:
                return found.start
    return None
