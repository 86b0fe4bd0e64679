"""A growing file, read by offset: what is new, and never more than asked for."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runners.host.files import closing, identity_of, open_plain, size_of

_FINGERPRINT = 64
_LONGEST = 64 * 1024
_HEAD = 64 * 1024
_ZEROS = bytes(4096)
_ENDINGS = re.compile(rb"[\r\n]+")


class Piece(NamedTuple):
    """New bytes of a file, begun anew if `restarted`; `skipped` are between `head` and `data`."""

    data: bytes = b""
    head: bytes = b""
    restarted: bool = False
    more: bool = False
    skipped: int = 0


class Chunk(NamedTuple):
    """New lines of a file, the first `before_gap` of them from its head; the rest as in `Piece`."""

    lines: list[bytes]
    restarted: bool = False
    more: bool = False
    skipped: int = 0
    before_gap: int = 0


def is_rewritten(descriptor: int, path: Path) -> bool:
    """Whether `path` is a file without a name any more, its middle cut out by output_limit.

    Raises OSError. The next attempt's output may have taken that name by now.
    """
    longer = os.fstat(descriptor)
    with closing(open_plain(path)) as shorter:
        size = os.fstat(shorter).st_size
        end = os.pread(shorter, _FINGERPRINT, max(0, size - _FINGERPRINT))
    is_shorter = not longer.st_nlink and _FINGERPRINT < size < longer.st_size
    return is_shorter and end == os.pread(descriptor, _FINGERPRINT, longer.st_size - _FINGERPRINT)


class GrowingFile:
    """One file's bytes as they come; with `hold`, a renamed one is read to its end first."""

    def __init__(self, path: Path, offset: int = 0, hold: bool = False) -> None:
        self.path = path
        self.offset = offset
        self.identity: tuple[int, int] | None = None
        self._ending = b""
        self._hold = hold
        self._held = -1

    def close(self) -> None:
        """Let go of a held file."""
        if self._held >= 0:
            os.close(self._held)
        self._held = -1

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return max(0, size_of(self.path) - self.offset)

    def changed(self) -> bool:
        """Whether another file is at the path than the one that was read."""
        return self.identity is not None and identity_of(self.path) not in (None, self.identity)

    def read(self, limit: int, jump: bool = False, head: int = _HEAD) -> Piece:
        """About `limit` new bytes; with `jump` the last, at first the head too; or none."""
        try:
            return self.read_or_raise(limit, jump, head)
        except OSError:
            return Piece()

    def read_or_raise(self, limit: int, jump: bool = False, head: int = _HEAD) -> Piece:
        """As `read`; raises OSError when the file cannot be opened or read."""
        if self._held < 0 and self._is_all_read():
            return Piece()  # as is most often so: one question to the system instead of three
        descriptor = open_plain(self.path) if self._held < 0 else self._held
        try:
            piece = self._read(descriptor, limit, jump, head)
        finally:
            if self._hold:
                self._held = descriptor
            else:
                os.close(descriptor)
        if self._hold and not piece.data and not piece.more and self.changed():
            return self._take_successor()
        return piece

    def move_to(self, offset: int) -> None:
        """Continue reading at `offset`."""
        self.offset, self._ending = offset, b""

    def _is_all_read(self) -> bool:
        found = os.stat(self.path)
        return found.st_size == self.offset and (found.st_dev, found.st_ino) == self.identity

    def _take_successor(self) -> Piece:
        """The file that took the held one's name comes next."""
        shown = self.path.stat().st_size if is_rewritten(self._held, self.path) else 0
        self.close()
        self.identity = None
        self.move_to(shown)
        return Piece(restarted=True, more=True)

    def _read(self, descriptor: int, limit: int, jump: bool, head: int) -> Piece:
        stat = os.fstat(descriptor)
        size, identity = stat.st_size, (stat.st_dev, stat.st_ino)
        known, self.identity = self.identity, identity
        restarted = False
        # Even a larger file may be another one, rewritten in place: the bytes before must match.
        if known is not None and (
            size < self.offset or identity != known or not self._continues(descriptor, size)
        ):
            restarted = not self._shortened(descriptor, size)
        if restarted:
            self.move_to(0)
        if size <= self.offset:
            return Piece(restarted=restarted)
        first, skipped = b"", 0
        # The head is shown once, because a program prints its configuration there.
        at_once = limit + (head if jump and self.offset == 0 else 0)
        if jump and size - self.offset > at_once:
            if self.offset == 0:
                first = os.pread(descriptor, min(head, limit), 0)
            skipped = size - limit - self.offset - len(first)
            self.move_to(size - limit)
        else:
            self._pass_hole(descriptor)
            limit = at_once
        data = os.pread(descriptor, min(limit, size - self.offset), self.offset)
        self.offset += len(data)
        self._ending = os.pread(
            descriptor, min(_FINGERPRINT, self.offset), max(0, self.offset - _FINGERPRINT)
        )
        return Piece(data, first, restarted, self.offset < size, skipped)

    def _continues(self, descriptor: int, size: int) -> bool:
        if size == self.offset or not self._ending:
            return True
        return (
            os.pread(descriptor, len(self._ending), self.offset - len(self._ending)) == self._ending
        )

    def _shortened(self, descriptor: int, size: int) -> bool:
        """Whether this is the same output, all read, with its middle cut out (by output_limit)."""
        end = os.pread(descriptor, _FINGERPRINT, max(0, size - _FINGERPRINT))
        if size <= _FINGERPRINT or size >= self.offset or end != self._ending:
            return False
        self.offset = size
        return True

    def _pass_hole(self, descriptor: int) -> None:
        """Move past zeros that take no space on disk: without this, a sparse file takes minutes."""
        if os.pread(descriptor, 16, self.offset) == bytes(16):
            with suppress(OSError):  # no hole, or nothing but one
                self.offset = max(self.offset, os.lseek(descriptor, self.offset, os.SEEK_DATA))


