"""The newest whole file among many: what a restart resumes from."""

import glob
import os
import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from runners.host.checkpoint_files import proof

UNFINISHED = (".tmp", ".new", ".part", ".partial")
"""Endings of files that are still being written."""


class NewestFile(NamedTuple):
    """A file or folder: its total bytes, and its modification time in unix seconds.

    A folder's time is that of its newest file.
    """

    path: str
    bytes: int
    modified: float


def newest(
    patterns: Iterable[str],
    since: float = 0.0,
    own: str = "",
    besides: Iterable[str] = (),
    quiet_s: float = 0.0,
) -> NewestFile | None:
    """The newest file or non-empty folder that matches any glob pattern and is whole.

    What was changed before `since` (unix seconds) counts only inside the folder `own`; what is in
    `besides` does not count at all. Where the format cannot tell whether it is whole, nothing may
    have been written to it for `quiet_s` seconds.
    """
    left_out, now = set(besides), time.time()
    found: dict[str, NewestFile] = {}
    for pattern in patterns:
        for path in glob.iglob(pattern, recursive=True):
            # Orbax writes a step into a folder with this in its name and renames it at the end.
            if path.endswith(UNFINISHED) or ".orbax-checkpoint-tmp" in path or path in left_out:
                continue
            file = look_at(path)
            if file is not None and (file.modified >= since or _is_in(path, own)):
                found[path] = file
    # From the newest on: the proof opens files, and the first whole one is the answer.
    for file in sorted(found.values(), key=by_time_and_number, reverse=True):
        try:
            whole = proof(file.path)
        except OSError:
            continue
        if whole or (whole is None and now - file.modified >= quiet_s):
            return file
    return None


def by_time_and_number(file: NewestFile) -> tuple[float, list[int], str]:
    """Order by time, then number: file systems keep times to milliseconds, and some are equal."""
    return file.modified, [int(part) for part in re.findall(r"\d+", file.path)], file.path


def _is_in(path: str, folder: str) -> bool:
    return bool(folder) and os.path.abspath(path).startswith(os.path.join(folder, ""))


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
