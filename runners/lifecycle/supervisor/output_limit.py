"""The size limit of a run's output: head and tail are kept, and a note between says what was cut.

The program appends to the file by its own descriptor, so while it runs the middle becomes a hole in
the file: it takes no space, and nothing moves under the writer. At the end the file is rewritten
without the hole.
"""

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

from runners.host.files import closing, open_plain

_POLL_EVERY_S = 2.0
_BLOCK = 4096
_COPIED = 1 << 20
_NOTE = 160  # bytes set aside for the note, the same while it runs and afterwards
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


class OutputLimit:
    """Keeps the output at `path` to about `limit` bytes on disk; does nothing when that is None."""

    def __init__(self, path: Path, limit: int | None, notify_error: Callable[[str], None]) -> None:
        self.path = path
        self.limit = limit
        self.notify_error = notify_error
        self.next_poll = time.monotonic()
        self.cut_until = 0
        # The first quarter, up to the end of a block: only whole blocks can be given back.
        self.head = 0 if limit is None else max(_BLOCK, limit // 4 // _BLOCK * _BLOCK)

    def poll(self, now: float) -> float:
        """Give the middle of a file that is too long back to the disk.

        Returns the seconds until the next look, infinite without a limit.
        """
        if self.limit is None:
            return float("inf")
        if now >= self.next_poll:
            self.next_poll = now + _POLL_EVERY_S
            self._cut_if_due(self.limit)
        return self.next_poll - now

    def _cut_if_due(self, limit: int) -> None:
        try:
            end = (self.path.stat().st_size - (limit - self.head)) // _BLOCK * _BLOCK
            # A sixteenth of the limit at a time: each cut rewrites the file's block map.
            if end - max(self.cut_until, self.head) >= max(_BLOCK, limit // 16):
                self._punch(max(self.cut_until, self.head), end)
                self.cut_until = end
        except (OSError, AttributeError) as error:
            self.next_poll = float("inf")
            problem = f"output.log cannot be cut while the run lasts, only at its end ({error})"
            self.notify_error(problem)

    def compact(self) -> None:
        """Rewrite a file that is too long: head, a line that says what was cut, tail.

        Nobody may write to it any more.
        """
        if self.limit is None:
            return
        try:
            size = self.path.stat().st_size
            if size > self.limit:
                self._compact(size, self.limit)
        except OSError as error:
            self.notify_error(f"output.log could not be cut to output_limit: {error}")

    def _punch(self, start: int, end: int) -> None:
        # Without O_APPEND, with which pwrite would put the note at the end of the file.
        with closing(os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)) as descriptor:
            # KEEP_SIZE: else the program's next line would be written in the middle.
            length = ctypes.c_longlong(end - start)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.fallocate(
                descriptor, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_longlong(start), length
            ):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            note = _note(f"cut from here by output_limit {self.limit:,} during the run")
            os.pwrite(descriptor, note, self.head - _NOTE)

    def _compact(self, size: int, limit: int) -> None:
        temporary = self.path.with_name(f"{self.path.name}.new")
        source = open_plain(self.path)
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # At the start of a line, so that the first line shown after the note is whole.
            begin = _after_newline(source, size - (limit - self.head))
            cut = begin - (self.head - _NOTE)
            _copy(source, target, 0, self.head - _NOTE)
            os.write(target, _note(f"{cut:,} bytes cut by output_limit {limit:,}"))
            _copy(source, target, begin, size)
            os.fsync(target)
            temporary.replace(self.path)
        except OSError:
            temporary.unlink()
            raise
        finally:
            os.close(source)
            os.close(target)


def _note(text: str) -> bytes:
    """A line of its own of exactly `_NOTE` bytes."""
    return f"\n… {text} …".encode().ljust(_NOTE - 1) + b"\n"


def _after_newline(descriptor: int, offset: int) -> int:
    """Where the next line begins at or after `offset`; `offset` itself when that is far away."""
    found = os.pread(descriptor, _COPIED, offset).find(b"\n")
    return offset + found + 1 if 0 <= found < _BLOCK else offset


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end and (block := os.pread(source, min(_COPIED, end - start), start)):
        view = memoryview(block)
        while view:
            view = view[os.write(target, view) :]
        start += len(block)
