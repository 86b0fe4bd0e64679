"""A run's output read for somebody far away: from any byte on, over restarts, nothing twice.

A place in it is the file's inode and an offset: a run that is started again keeps its earlier
output under another name, and whoever comes back goes on in the file they were in.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from runners.host.files import open_plain, size_of, status_of
from runners.host.tail import is_rewritten

_ATTEMPT = re.compile(r"(.+)\.(\d+)(\.[^.]+)")
_ZEROS = bytes(16)


class OutputPiece(NamedTuple):
    """Bytes of one file from the offset `at` on; `skipped` of them were passed over before."""

    inode: int
    at: int
    data: bytes
    skipped: int = 0


class FollowedOutput:
    """One of a run's files as it grows, or is followed by another of its name."""

    def __init__(self, path: Path, at: int = 0, inode: int | None = None) -> None:
        """`at` and `inode` are where somebody was; a file that is no longer there begins anew.

        A negative `at` means so many bytes before the end.
        """
        self._path = path
        self._descriptor = -1
        self._at = at
        self._wanted = inode

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def read(self, limit: int, most: int | None = None) -> OutputPiece | None:
        """The next `limit` bytes at most; None when there are none now.

        With `most`, what is further than that from the end is passed over, up to a line's end.
        """
        if self._descriptor < 0 and not self._open():
            return None
        found = os.fstat(self._descriptor)
        if found.st_size < self._at:
            self._at = 0  # it was emptied and is written anew
        skipped = self._skip(found.st_size, most)
        data = os.pread(self._descriptor, min(limit, found.st_size - self._at), self._at)
        if not data:
            return self.read(limit, most) if self._take_next() else None
        if skipped:
            cut = data.find(b"\n") + 1
            data, skipped, self._at = data[cut:], skipped + cut, self._at + cut
        piece = OutputPiece(found.st_ino, self._at, data, skipped)
        self._at += len(data)
        return piece

    def _skip(self, size: int, most: int | None) -> int:
        before = self._at
        if most is not None and size - self._at > most:
            self._at = size - most
            return self._at - before
        if os.pread(self._descriptor, 16, self._at) == _ZEROS:
            try:  # a hole that output_limit cut
                self._at = max(self._at, os.lseek(self._descriptor, self._at, os.SEEK_DATA))
            except OSError:
                pass
        return 0

    def _open(self) -> bool:
        path = self._path if self._wanted is None else self._find(self._wanted)
        try:
            self._descriptor = open_plain(path or self._path)
        except OSError:
            return False
        if self._wanted is not None and path is None:
            self._at = 0  # what was read is gone
        if self._at < 0:
            self._at = max(0, os.fstat(self._descriptor).st_size + self._at)
        self._wanted = None
        return True

    def _names(self) -> list[Path]:
        """The file and its earlier ones, oldest first."""
        earlier: list[tuple[int, Path]] = []
        for path in self._path.parent.glob(f"{self._path.stem}.*{self._path.suffix}"):
            match = _ATTEMPT.fullmatch(path.name)
            if match and match[1] == self._path.stem:
                earlier.append((int(match[2]), path))
        return [path for _, path in sorted(earlier)] + [self._path]

    def _find(self, inode: int) -> Path | None:
        return next((path for path in self._names() if _inode(path) == inode), None)

    def _take_next(self) -> bool:
        """Go on in the file that came after this one, if one did."""
        mine = os.fstat(self._descriptor)
        names = self._names()
        place = next((i for i, path in enumerate(names) if _inode(path) == mine.st_ino), None)
        following = names[-1] if place is None else next(iter(names[place + 1 :]), None)
        if following is None or _inode(following) in (None, mine.st_ino):
            return False
        if os.fstat(self._descriptor).st_size > self._at:
            return True  # it grew while its name was looked up: that first
        try:
            self._at = size_of(following) if is_rewritten(self._descriptor, following) else 0
        except OSError:
            return False
        self.close()
        self._wanted = _inode(following)
        return self._open()


def _inode(path: Path) -> int | None:
    found = status_of(path)
    return None if found is None else found.st_ino
