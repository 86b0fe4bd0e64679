"""Glob patterns whose search has an end: so many names, and so long. Standard library only.

As the library's `glob` with `recursive=True`, but `**` enters each folder once however many links
lead to it.
"""

import fnmatch
import glob
import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache

MOST_NAMES = 50_000
WITHIN_S = 1.0
MOST_WHEN_ACTING = 1_000_000
ACTING_WITHIN_S = 30.0
"""For a restart and for what is deleted: nobody waits for a screen."""
_LOOK_AT_CLOCK_EVERY = 256


class SearchBudget:
    """How many names a search may still look at, and until when; `cut` once it was too little."""

    def __init__(self, most: int = MOST_NAMES, within_s: float = WITHIN_S) -> None:
        self._most = most
        self._within_s = within_s
        self._until = time.monotonic() + within_s
        self._seen = 0
        self.cut = ""

    def spend(self) -> bool:
        """Count one name; False when there was one too many, or too little time."""
        self._seen += 1
        if self._seen > self._most:
            self.cut = f"only {self._most:,} names were looked at"
        elif self._seen % _LOOK_AT_CLOCK_EVERY == 0 and time.monotonic() > self._until:
            self.cut = f"only {self._seen:,} names were looked at in {self._within_s:g} s"
        return not self.cut


def acting_budget() -> SearchBudget:
    """For what acts on the answer, as a restart does: more names, and longer."""
    return SearchBudget(MOST_WHEN_ACTING, ACTING_WITHIN_S)


def bounded_glob(pattern: str, budget: SearchBudget) -> Iterator[str]:
    """The paths that match `pattern`, until the `budget` is spent."""
    if not glob.has_magic(pattern):
        if budget.spend() and os.path.lexists(pattern):
            yield pattern
        return
    root = "/" if pattern.startswith("/") else ""
    parts = [part for part in pattern.split("/") if part]
    for path in _below(root, parts, budget):
        if not pattern.endswith("/") or os.path.isdir(path):
            yield path


def _below(folder: str, parts: list[str], budget: SearchBudget) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    if part == "**":
        for place in _tree(folder, budget):
            yield from _below(place, rest or ["*"], budget)
    elif glob.has_magic(part):
        yield from _matches(folder, part, rest, budget)
    else:
        path = os.path.join(folder, part)
        if rest:
            yield from _below(path, rest, budget)
        elif budget.spend() and os.path.lexists(path):
            yield path


def _matches(folder: str, part: str, rest: list[str], budget: SearchBudget) -> Iterator[str]:
    fits = _pattern(part).match
    for entry in entries_of(folder, budget):
        hidden = entry.name.startswith(".") and not part.startswith(".")
        if hidden or not fits(entry.name):
            continue
        path = os.path.join(folder, entry.name)
        if not rest:
            yield path
        elif is_folder_entry(entry):
            yield from _below(path, rest, budget)


@lru_cache(256)
def _pattern(part: str) -> "re.Pattern[str]":
    return re.compile(fnmatch.translate(part))


def _tree(top: str, budget: SearchBudget) -> Iterator[str]:
    """The folder, and every one below it that is not hidden."""
    entered: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting and not budget.cut:
        folder = waiting.pop()
        try:
            found = os.stat(folder or ".")
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in entered:
            continue
        entered.add((found.st_dev, found.st_ino))
        yield folder
        waiting += [
            os.path.join(folder, entry.name)
            for entry in entries_of(folder, budget)
            if not entry.name.startswith(".") and is_folder_entry(entry)
        ]


def entries_of(folder: str, budget: SearchBudget) -> Iterator["os.DirEntry[str]"]:
    """What lies in `folder`, until the `budget` is spent; nothing of what cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                if not budget.spend():
                    return
                yield entry
    except (OSError, ValueError):
        return


def files_below(top: str, budget: SearchBudget) -> Iterator[str]:
    """The paths of all files below a folder, until the `budget` is spent; links are not entered."""
    waiting = [top]
    while waiting and not budget.cut:
        for entry in entries_of(waiting.pop(), budget):
            if not is_folder_entry(entry):
                yield entry.path
            elif not entry.is_symlink():
                waiting.append(entry.path)


def is_folder_entry(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a folder, or leads to one; what cannot be told is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False
