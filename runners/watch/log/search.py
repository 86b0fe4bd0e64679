"""Finding lines in a log of any size: from a place on, and counted in the background.

A line is found or not, however often it matches. Raw bytes are searched, colours taken out; a line with
redraws is then judged by what is left of it on the screen. A regular expression works on UTF-8 bytes, line by
line.
"""

import re
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from runners.watch.lines import LIMIT, plain
from runners.watch.source import BLOCK, LogSource

_PIECE = 64 * 1024
_MAY_CROSS_LINES = re.compile(r"\[\^|\\[sWDnr]|\\[xu0]|\(\?[a-z]*s")
_SGR = re.compile(rb"\x1b\[[0-9;:]*m")
_ERRORS = re.compile(
    rb"Traceback \(most recent call last\)|\w(?:Error|Exception)\b|\b(?:ERROR|FATAL)\b"
    rb"|\b(?:Error|Exception|error|fatal)(?:[]!]|:(?! *[-+.0-9]))|out of memory|^(?:.*\s)?Killed\b"
    rb"|(?:Segmentation|Memory access) fault|[Bb]us error|core dumped",
)
_ERROR_WORDS = (
    b"Traceback", b"rror", b"Exception", b"ERROR", b"fatal", b"FATAL", b"out of memory", b"Killed", b" fault",
    b"core dumped",
)  # fmt: skip


def _searcher(word: bytes) -> Callable[[bytes, int], re.Match[bytes] | None]:
    # Faster than bytes.find by a third on ordinary logs.
    return re.compile(re.escape(word)).search


class Pattern(Protocol):
    """What is looked for."""

    def first(self, chunk: bytes, start: int) -> int:
        """Where the next candidate may be, from `start` on; -1 if there is none."""

    def accepts(self, line: bytes) -> bool:
        """Whether a line that has a candidate is meant."""

    def prepare(self, chunk: bytes) -> bytes:
        """The bytes to search in place of these; as long, with the same line ends."""


