"""Finding lines in a log of any size: from a place on, and counted in the background.

A line is found or not, however often it matches. Bytes are searched as they were written, colours
between any two of them; a line that may match is then judged without its colours, or by what is
left of its redraws on the screen.
"""

import re
import threading
from array import array
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from runners.watch.logs.expressions import (
    COLOURS,
    Expression,
    any_of,
    compile_expression,
    texts_needed,
)
from runners.watch.logs.reader import BLOCK, LogSource
from runners.watch.logs.render import LIMIT, plain

_COLOURS = re.compile(COLOURS.encode())
_ERRORS = re.compile(
    rb"Traceback \(most recent call last\)|\w(?:Error|Exception)\b|\b(?:ERROR|FATAL)\b"
    rb"|\b(?:Error|Exception|error|fatal)(?:[]!]|:(?! *[-+.0-9]))|out of memory|^(?:.*\s)?Killed\b"
    rb"|(?:Segmentation|Memory access) fault|[Bb]us error|core dumped",
)
_ERROR_WORDS = (
    "Traceback",
    "rror",
    "Exception",
    "ERROR",
    "fatal",
    "FATAL",
    "out of memory",
    "Killed",
    " fault",
    "core dumped",
)


class Pattern(Protocol):
    """What is looked for."""

    def candidates(self, coloured: bool) -> Expression | None:
        """What matches wherever a line that is meant may be, in bytes as written; None: colours
        must be taken out.
        """

    def accepts(self, line: bytes) -> bool:
        """Whether a line that has a candidate is meant; it is given without colours."""


class TextPattern:
    """Text as it stands."""

    def __init__(self, text: str) -> None:
        self._needle = text.encode()
        self._candidates = any_of([text])

    def candidates(self, coloured: bool) -> Expression:
        """The text, whatever its colours."""
        return self._candidates

    def accepts(self, line: bytes) -> bool:
        """Whether the text is still there without colours and after the line's redraws."""
        return self._needle in line


class RegexPattern:
    """A regular expression; raises BadExpression when it is none."""

    def __init__(self, text: str) -> None:
        self._expression = compile_expression(text)
        needed = texts_needed(text)
        self._among_colours = any_of(needed) if needed else None

    def candidates(self, coloured: bool) -> Expression | None:
        """The expression itself; among colours, the texts that it needs."""
        return self._among_colours if coloured else self._expression

    def accepts(self, line: bytes) -> bool:
        """Whether it matches within the line."""
        return self._expression.search(line) is not None


class ErrorPattern:
    """Lines that tell of a failure: tracebacks, errors, killed processes, memory that ran out."""

    def __init__(self) -> None:
        self._candidates = any_of(_ERROR_WORDS)

    def candidates(self, coloured: bool) -> Expression:
        """The telling words."""
        return self._candidates

    def accepts(self, line: bytes) -> bool:
        """Whether the word stands for a failure here (`Error=0.12` is a metric)."""
        return _ERRORS.search(line) is not None


class AllOf:
    """Lines that two patterns match; the first, rarer one is looked for."""

    def __init__(self, wanted: Pattern, also: Pattern) -> None:
        self._also = also
        self._wanted = wanted

    def candidates(self, coloured: bool) -> Expression | None:
        """Where the first pattern may match."""
        return self._wanted.candidates(coloured)

    def accepts(self, line: bytes) -> bool:
        """Whether both match."""
        return self._wanted.accepts(line) and self._also.accepts(line)


class Hit(NamedTuple):
    """A line that matches (None: none up to here) and how far the search is."""

    start: int | None
    searched: int


def find(source: LogSource, pattern: Pattern, offset: int, backward: bool = False) -> Iterator[Hit]:
    """Lines that match after the one at `offset`, or before it.

    A `Hit` comes per hit and per MiB, so that whoever asked can stop at any time.
    """
    block = max(0, min(offset, source.size - 1)) // BLOCK
    while 0 <= block * BLOCK < source.size:
        hits = hits_in_block(source, pattern, block)
        for hit in reversed(hits) if backward else hits:
            if (hit < offset) if backward else (hit > offset):
                yield Hit(hit, hit)
        yield Hit(None, block * BLOCK if backward else min((block + 1) * BLOCK, source.size))
        block += -1 if backward else 1


