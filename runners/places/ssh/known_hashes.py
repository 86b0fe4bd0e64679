"""Hashes of a run's large files, kept beside them: no file is read again that has not changed.

A question that takes longer than a line holds gets further each time that it is asked again.
"""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from runners.host.files import open_binary, replace
from runners.state.decoding import read

KNOWN_HASHES = "fresnel-hashes.json"
_BLOCK = _LARGE = 1 << 20
_KEPT_AFTER = 256 << 20
"""Bytes that were read since they were written down the last time."""
_SETTLED_S = 2.0
"""A file that was written in the same moment may change without a new time."""

_Version = tuple[int, int, int, int]
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_decoder = msgspec.json.Decoder(dict[str, tuple[_Version, _Hash]])


def hash_of(path: Path, size: int) -> str:
    """The SHA-256 of a file's first `size` bytes."""
    digest, left = hashlib.sha256(), size
    with open_binary(path) as file:
        while left and (block := file.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


class KnownHashes:
    """The hashes of one run's files, as long as those stay as they are."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / KNOWN_HASHES
        self._known = read(self._file, _decoder) or {}
        self._found: dict[str, tuple[_Version, str]] = {}
        self._read = 0

    def of(self, path: Path) -> tuple[int, str]:
        """The size of a file and the SHA-256 of so many bytes of it; OSError for none."""
        status = path.stat()
        if status.st_size < _LARGE:
            return status.st_size, hash_of(path, status.st_size)
        version = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        before = self._known.get(str(path))
        if before is not None and before[0] == version:
            self._found[str(path)] = before
            return status.st_size, before[1]
        found = hash_of(path, status.st_size)
        if time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED_S:
            self._found[str(path)] = version, found
        self._read += status.st_size
        if self._read >= _KEPT_AFTER:
            self._keep({**self._known, **self._found})
        return status.st_size, found

    def close(self) -> None:
        """Keep what is known of the files that are there."""
        if self._found != self._known:
            self._keep(self._found)

    def _keep(self, known: dict[str, tuple[_Version, str]]) -> None:
        self._read = 0
        with suppress(OSError):  # a full disk: they are read again
            replace(self._file, msgspec.json.encode(known))
