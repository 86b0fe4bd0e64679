"""The path that is being typed in a command line, completed as a shell does."""

from __future__ import annotations

import os
import re
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

_WORD = re.compile(r"(?:^|[\s=:;|&<>()'\"])((?:\\.|[^\s=:;|&<>()'\"\\])+)$")
_SPECIAL = re.compile(r"([^\w./:=,+@%~-])")
_MOST = 5000
"""Entries of a folder that are looked at."""


class PathCompletion(NamedTuple):
    """What can be added to what was typed, and the names that would go on from there."""

    rest: str
    names: tuple[str, ...]


def complete_path(before: str, folder: Path) -> PathCompletion:
    """How the path goes on that ends `before`, relative to `folder`.

    The first word is a program, and completed only where it has a slash.
    """
    found = _WORD.search(before)
    if found is None or (not before[: found.start(1)].strip() and "/" not in found[1]):
        return PathCompletion("", ())
    typed = re.sub(r"\\(.)", r"\1", found[1])
    head, _, part = typed.rpartition("/")
    where = folder / Path(f"{head}/" if head or typed.startswith("/") else ".").expanduser()
    names = _names(where, part)
    rest = _in_common(names)[len(part) :]
    return PathCompletion(_SPECIAL.sub(r"\\\1", rest), names)


def _in_common(names: tuple[str, ...]) -> str:
    """What all of them begin with; they are sorted, so the first and the last decide."""
    if not names:
        return ""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(names[0], names[-1], strict=False))
    return "".join(first for first, _ in pairs)


def _names(folder: Path, part: str) -> tuple[str, ...]:
    """The entries of `folder` that begin so, by name; those of a folder end with a slash."""
    try:
        with os.scandir(folder) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, _MOST)
                if entry.name.startswith(part)
                # As in a shell: what begins with a dot is shown to whoever types the dot.
                and (part.startswith(".") or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found))