def hits_in_block(source: LogSource, pattern: Pattern, block: int) -> list[int]:
    """Where the lines begin that match, among those that end block `block` of the file or lie in
    it.
    """
    low = source.start_of(block * BLOCK)
    high = (
        source.size if (block + 1) * BLOCK >= source.size else source.start_of((block + 1) * BLOCK)
    )
    return hits_between(source, pattern, low, high)


def hits_between(source: LogSource, pattern: Pattern, low: int, high: int) -> list[int]:
    """Where the lines begin that match, from `low`, which begins a line, to `high`, which ends
    one.
    """
    return [low + at for at in _hits(source.read(low, high), pattern)]


def _hits(chunk: bytes, pattern: Pattern) -> Iterator[int]:
    expression = pattern.candidates(b"\x1b" in chunk)
    if expression is not None:
        yield from _matching_lines(chunk, pattern, expression)
        return
    # Offsets are those of the bytes as written, which have the same lines.
    bare = _COLOURS.sub(b"", chunk)
    start = at = 0
    for hit in _matching_lines(bare, pattern, pattern.candidates(False)):
        for _ in range(bare.count(b"\n", at, hit)):
            start = chunk.index(b"\n", start) + 1
        at = hit
        yield start


def _matching_lines(chunk: bytes, pattern: Pattern, expression: Expression | None) -> Iterator[int]:
    at = 0
    while (
        expression is not None and at < len(chunk) and (candidate := expression.search(chunk, at))
    ):
        found = candidate.start()
        start = chunk.rfind(b"\n", at, found) + 1 or at
        end = chunk.find(b"\n", found)
        end = len(chunk) if end < 0 else end
        if pattern.accepts(_as_shown(chunk[start:end])):
            yield start
        at = end + 1


def _as_shown(line: bytes) -> bytes:
    if b"\r" in line.rstrip(b"\r") or b"\b" in line:
        return plain(line[-LIMIT:]).encode()
    return _COLOURS.sub(b"", line) if b"\x1b" in line else line


class MatchCount:
    """How many lines match; 4 bytes of memory per MiB of log, however many there are."""

    def __init__(self, source: LogSource, pattern: Pattern) -> None:
        self._source = source
        self.pattern = pattern
        self._counts = array("I")
        self._whole = 0
        self._rest = (0, 0)
        self._turn = threading.Lock()

    @property
    def count(self) -> int:
        """Lines found so far."""
        return self._whole + self._rest[1]

    @property
    def complete(self) -> bool:
        """Whether the whole file has been searched."""
        return max(len(self._counts) * BLOCK, self._rest[0]) >= self._source.size

    def step(self, budget: int) -> bool:
        """Search about `budget` more bytes; whether that reached the end."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            while budget > 0 and not self.complete:
                budget -= BLOCK
                size = self._source.size
                number = len(hits_in_block(self._source, self.pattern, len(self._counts)))
                if (len(self._counts) + 1) * BLOCK < size:
                    self._counts.append(number)
                    self._whole += number
                    self._rest = (0, 0)
                else:
                    self._rest = (size, number)
            return self.complete
        finally:
            self._turn.release()

    def rank(self, start: int) -> int | None:
        """Which of the matches, from 1, the line at `start` is; None where nothing is counted
        yet.
        """
        block = start // BLOCK
        if block > len(self._counts) or (block == len(self._counts) and not self.complete):
            return None
        before = sum(self._counts[:block])
        for at in (block, block + 1):
            hits = hits_in_block(self._source, self.pattern, at)
            if start in hits:
                return before + hits.index(start) + 1
            before += len(hits)
        return None
