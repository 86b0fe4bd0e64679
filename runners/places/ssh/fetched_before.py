"""Which files of a folder were fetched, and from which machine: over no others is written."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from runners.host.below import resolve_below
from runners.host.files import replace
from runners.model.errors import FresnelError
from runners.state.decoding import read

NOTE = ".fresnel-fetched.json"


class _Note(msgspec.Struct, frozen=True):
    """What the file holds: the machine's name here, and the files' names in the folder."""

    host: str
    names: frozenset[str]


class FetchedBefore:
    """The folder of one run here, as far as it was fetched from `host`."""

    def __init__(self, folder: Path, host: str) -> None:
        """FresnelError for a folder that has something else in it."""
        self._folder = folder
        self._host = host
        folder.mkdir(parents=True, exist_ok=True)
        note = read(folder / NOTE, _Note)
        if note is not None and note.host != host:
            raise FresnelError(f"{folder} was fetched from {note.host}, not from {host}", _ANOTHER)
        self._names = note.names if note is not None else frozenset()

    def claim(self, names: Iterable[str]) -> None:
        """Note files as fetched, before the first of them is written.

        FresnelError for one that leads out of the folder, or is here and was not fetched.
        """
        wanted = frozenset(names)
        for name in wanted:
            try:
                path = resolve_below(self._folder, name)
            except ValueError as error:
                raise FresnelError(f"{self._host}: {error}", "nothing was written") from None
            if name == NOTE:
                raise FresnelError(f"{self._host}: a file has a name that is kept for ours")
            if name not in self._names and path.exists():
                raise FresnelError(
                    f"{path} is here already, and was not fetched from {self._host}", _ANOTHER
                )
        if not wanted <= self._names:
            self._names |= wanted
            note = _Note(self._host, self._names)
            replace(self._folder / NOTE, msgspec.json.encode(note))


_ANOTHER = "--to names another folder"
