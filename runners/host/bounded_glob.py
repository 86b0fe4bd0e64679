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

from runners.host.files import identity_of
from runners.host.mounts import is_mounted, no_answer, silent_server

MOST_NAMES = 50_000
WITHIN_S = 1.0
MOST_WHEN_ACTING = 1_000_000
ACTING_WITHIN_S = 30.0
"""For a restart and for what is deleted: nobody waits for a screen."""
_LOOK_AT_CLOCK_EVERY = 256


class SearchBudget:
    """How many names a search may still look at, and until when; `cut` says what was left out.

    A server that does not answer is waited for if `patient`, else left out too.
    """

    def __init__(
        self, most: int = MOST_NAMES, within_s: float = WITHIN_S, patient: bool = False
    ) -> None:
        self._most = most
        self._within_s = within_s
        self._until = time.monotonic() + within_s
        self._patient = patient
        self._seen = 0
        self.is_spent = False
        self.cut = ""

    def spend(self) -> bool:
        """Count one name; False when there was one too many, or too little time."""
        self._seen += 1
        if self._seen > self._most:
            self.is_spent, self.cut = True, f"only {self._most:,} names were looked at"
        elif self._seen % _LOOK_AT_CLOCK_EVERY == 0 and time.monotonic() > self._until:
            text = f"only {self._seen:,} names were looked at in {self._within_s:g} s"
            self.is_spent, self.cut = True, text
        return not self.is_spent

    def may_enter(self, path: str) -> bool:
        """Whether `path` may be looked at: nothing would answer from a server that is silent."""
        server = "" if self._patient else silent_server(path)
        if server:
            self.cut = no_answer(server)
        return not server


def acting_budget() -> SearchBudget:
    """For what acts on the answer, as a restart does: more names, and longer."""
    return SearchBudget(MOST_WHEN_ACTING, ACTING_WITHIN_S, patient=True)


def bounded_glob(pattern: str, budget: SearchBudget) -> Iterator[str]:
    """The paths that match `pattern`, until the `budget` is spent."""
    if not budget.may_enter(pattern):
        return
    if not glob.has_magic(pattern):
        if budget.spend() and os.path.lexists(pattern):
            yield pattern
        return
    parts = [part for part in pattern.split("/") if part]
    named = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    top = ("/" if pattern.startswith("/") else "") + "/".join(parts[:named])
    for path in _below(top, parts[named:], budget):
        if not pattern.endswith("/") or (budget.may_enter(path) and os.path.isdir(path)):
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
        elif budget.spend() and budget.may_enter(path) and os.path.lexists(path):
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
        elif is_folder_entry(entry, budget):
            yield from _below(path, rest, budget)


@lru_cache(256)
def _pattern(part: str) -> "re.Pattern[str]":
    return re.compile(fnmatch.translate(part))


def _tree(top: str, budget: SearchBudget) -> Iterator[str]:
    """The folder, and every one below it that is not hidden."""
    entered: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting and not budget.is_spent:
        folder = waiting.pop()
        if is_mounted(folder) and not budget.may_enter(folder):
            continue
        identity = identity_of(folder or ".")
        if identity is None or identity in entered:
            continue
        entered.add(identity)
        yield folder
        waiting += [
            os.path.join(folder, entry.name)
            for entry in entries_of(folder, budget)
            if not entry.name.startswith(".") and is_folder_entry(entry, budget)
        ]


def entries_of(folder: str, budget: SearchBudget) -> Iterator["os.DirEntry[str]"]:
    """What lies in `folder`, until the `budget` is spent; nothing of what cannot be read."""
    if is_mounted(folder) and not budget.may_enter(folder):
        return
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
    while waiting and not budget.is_spent:
        for entry in entries_of(waiting.pop(), budget):
            if not is_folder_entry(entry, budget):
                if not entry.is_symlink() or budget.may_enter(entry.path):
                    yield entry.path
            elif not entry.is_symlink():
                waiting.append(entry.path)


def is_folder_entry(entry: "os.DirEntry[str]", budget: SearchBudget) -> bool:
    """Whether an entry is a folder, or leads to one; what cannot be told is none."""
    try:
        return not (entry.is_symlink() and not budget.may_enter(entry.path)) and entry.is_dir()
    except OSError:
        return False
