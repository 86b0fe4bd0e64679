"""Logs that torchrun keeps of ranks: `ranks/JOB/attempt_0/LOCAL_RANK/{stdout,stderr}.log`."""

import glob
from pathlib import Path

import msgspec

from runners.host.bounded_glob import SearchBudget, bounded_glob
from runners.host.files import modified_at, read_tail

FOLDER = "ranks"
_NAMES = ("stdout.log", "stderr.log")
_LAST_BYTES = 8192


class RankLog(msgspec.Struct, frozen=True):
    """The files of one rank, when one of them was last written (unix seconds), and their bytes."""

    rank: int
    paths: tuple[Path, ...]
    written: float
    bytes: int

    @property
    def newest(self) -> Path:
        """The file that was written last."""
        return max(self.paths, key=lambda path: path.stat().st_mtime if path.exists() else 0.0)

    def last_line(self) -> str:
        """The last line that is not empty; empty when there is none."""
        lines = read_tail(self.newest, _LAST_BYTES).decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def has_rank_logs(run: Path) -> bool:
    """True when torchrun keeps logs here: lines without a rank are then rank 0's, or its own."""
    return (run / FOLDER).is_dir()


def rank_logs(run: Path) -> dict[int, RankLog]:
    """The logs of the newest attempt's ranks, those with any bytes."""
    attempts = _attempts(run / FOLDER)
    # torchrun makes a folder for every restart of its ranks.
    newest = max(attempts, key=modified_at, default=None)
    if newest is None:
        return {}
    found: dict[int, RankLog] = {}
    for folder in newest.iterdir():
        if not folder.name.isdecimal():
            continue
        known = {path: stat for name in _NAMES if (stat := _stat(path := folder / name))}
        if known:
            written = max(stat[0] for stat in known.values())
            size = sum(stat[1] for stat in known.values())
            found[int(folder.name)] = RankLog(int(folder.name), tuple(known), written, size)
    return dict(sorted(found.items()))


def _attempts(folder: Path) -> list[Path]:
    pattern = f"{glob.escape(str(folder))}/*/attempt_*"
    found = map(Path, bounded_glob(pattern, SearchBudget()))
    return [path for path in found if path.is_dir()]


def _stat(path: Path) -> tuple[float, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime, found.st_size) if found.st_size else None
