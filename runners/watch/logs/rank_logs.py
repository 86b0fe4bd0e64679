"""Logs that torchrun keeps of ranks: `ranks/JOB/attempt_0/LOCAL_RANK/{stdout,stderr}.log`.

Without them, the lines of one rank out of an output in which all write.
"""

import glob
from pathlib import Path

import msgspec

from runners.host.bounded_glob import SearchBudget, bounded_glob
from runners.host.files import modified_at, read_tail, size_of
from runners.state.layout import RANK_LOGS, RunDirectory
from runners.watch.logs.ranks import rank_named

_NAMES = ("stdout.log", "stderr.log")
_TAIL_BYTES = 8 << 20


class RankLog(msgspec.Struct, frozen=True):
    """The files of one rank, and when one of them was last written (unix seconds)."""

    paths: tuple[Path, ...]
    written: float

    @property
    def newest(self) -> Path:
        """The file that was written last."""
        return max(self.paths, key=modified_at)


def has_rank_logs(run: Path) -> bool:
    """True when torchrun keeps logs here: lines without a rank are then rank 0's, or its own."""
    return (run / RANK_LOGS).is_dir()


def rank_logs(run: Path) -> dict[int, RankLog]:
    """The logs of the newest attempt's ranks, those with any bytes."""
    attempts = _attempts(run / RANK_LOGS)
    # torchrun makes a folder for every restart of its ranks.
    newest = max(attempts, key=modified_at, default=None)
    if newest is None:
        return {}
    found: dict[int, RankLog] = {}
    for folder in newest.iterdir():
        if not folder.name.isdecimal():
            continue
        paths = tuple(path for name in _NAMES if size_of(path := folder / name))
        if paths:
            found[int(folder.name)] = RankLog(paths, max(map(modified_at, paths)))
    return dict(sorted(found.items()))


def _attempts(folder: Path) -> list[Path]:
    pattern = f"{glob.escape(str(folder))}/*/attempt_*"
    found = map(Path, bounded_glob(pattern, SearchBudget()))
    return [path for path in found if path.is_dir()]


class RankLines:
    """Lines by the rank they name; with `untagged`, those without are rank 0's (torchrun)."""

    def __init__(self, rank: int, untagged: bool) -> None:
        self.rank = rank
        self._untagged = untagged and rank == 0
        self._header = f"[rank{rank}]:".encode() if untagged and rank else b""
        self._begun: list[bytes] = []

    def accepts(self, line: bytes) -> bool:
        """Whether this rank wrote the line."""
        named = rank_named(line)
        return self._untagged if named is None else named == self.rank

    def lines_of(self, text: bytes) -> list[bytes]:
        """Its lines in a text, as it wrote them: without the header that torchrun puts before."""
        return [line.removeprefix(self._header) for line in text.split(b"\n") if self.accepts(line)]

    def take(self, block: bytes) -> bytes:
        """Its lines among those that `block` ends; the last, open one waits for its end."""
        ended, newline, begun = block.rpartition(b"\n")
        if not newline:
            # Joined once: a progress bar writes one line of many megabytes.
            self._begun.append(begun)
            return b""
        text, self._begun = b"".join([*self._begun, ended]), [begun]
        return b"".join(line + b"\n" for line in self.lines_of(text))

    def flush(self) -> bytes:
        """The last line, which never got its end."""
        rest, self._begun = b"".join(self._begun), []
        return b"".join(self.lines_of(rest)) if rest else b""


def tags_in(text: bytes) -> list[int]:
    """The ranks that lines of a text name, rising."""
    named = (rank_named(line) for line in text.split(b"\n") if b"[" in line)
    return sorted({rank for rank in named if rank is not None})


def is_in_output(run: RunDirectory, rank: int) -> bool:
    """Whether lines of this rank can be recognised in the run's output, by its end."""
    if rank == 0 and has_rank_logs(run.path):
        return True
    return rank in tags_in(read_tail(run.output, _TAIL_BYTES))
