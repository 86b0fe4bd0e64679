"""The newest complete file among many: what a restart goes on from, and what a panel may
promise.
"""

import glob
import os
from collections.abc import Iterable
from typing import NamedTuple

UNFINISHED = (".tmp", ".new", ".part", ".partial")
"""Endings of files that are still being written."""


class NewestFile(NamedTuple):
    """A file or folder: bytes in all, modification time in unix seconds (a folder's is its newest
    file's).
    """

    path: str
    bytes: int
    modified: float


def newest(patterns: Iterable[str]) -> NewestFile | None:
    """The newest file or non-empty folder that matches any glob pattern; unfinished files do not
    count.
    """
    best: NewestFile | None = None
    for pattern in patterns:
        for path in glob.iglob(pattern, recursive=True):
            found = None if path.endswith(UNFINISHED) else look_at(path)
            if found is not None and (best is None or found.modified > best.modified):
                best = found
    return best


def look_at(path: str) -> NewestFile | None:
    """The file or non-empty folder at `path`; None when there is none."""
    try:
        stat = os.stat(path)
        if not os.path.isdir(path):
            return NewestFile(path, stat.st_size, stat.st_mtime)
        inside = [
            os.stat(os.path.join(folder, name))
            for folder, _, names in os.walk(path)
            for name in names
        ]
    except OSError:
        return None
    if not inside:
        return None
    return NewestFile(path, sum(s.st_size for s in inside), max(s.st_mtime for s in inside))
