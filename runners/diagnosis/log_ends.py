"""What logs say at their ends: after the last progress, and in torchrun's report on its ranks.

All that stands before the last progress, the program got over.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from runners.diagnosis.evidence import LogPart

MOST_LINES = 2000
"""Matching lines looked at in one part: the first cause stands before its cascade."""
LONGEST_LINE = 4096
_PROGRESS_LINES = 3
"""So many different counts after an error, and the program has got over it. Bars that ranks close
while they die, and a last line of rank 0, repeat the same count."""

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?)")
_COUNT = (
    rb"(?i)\b(?:epoch|step|iter(?:ation)?|global_step|it)\b['\"]?[\s:=#\[(]*(\d+)"
    rb"|\b(\d+)/\d+ \["
)
_NOT_PROGRESS = re.compile(rb"(?i)\bnan\b|\binf\b|error|exception|traceback|timeout|abort|killed")
_ROOT_CAUSE = re.compile(
    rb"Root Cause \(first observed failure\).*?rank\s*: (\d{1,9}).*?exitcode\s*: (-?\d{1,9})",
    re.DOTALL,
)
_CHILD_EXIT = re.compile(rb"failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,9})")


class LogEnd(NamedTuple):
    """What a part of a log says after its last progress, which is from byte `at` of it on."""

    number: int
    part: LogPart
    data: bytes
    at: int


class LogEnds:
    """What logs say after their last progress: all before that, the program got over."""

    def __init__(self, parts: Iterable[LogPart]) -> None:
        self._shared: list[bytes] = []
        self.ends: list[LogEnd] = []
        every = list(parts)
        first = root_cause(every)
        self._failed = None if first is None else first[0]
        for number, part in enumerate(every):
            data, at = after_progress(part.data)
            if at:  # of a long log, what stands before its end is over too
                of = part.name, part.rank
                self.ends = [end for end in self.ends if (end.part.name, end.part.rank) != of]
            self.ends.append(LogEnd(number, part, data, at))
            self._shared += [part.data] if part.rank is None else []

    def is_over(self, end: LogEnd, line: bytes) -> bool:
        """Whether a rank wrote it that did not fail first, and the output goes on behind it.

        Ranks other than the first print no progress: their own logs tell nothing of it.
        """
        if end.part.rank in (None, self._failed):
            return False
        later = (other.data for other in self.ends if other.part.rank is None)
        return any(line in data for data in self._shared) and not any(line in d for d in later)


def after_progress(data: bytes) -> tuple[bytes, int]:
    """What comes after the last progress but a few lines, clean of escapes; and where it begins."""
    data = data.replace(b"\r", b"\n")
    seen: set[tuple[bytes, ...]] = set()
    looked, high = 0, len(data)
    while high > 0 and looked < MOST_LINES:
        block = max(0, high - (64 << 10))
        low = data.rfind(b"\n", max(0, block - (64 << 10)), block) + 1 or block
        for start, end in _matching_lines(data, low, high):
            line = data[start : min(end, start + LONGEST_LINE)]
            looked += 1
            if _NOT_PROGRESS.search(line):
                continue
            seen.add(tuple(b"".join(found) for found in counts().findall(line)))
            if len(seen) >= _PROGRESS_LINES:
                return _clean(data[start:]), start
        high = low - 1 if low else 0
    return _clean(data), 0


@lru_cache(maxsize=1)
def counts() -> Any:
    """What counts progress: epochs, steps, and the n/total of a bar; compiled when first used."""
    import re2  # twenty times as fast as Python's own here

    return re2.compile(_COUNT)


def _matching_lines(data: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Lines of a block that count something, the last first."""
    before = high + 1
    for at in reversed([found.start() for found in counts().finditer(data, low, high)]):
        if at < before:
            before = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            yield before, end if end >= 0 else len(data)


def _clean(data: bytes) -> bytes:
    return _ESCAPES.sub(b"", data) if b"\x1b" in data else data


def root_cause(parts: Iterable[LogPart]) -> tuple[int, int] | None:
    """The rank that torchrun saw fail first, and its exit code; None without such a report."""
    for part in parts:
        report = part.data.rfind(b"Root Cause (first observed failure)")
        found = _ROOT_CAUSE.search(part.data[report : report + 4096]) if report >= 0 else None
        if found is not None:
            return int(found[1]), int(found[2])
        found = _CHILD_EXIT.search(part.data[-(64 << 10) :])
        if found is not None:
            return int(found[2]), int(found[1])
    return None


def first_failure(parts: Iterable[LogPart]) -> LogPart | None:
    """What torchrun's report tells of the rank that failed first, as a log of that rank.

    The text is there only where the program's main function is decorated with `record`.
    """
    for part in parts:
        report = part.data.rfind(b"Root Cause (first observed failure)")
        text = part.data[report : report + (16 << 10)] if report >= 0 else b""
        found = _ROOT_CAUSE.search(text)
        if found is not None:
            error = re.sub(rb"(?m)^ {2,}", b"", text[found.end() :].partition(b"\n====")[0])
            return LogPart("torchrun's report", error, part.start + report, int(found[1]))
    return None
