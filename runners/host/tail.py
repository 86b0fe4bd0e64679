"""A growing file, read by offset: what is new, in whole lines, and never more than asked for."""

import os
import re
from pathlib import Path
from typing import NamedTuple

_FINGERPRINT = 64
_LONGEST = 64 * 1024
_HEAD = 64 * 1024
_ENDINGS = re.compile(rb"[\r\n]+")


class Chunk(NamedTuple):
    """What a look found. `restarted`: the file begins anew. `more`: it goes on. `skipped`: bytes
    passed over.
    """

    lines: list[bytes]
    restarted: bool = False
    more: bool = False
    skipped: int = 0


NOTHING = Chunk([])


class Follower:
    """The lines of one file; a redraw over `\\r` is one too.

    The line being written waits until it is whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.identity: tuple[int, int] | None = None
        self._rest = b""
        self._ending = b""
        self._broken = False

    def changed(self) -> bool:
        """Whether another file lies at the path than the one that was read."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return self.identity is not None and (found.st_dev, found.st_ino) != self.identity

    def poll(self, limit: int, jump: bool = False) -> Chunk:
        """At most about `limit` bytes that are new; with `jump`, their end (and at first the head
        too).
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return NOTHING
        try:
            return self._poll(descriptor, limit, jump)
        except OSError:
            return NOTHING
        finally:
            os.close(descriptor)

    def skip_to_last(self, most: int) -> int:
        """Leave away what is more than `most` bytes before the end; how many bytes that is."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return 0
        passed = size - most - self.offset
        if passed <= 0 or self.changed():
            return 0
        self._begin(size - most)
        self._broken = True
        return passed

    def flush(self) -> list[bytes]:
        """The last line, which never got its end; only to be asked when nobody writes any more."""
        rest, self._rest = self._rest, b""
        return [rest] if rest and not self._broken else []

    def _poll(self, descriptor: int, limit: int, jump: bool) -> Chunk:
        stat = os.fstat(descriptor)
        size, identity = stat.st_size, (stat.st_dev, stat.st_ino)
        known, self.identity = self.identity, identity
        restarted = False
        if known is not None and (
            size < self.offset or identity != known or not self._continues(descriptor, size)
        ):
            restarted = not self._shortened(descriptor, size)
        if restarted:
            self._begin(0)
        if size == self.offset:
            return Chunk([], restarted)
        lines: list[bytes] = []
        skipped = 0
        if jump and size - self.offset > limit:
            if self.offset == 0:
                lines = self._take(os.pread(descriptor, min(_HEAD, limit), 0))
            skipped = size - limit - self.offset
            self._begin(size - limit)
            self._broken = True  # the piece of a line that the jump lands in
        else:
            self._pass_hole(descriptor)
        data = os.pread(descriptor, min(limit, size - self.offset), self.offset)
        lines += self._take(data)
        self._ending = os.pread(
            descriptor, min(_FINGERPRINT, self.offset), max(0, self.offset - _FINGERPRINT)
        )
        return Chunk(lines, restarted, self.offset < size, skipped)

    def _begin(self, offset: int) -> None:
        self.offset, self._rest, self._ending, self._broken = offset, b"", b"", False

    def _continues(self, descriptor: int, size: int) -> bool:
        if size == self.offset or not self._ending:
            return True
        return (
            os.pread(descriptor, len(self._ending), self.offset - len(self._ending)) == self._ending
        )

    def _shortened(self, descriptor: int, size: int) -> bool:
        """Whether this is the same output with a piece cut from its middle (output_limit): then
        all was read.
        """
        end = os.pread(descriptor, _FINGERPRINT, max(0, size - _FINGERPRINT))
        if size <= _FINGERPRINT or size >= self.offset or end != self._ending:
            return False
        self.offset = size
        return True

    def _pass_hole(self, descriptor: int) -> None:
        """Over zeros that take no room on disk."""
        if os.pread(descriptor, 16, self.offset) == bytes(16):
            try:
                self.offset = max(self.offset, os.lseek(descriptor, self.offset, os.SEEK_DATA))
            except OSError:
                pass

    def _take(self, data: bytes) -> list[bytes]:
        self.offset += len(data)
        *lines, rest = _ENDINGS.split(self._rest + data)
        if lines and self._broken:
            lines, self._broken = lines[1:], False
        if len(rest) > _LONGEST:
            rest, self._broken = b"", True
        self._rest = rest
        return [line for line in lines if line]
