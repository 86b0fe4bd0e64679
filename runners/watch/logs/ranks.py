"""Which process of a run wrote a line, where the line says so.

Forms: torch's own `[rank0]:` before tracebacks and warnings, torchrun's and accelerate's
`--tee` `[default3]:` (role name and local rank), `[rank 2]` and Lightning's `[rank: 2]`. The
first one in a line counts.
"""

from runners.model.late_pattern import late_pattern
from runners.watch.logs.expressions import COLOURS, Expression, compile_expression, through_colours
from runners.watch.logs.reader import LogSource
from runners.watch.logs.search import line_by_line

_SAMPLE = 8 << 20
"""Bytes at a log's start and at its end that are searched for ranks."""

_RANK = late_pattern(rb"\[(?:[Rr]ank|RANK|default|worker)[ :=]{0,2}0*(\d{1,5})\]")


def rank_named(line: bytes) -> int | None:
    """The first rank that a line names; None when it names none."""
    found = _RANK.search(line) if b"[" in line else None
    return None if found is None else int(found[1])


class RankPattern:
    """Lines of one rank, as a pattern to search for; with `untagged`, those too that name none."""

    def __init__(self, rank: int, untagged: bool = False) -> None:
        self.rank = rank
        self._untagged = untagged
        # Coloured prefixes are common, and the colour may change anywhere inside.
        names = "|".join(
            through_colours(name) for name in ("rank", "Rank", "RANK", "default", "worker")
        )
        parts = (r"\[", f"(?:{names})", "[ :=]?", "[ :=]?", "0*", through_colours(str(rank)), r"\]")
        tag = compile_expression(f"{COLOURS}*".join(parts))
        self._candidates = compile_expression("") if untagged else tag

    def candidates(self, coloured: bool) -> Expression:
        """Where the rank is named, whatever the colours; every line, where some name none."""
        return self._candidates

    def accepts(self, line: bytes) -> bool:
        """Whether no other rank is named before."""
        named = rank_named(line)
        return self._untagged if named is None else named == self.rank

    def stretches(self, text: bytes) -> list[tuple[int, int]]:
        """Which lines are of this rank."""
        return line_by_line(self, text)


def ranks_in(source: LogSource) -> list[int]:
    """The ranks named near the log's start and its end, in ascending order."""
    size = source.size
    found: set[int] = set()
    parts = [(0, size)] if size <= 2 * _SAMPLE else [(0, _SAMPLE), (size - _SAMPLE, size)]
    for low, high in parts:
        for at in range(low, high, 1 << 20):
            found.update(
                int(rank) for rank in _RANK.findall(source.read(at, min(high, at + (1 << 20))))
            )
    return sorted(found)
