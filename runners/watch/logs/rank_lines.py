"""The lines of one rank out of an output in which all write."""

from runners.host.files import read_tail
from runners.state.layout import RunDirectory
from runners.watch.logs.rank_logs import has_rank_logs
from runners.watch.logs.ranks import rank_named

_TAIL_BYTES = 8 << 20


class RankLines:
    """Lines by the rank they name; with `untagged`, those without are rank 0's (torchrun)."""

    def __init__(self, rank: int, untagged: bool) -> None:
        self.rank = rank
        self._untagged = untagged and rank == 0
        self._header = f"[rank{rank}]:".encode() if untagged and rank else b""
        self._rest = b""

    def accepts(self, line: bytes) -> bool:
        """Whether this rank wrote the line."""
        named = rank_named(line)
        return self._untagged if named is None else named == self.rank

    def lines_of(self, text: bytes) -> list[bytes]:
        """Its lines in a text, as it wrote them: without the header that torchrun puts before."""
        return [line.removeprefix(self._header) for line in text.split(b"\n") if self.accepts(line)]

    def take(self, block: bytes) -> bytes:
        """Its lines among those that `block` ends; the last, open one waits for its end."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        chosen = (line.removeprefix(self._header) for line in lines if self.accepts(line))
        return b"".join(line + b"\n" for line in chosen)

    def flush(self) -> bytes:
        """The last line, which never got its end."""
        rest, self._rest = self._rest, b""
        return rest.removeprefix(self._header) if rest and self.accepts(rest) else b""


def tags_in(text: bytes) -> list[int]:
    """The ranks that lines of a text name, rising."""
    named = (rank_named(line) for line in text.split(b"\n") if b"[" in line)
    return sorted({rank for rank in named if rank is not None})


def is_in_output(run: RunDirectory, rank: int) -> bool:
    """Whether lines of this rank can be recognised in the run's output, by its end."""
    if rank == 0 and has_rank_logs(run.path):
        return True
    return rank in tags_in(read_tail(run.output, _TAIL_BYTES))
