"""Copying files to and from a machine, in whatever way it can."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

Stamp = tuple[int, int]
"""A file's size in bytes and modification time in ns, by which it is known to be the same still."""


class Copied(NamedTuple):
    """What a copy came to: files and bytes that went over the line."""

    files: int = 0
    bytes: int = 0


class Copier(ABC):
    """One way to copy."""

    progress: Callable[[int, str], None] | None = None
    """Called with percent and words while a copy goes on, by those ways that know."""

    @abstractmethod
    def send(self, local: Path, names: Iterable[str], remote: str) -> None:
        """Bring these files of the folder `local` into the folder `remote` there, times and all."""

    @abstractmethod
    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`.

        Those whose names in it are the keys of `sizes`, each of so many bytes at most; raises
        FresnelError for anything else.
        """


def stamps_of(folder: Path, names: Iterable[str]) -> dict[str, Stamp]:
    """The stamps of those of these files of a folder that are there."""
    found = statuses_of(folder, names)
    return {name: (status.st_size, status.st_mtime_ns) for name, status in found.items()}


def statuses_of(folder: Path, names: Iterable[str]) -> dict[str, os.stat_result]:
    """What the file system says of those of these files of a folder that are there."""
    found = {}
    for name in names:
        with suppress(OSError, ValueError):
            found[name] = (folder / name).stat()
    return found
