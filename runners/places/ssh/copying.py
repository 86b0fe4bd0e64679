"""Copying files to and from a machine, in whatever way it can."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Copied(NamedTuple):
    """What a copy came to: files and bytes that went over the line, and bytes there are in all."""

    files: int = 0
    bytes: int = 0
    all_bytes: int = 0


class Copier(ABC):
    """One way to copy."""

    progress: Callable[[int, str], None] | None = None
    """Called with percent and words while a copy goes on, by those ways that know."""

    @abstractmethod
    def send(
        self, local: Path, remote: str, excludes: Sequence[str] = (), dry: bool = False
    ) -> Copied:
        """Bring the file or folder `local` to the path `remote` there; `dry` only counts."""

    @abstractmethod
    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`.

        Those whose names in it are the keys of `sizes`, each of so many bytes at most; raises
        FresnelError for anything else.
        """
