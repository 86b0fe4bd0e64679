"""The error for what a user can put right, and the name they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class SettingsError(ValueError):
    """Something the user asked for cannot be done; its text is one line for them to read."""


class SharedError(SettingsError):
    """One that other processes meet alike, rank 0 or the first of the host, which says it."""


class StoppedError(Exception):
    """Somebody asked for the end while data was read, a model judged or used; nothing is wrong."""


class NotFiniteError(ArithmeticError):
    """A trained network's answers are no numbers any more; its text is one line for the user."""


class DivergedError(NotFiniteError):
    """Training has no finite gradient any more; its text is one line for the user to read."""


class ExportError(RuntimeError):
    """A model cannot be exported, or answers otherwise there; its text is one line for the user."""


@contextmanager
def read_as(path: Path, what: str) -> Iterator[None]:
    """Raise SettingsError, which names path, for whatever is raised while a file is read.

    Libraries raise errors of their own, zlib's and NumPy's, and any kind where a number is damaged.
    """
    try:
        yield
    except (SettingsError, MemoryError):
        raise
    except Exception as problem:
        raise SettingsError(f"{path} cannot be read as {what}: {problem}") from problem


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; the nearest is NAME`, or nothing where nothing is known."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"; the nearest is {found[0]}" if found else ""
