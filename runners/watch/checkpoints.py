"""The newest checkpoint that is really there: never claimed, always seen on disk."""

import glob
from collections.abc import Iterable
from pathlib import Path

from runners.model.run import Checkpoint

_UNFINISHED = (".tmp", ".new", ".part", ".partial")


def newest_checkpoint(patterns: Iterable[str]) -> Checkpoint | None:
    """The newest file or folder matching any glob pattern; files still being written (*.tmp …) do not count."""
    best: Checkpoint | None = None
    for pattern in patterns:
        for path in glob.iglob(pattern, recursive=True):  # noqa: PTH207 (patterns are absolute)
            if path.endswith(_UNFINISHED):
                continue
            found = _look_at(Path(path))
            if found is not None and (best is None or found.modified > best.modified):
                best = found
    return best


def _look_at(path: Path) -> Checkpoint | None:
    try:
        stat = path.stat()
        if not path.is_dir():
            return Checkpoint(str(path), stat.st_size, stat.st_mtime)
        inside = [child.stat() for child in path.rglob("*") if child.is_file()]
    except OSError:
        return None
    if not inside:
        return None
    return Checkpoint(str(path), sum(s.st_size for s in inside), max(s.st_mtime for s in inside))
