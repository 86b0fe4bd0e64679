"""Finding lines in a log of any size: from a place on, and counted in the background.

A line is found or not, however often it matches. Bytes are searched as they were written, with
colours between any two of them; a line that may match is then judged without its colours, or by
what its redraws leave on the screen.
"""

import re
import threading
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, Protocol

from runners.model.late_pattern import late_pattern
from runners.watch.logs.expressions import (
    COLOURS,
    Expression,
    any_of,
    compile_expression,
    texts_needed,
    whole_lines,
)
from runners.watch.logs.reader import BLOCK, LogSource
from runners.watch.logs.render import LIMIT, plain

_COLOURS = late_pattern(COLOURS.encode())
_ERRORS = late_pattern(
    rb"Traceback \(most recent call last\)|\w(?:Error|Exception)\b|\b(?:ERROR|FATAL)\b"
    rb"|\b(?:Error|Exception|error|fatal)(?:[]!]|:(?! *[-+.0-9]))|out of memory|^(?:.*\s)?Killed\b"
    rb"|(?:Segmentation|Memory access) fault|[Bb]us error|core dumped",
)
# A few lines say enough about the whole block, and cost a hundredth of it.
_SAMPLE = 8 * 1024
_LEAST_LINES = 16
_MANY = 8  # one line in so many
_ERROR_TERMS = (
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
    """What is searched for."""

    def candidates(self, coloured: bool) -> Expression | None:
        """Matches wherever a wanted line may be, as written; None: remove colours first."""

    def accepts(self, line: bytes) -> bool:
        """Whether a line that has a candidate is wanted; it is given without colours."""

    def stretches(self, text: bytes) -> list[tuple[int, int]]:
        """Which lines of a text, as shown and ended by a newline, are wanted: from and to."""


class TextPattern:
    """Text as it is."""

    def __init__(self, text: str) -> None:
        self._needle = text.encode()
        self._lines = whole_lines(re.escape(text))
        self._candidates = any_of([text])

    def candidates(self, coloured: bool) -> Expression:
        """The text, whatever its colours."""
        return self._candidates

    def accepts(self, line: bytes) -> bool:
        """Whether the text is still there without colours and after the line's redraws."""
        return self._needle in line

    def stretches(self, text: bytes) -> list[tuple[int, int]]:
        """Which lines have the text."""
        return _stretches(self, self._lines, text)


class RegexPattern:
    """A regular expression. Raises BadExpression when it is not one."""

    def __init__(self, text: str) -> None:
        self._expression = compile_expression(text)
        self._lines = whole_lines(text)
        needed = texts_needed(text)
        self._among_colours = any_of(needed) if needed else None

    def candidates(self, coloured: bool) -> Expression | None:
        """The expression itself; among colours, the texts that it needs."""
        return self._among_colours if coloured else self._expression

    def accepts(self, line: bytes) -> bool:
        """Whether it matches within the line."""
        return self._expression.search(line) is not None

    def stretches(self, text: bytes) -> list[tuple[int, int]]:
        """Which lines match."""
        return _stretches(self, self._lines, text)


class ErrorPattern:
    """Lines that report a failure: tracebacks, errors, killed processes, memory that ran out."""

    def __init__(self) -> None:
        self._candidates = any_of(_ERROR_TERMS)

    def candidates(self, coloured: bool) -> Expression:
        """The words that failures are reported with."""
        return self._candidates

    def accepts(self, line: bytes) -> bool:
        """Whether the word means a failure here (`Error=0.12` is a metric)."""
        return _ERRORS.search(line) is not None

    def stretches(self, text: bytes) -> list[tuple[int, int]]:
        """Which lines report a failure."""
        return line_by_line(self, text)


class AllOf:
    """Lines that match two patterns; the first, rarer one is searched for."""

    def __init__(self, wanted: Pattern, also: Pattern) -> None:
        self._also = also
        self._wanted = wanted

    def candidates(self, coloured: bool) -> Expression | None:
        """Where the first pattern may match."""
        return self._wanted.candidates(coloured)

    def accepts(self, line: bytes) -> bool:
        """Whether both match."""
        return self._wanted.accepts(line) and self._also.accepts(line)

    def stretches(self, text: bytes) -> list[tuple[int, int]]:
        """Which lines match both: those of the first, judged by the second."""
        numbers = [n for low, high in self._wanted.stretches(text) for n in range(low, high)]
        lines = text[:-1].split(b"\n")
        some = b"".join(lines[number] + b"\n" for number in numbers)
        found = self._also.stretches(some) if some else []
        return [(numbers[at], numbers[at] + 1) for low, high in found for at in range(low, high)]


def line_by_line(pattern: Pattern, text: bytes) -> list[tuple[int, int]]:
    """Which lines a pattern accepts, each by itself: from and to."""
    lines = enumerate(text[:-1].split(b"\n"))
    return [(number, number + 1) for number, line in lines if pattern.accepts(line)]


def _stretches(pattern: Pattern, lines: Expression | None, text: bytes) -> list[tuple[int, int]]:
    if lines is None:
        return line_by_line(pattern, text)
    found, at, number = [], 0, 0
    while stretch := lines.search(text, at):
        low, high = stretch.start(), stretch.end()
        first = number + text.count(b"\n", at, low)
        number = first + text.count(b"\n", low, high)
        found.append((first, number))
        at = high
    return found


class Hit(NamedTuple):
    """A line that matches (None: none so far), and how far the search has come."""

    start: int | None
    searched: int


def find(source: LogSource, pattern: Pattern, offset: int, backward: bool = False) -> Iterator[Hit]:
    """Lines that match after the one at `offset`, or before; a `Hit` per match and per MiB."""
    block = max(0, min(offset, source.size - 1)) // BLOCK
    while 0 <= block * BLOCK < source.size:
        hits = hits_in_block(source, pattern, block)
        for hit in reversed(hits) if backward else hits:
            if (hit < offset) if backward else (hit > offset):
                yield Hit(hit, hit)
        yield Hit(None, block * BLOCK if backward else min((block + 1) * BLOCK, source.size))
        block += -1 if backward else 1


def hits_in_block(source: LogSource, pattern: Pattern, block: int) -> list[int]:
    """Where the matching lines begin, among those that end in block `block` or are inside it."""
    low, high = _bounds(source, block)
    return hits_between(source, pattern, low, high)


def count_in_block(source: LogSource, pattern: Pattern, block: int) -> int:
    """How many of those lines match; where most do, much faster than finding where they begin."""
    chunk = source.read(*_bounds(source, block))
    stretches = _where_most_match(chunk, pattern)
    if stretches is None:
        return sum(1 for _ in _hits(chunk, pattern))
    return sum(last - first for first, last in stretches)


def hits_between(source: LogSource, pattern: Pattern, low: int, high: int) -> list[int]:
    """Where the matching lines begin, from `low`, a line's start, to `high`, a line's end."""
    chunk = source.read(low, high)
    stretches = _where_most_match(chunk, pattern)
    if stretches is None:
        return [low + at for at in _hits(chunk, pattern)]
    # Where most lines match, splitting once is far faster than a search per line.
    starts = list(accumulate((len(line) + 1 for line in chunk.split(b"\n")), initial=low))
    return [start for first, last in stretches for start in starts[first:last]]


def _bounds(source: LogSource, block: int) -> tuple[int, int]:
    low = source.start_of(block * BLOCK)
    if (block + 1) * BLOCK >= source.size:
        return low, source.size
    return low, source.start_of((block + 1) * BLOCK)


def _where_most_match(chunk: bytes, pattern: Pattern) -> list[tuple[int, int]] | None:
    """The matching lines, from and to; None where a sample shows few, or lines are redrawn."""
    sample = chunk[: chunk.rfind(b"\n", 0, _SAMPLE) + 1]
    lines = sample.count(b"\n")
    if lines < _LEAST_LINES or b"\r" in chunk or b"\b" in chunk:
        return None
    # Few: only the lines around the matches are looked at.
    if _MANY * sum(1 for _ in _hits(sample, pattern)) < lines:
        return None
    text = _COLOURS.sub(b"", chunk) if b"\x1b" in chunk else chunk
    return pattern.stretches(text if text.endswith(b"\n") else text + b"\n")


def _hits(chunk: bytes, pattern: Pattern) -> Iterator[int]:
    # Colours are rare: without an escape in the block the plain, faster expression does.
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
    # Redrawn: what a terminal would show at the end is what the user sees, and searches.
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
                number = count_in_block(self._source, self.pattern, len(self._counts))
                # The last block may still grow, so its number is kept apart and counted again.
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
        """Which of the matches, from 1, the line at `start` is; None where not counted yet."""
        block = start // BLOCK
        if block > len(self._counts) or (block == len(self._counts) and not self.complete):
            return None
        before = sum(self._counts[:block])
        # A line may belong to the block after the one it begins in: the one in which it ends.
        for at in (block, block + 1):
            hits = hits_in_block(self._source, self.pattern, at)
            if start in hits:
                return before + hits.index(start) + 1
            before += len(hits)
        return None