class Mark(NamedTuple):
    """How far a file's whole lines were read: which file, from where on, what stands before that.

    `is_inside` a line that is too long, whose rest is left out.
    """

    identity: tuple[int, int] | None = None
    offset: int = 0
    before: bytes = b""
    is_inside: bool = False


class Follower(GrowingFile):
    """The lines of one file; a redraw over `\\r` is one too, unless `redraws` is False.

    The line being written waits until it is whole; one of more than `longest` bytes is left out.
    """

    def __init__(self, path: Path, redraws: bool = True, longest: int = _LONGEST) -> None:
        super().__init__(path)
        self._longest = longest
        self._redraws = redraws
        self._rest = b""
        self._broken = False
        self.is_redraw = False
        """Whether the line without an end is drawn over the one before: its end never comes."""

    def poll(self, limit: int, jump: bool = False, head: int = _HEAD) -> Chunk:
        """The whole lines among about `limit` new bytes; with `jump` the newest and the head's."""
        return self._lines_of(self.read(limit, jump, head))

    def skip_to_last(self, most: int) -> int:
        """Skip all but the last `most` bytes; returns how many bytes were skipped."""
        size = size_of(self.path)
        passed = size - most - self.offset
        if passed <= 0 or self.changed():
            return 0
        self.move_to(size - most)
        # The new offset lies inside a line, whose rest is not to be taken for a line.
        self._rest, self._broken = b"", True
        return passed

    def mark(self) -> Mark:
        """How far whole lines were read, for another follower of the same file."""
        offset, before = self.offset - len(self._rest), self._ending
        if self._rest:
            try:
                before = _bytes_before(self.path, offset)
            except OSError:
                before = b""
        return Mark(self.identity, offset, before, self._broken)

    def go_on_from(self, mark: Mark) -> None:
        """Read on where another follower of this file stood."""
        self.identity = mark.identity
        self.move_to(mark.offset)
        self._ending, self._rest, self._broken = mark.before, b"", mark.is_inside
        self.is_redraw = mark.before.endswith(b"\r")

    def flush(self) -> list[bytes]:
        """The last line, which never got its end; only to be called when nobody writes any more."""
        rest, self._rest = self._rest, b""
        return [rest] if rest and not self._broken else []

    def _lines_of(self, piece: Piece) -> Chunk:
        if piece.restarted:
            self._rest, self._broken = b"", False
        first = self._take(piece.head) if piece.head else []
        if piece.skipped:
            self._rest, self._broken = b"", True  # the piece of a line that the jump lands in
        lines = first + self._take(piece.data)
        return Chunk(lines, piece.restarted, piece.more, piece.skipped, len(first))

    def _take(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        whole = self._rest + data
        *lines, rest = _ENDINGS.split(whole) if self._redraws else whole.split(b"\n")
        if lines:
            self.is_redraw = whole[: len(whole) - len(rest)].endswith(b"\r")
        if lines and self._broken:
            lines, self._broken = lines[1:], False
        if len(rest) > self._longest:
            rest, self._broken = b"", True
        self._rest = rest
        return [line for line in lines if line]


def _bytes_before(path: Path, offset: int) -> bytes:
    with closing(open_plain(path)) as descriptor:
        return os.pread(descriptor, min(_FINGERPRINT, offset), max(0, offset - _FINGERPRINT))


def data_before_hole(block: bytes) -> bytes:
    """A block up to the hole that output_limit cut; all of it when there is none."""
    empty = block.find(_ZEROS)
    return block if empty < 0 else block[:empty]


def data_end(descriptor: int, before: int) -> int:
    """Where the last bytes that take space on disk end below the offset `before`; 0 without any."""
    found = at = 0
    with suppress(OSError):  # nothing but a hole from here on
        while (begin := os.lseek(descriptor, at, os.SEEK_DATA)) < before:
            at = os.lseek(descriptor, begin, os.SEEK_HOLE)
            found = min(at, before)
    return found
