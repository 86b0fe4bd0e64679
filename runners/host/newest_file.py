"""The newest whole file among many: what a run's checkpoint is. Standard library only."""

import fnmatch
import os
import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from runners.host.bounded_glob import SearchBudget, bounded_glob, files_below
from runners.host.checkpoint_files import proof
from runners.host.printed_paths import PrintedPaths, checkpoint_patterns

UNFINISHED = (".tmp", ".new", ".part", ".partial")
"""Endings of files that are still being written."""
_GRAIN_S = 1.0


class NewestFile(NamedTuple):
    """A file or folder: total bytes, and when it, or its newest file, was written (unix s)."""

    path: str
    bytes: int
    modified: float


def run_files(
    directory: str,
    patterns: Iterable[str],
    printed: PrintedPaths,
    started: float,
    budget: SearchBudget | None = None,
    others: Iterable[str] = (),
) -> list[NewestFile]:
    """The checkpoints of the run in `directory`, the newest first, whole or not.

    They match the `patterns` of its preset, or `others` that are known of its program, or it has
    `printed` their path or folder; and they were written since it `started` (unix seconds), or lie
    in its own folder. Beside a file that `patterns` find no other is one: weights for others, say.
    """
    # Some file systems keep whole seconds only: a file may look older than its run.
    since, declared = started - _GRAIN_S, tuple(patterns)
    budget = budget or SearchBudget()
    places = [*declared, *others, *checkpoint_patterns(filter(budget.may_enter, printed.all))]
    found = [
        file
        for file in matching_files(places, budget)
        if file.modified >= since or is_in(file.path, directory)
    ]
    meant = {file.path for file in found if _is_meant(file.path, declared)}
    beside = {os.path.dirname(path) for path in meant}
    return [f for f in found if f.path in meant or os.path.dirname(f.path) not in beside]


def _is_meant(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns that name the path's own folder is for its name."""
    folder, name = os.path.split(path)
    return any(
        os.path.dirname(pattern) == folder and fnmatch.fnmatchcase(name, os.path.basename(pattern))
        for pattern in patterns
    )


def matching_files(patterns: Iterable[str], budget: SearchBudget | None = None) -> list[NewestFile]:
    """The files and non-empty folders that match any glob pattern, the newest first.

    Those that are found within the `budget`, which says whether it was too little.
    """
    budget = budget or SearchBudget()
    found: dict[str, NewestFile] = {}
    for pattern in patterns:
        for path in bounded_glob(pattern, budget):
            # Orbax writes a step into a folder with this in its name and renames it at the end.
            if path.endswith(UNFINISHED) or ".orbax-checkpoint-tmp" in path or path in found:
                continue
            file = measure(path, budget)
            if file is not None:
                found[path] = file
    return sorted(found.values(), key=by_time_and_number, reverse=True)


def first_whole(files: Iterable[NewestFile], quiet_s: float = 0.0) -> NewestFile | None:
    """The first whole file; if its format cannot tell, one unwritten for `quiet_s` seconds."""
    now = time.time()
    for file in files:
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


def is_in(path: str, folder: str) -> bool:
    """Whether a path lies somewhere below a folder."""
    return bool(folder) and os.path.abspath(path).startswith(os.path.join(folder, ""))


def measure(path: str, budget: SearchBudget) -> NewestFile | None:
    """The file or non-empty folder at `path`; None when there is none."""
    if not budget.may_enter(path):
        return None
    try:
        stat = os.stat(path)
        if not os.path.isdir(path):
            return NewestFile(path, stat.st_size, stat.st_mtime)
        inside = [os.stat(file) for file in files_below(path, budget)]
    except OSError:
        return None
    if not inside:
        return None
    return NewestFile(path, sum(s.st_size for s in inside), max(s.st_mtime for s in inside))