class Plain:
    """Text as it stands; only ASCII letters have two cases."""

    def __init__(self, text: str, ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._needle = text.lower().encode() if ignore_case else text.encode()
        self._search = _searcher(self._needle)

    def first(self, chunk: bytes, start: int) -> int:
        """Where the text is next."""
        found = self._search(chunk, start)
        return found.start() if found else -1

    def accepts(self, line: bytes) -> bool:
        """Whether the text is still there after the line's redraws."""
        return self._needle in line

    def prepare(self, chunk: bytes) -> bytes:
        """Lower case, where case does not matter."""
        return chunk.lower() if self._ignore_case else chunk


class Regex:
    """A regular expression; raises `re.error` when it is none."""

    def __init__(self, text: str, ignore_case: bool = False) -> None:
        self._regex = re.compile(text.encode(), re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
        # In pieces, since a search keeps every other thread waiting until it returns; and line by line where
        # it could run on over the lines' ends, from each line anew.
        self._piece = 0 if _MAY_CROSS_LINES.search(text) else _PIECE

    def first(self, chunk: bytes, start: int) -> int:
        """Where it matches next, over line ends too: `accepts` sorts that out."""
        while start < len(chunk):
            end = chunk.find(b"\n", start + self._piece) + 1 or len(chunk)
            found = self._regex.search(chunk, start, end)
            if found:
                return found.start()
            start = end
        return -1

    def accepts(self, line: bytes) -> bool:
        """Whether it matches within the line."""
        return self._regex.search(line) is not None

    def prepare(self, chunk: bytes) -> bytes:
        """The bytes as they are."""
        return chunk


class Errors:
    """Lines that tell of a failure: tracebacks, errors, killed processes, memory that ran out."""

    def __init__(self) -> None:
        self._words = [_searcher(word) for word in _ERROR_WORDS]
        self._next: list[int] = []
        self._chunk = b""

    def first(self, chunk: bytes, start: int) -> int:
        """Where the next telling word is; each word is searched once per chunk."""
        if chunk is not self._chunk or start == 0:
            self._chunk, self._next = chunk, [-2] * len(self._words)
        for at, word in enumerate(self._words):
            if self._next[at] != -1 and self._next[at] < start:
                found = word(chunk, start)
                self._next[at] = found.start() if found else -1
        return min((place for place in self._next if place >= 0), default=-1)

    def accepts(self, line: bytes) -> bool:
        """Whether the word stands for a failure here (`Error=0.12` is a metric)."""
        return _ERRORS.search(line) is not None

    def prepare(self, chunk: bytes) -> bytes:
        """The bytes as they are."""
        return chunk


class Both:
    """Lines that two patterns match; the first, rarer one is looked for."""

    def __init__(self, wanted: Pattern, also: Pattern) -> None:
        self._wanted = wanted
        self._also = also

    def first(self, chunk: bytes, start: int) -> int:
        """Where the first pattern may match next."""
        return self._wanted.first(chunk, start)

    def accepts(self, line: bytes) -> bool:
        """Whether both match."""
        return self._wanted.accepts(line) and self._also.accepts(line)

    def prepare(self, chunk: bytes) -> bytes:
        """The bytes as the first pattern wants them."""
        return self._wanted.prepare(chunk)


class Found(NamedTuple):
    """A line that matches (None: none up to here) and how far the search is."""

    start: int | None
    searched: int


def find(source: LogSource, pattern: Pattern, offset: int, backward: bool = False) -> Iterator[Found]:
    """Lines that match after the one at `offset`, or before it.

    A `Found` comes per hit and per MiB, so that whoever asked can stop at any time.
    """
    block = max(0, min(offset, source.size - 1)) // BLOCK
    while 0 <= block * BLOCK < source.size:
        hits = hits_in_block(source, pattern, block)
        for hit in reversed(hits) if backward else hits:
            if (hit < offset) if backward else (hit > offset):
                yield Found(hit, hit)
        yield Found(None, block * BLOCK if backward else min((block + 1) * BLOCK, source.size))
        block += -1 if backward else 1


def hits_in_block(source: LogSource, pattern: Pattern, block: int) -> list[int]:
    """Where the lines begin that match, among those that end block `block` of the file or lie in it."""
    low = source.start_of(block * BLOCK)
    high = source.size if (block + 1) * BLOCK >= source.size else source.start_of((block + 1) * BLOCK)
    return hits_between(source, pattern, low, high)


def hits_between(source: LogSource, pattern: Pattern, low: int, high: int) -> list[int]:
    """Where the lines begin that match, from `low`, which begins a line, to `high`, which ends one."""
    return [low + at for at in _hits(source.read(low, high), pattern)]


def _hits(chunk: bytes, pattern: Pattern) -> Iterator[int]:
    if b"\x1b" not in chunk:
        yield from (start for start, _ in _matching_lines(chunk, pattern))
        return
    low = 0
    while low < len(chunk):
        high = chunk.find(b"\n", low + _PIECE) + 1 or len(chunk)
        yield from (low + start for start in _hits_in_colours(chunk[low:high], pattern))
        low = high


def _hits_in_colours(piece: bytes, pattern: Pattern) -> Iterator[int]:
    # Offsets are those of the bytes as written: walk both texts newline by newline.
    start = line = 0
    for _, number in _matching_lines(_SGR.sub(b"", piece), pattern):
        while line < number:
            start = piece.index(b"\n", start) + 1
            line += 1
        yield start


def _matching_lines(chunk: bytes, pattern: Pattern) -> Iterator[tuple[int, int]]:
    """Start and number of each line of a chunk that matches."""
    prepared = pattern.prepare(chunk)
    at = number = 0
    while (found := pattern.first(prepared, at)) >= 0 and found < len(chunk):
        start = prepared.rfind(b"\n", at, found) + 1 or at
        end = prepared.find(b"\n", found)
        end = len(prepared) if end < 0 else end
        number += prepared.count(b"\n", at, start)
        if _shown(pattern, prepared[start:end]):
            yield start, number
        at, number = end + 1, number + 1


def _shown(pattern: Pattern, line: bytes) -> bool:
    if b"\r" in line.rstrip(b"\r") or b"\b" in line:
        return pattern.accepts(plain(line[-LIMIT:]).encode())
    return pattern.accepts(line)


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
        """Which of the matches, from 1, the line at `start` is; None where nothing is counted yet."""
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
