"""What a process writes, of which the end is kept, however much it is."""

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MOST = 64 << 10
_BLOCK = 1 << 16
_BLOCKS = 16
"""Read at a time, so that nobody who writes more and more holds the lock."""


class OutputTail:
    """A pipe that is read by a thread, so that nobody who writes to it ever waits.

    Its end is never waited for: a shared connection that ssh leaves behind keeps it open.
    """

    def __init__(self, most: int = _MOST) -> None:
        """`most` bytes are kept."""
        self._most = most
        self._source, self._sink = os.pipe()
        os.set_blocking(self._source, False)
        self._woken, self._waker = os.pipe()
        self._open = [self._source, self._woken, self._waker]
        self._lock = threading.Lock()
        self._kept = bytearray()
        self._is_over = False
        self._thread = threading.Thread(target=self._read, name="output", daemon=True)

    @contextmanager
    def listening(self) -> Iterator[int]:
        """The end to write to, for a process that is started meanwhile; then begin to read."""
        try:
            yield self._sink
        except BaseException:
            os.close(self._sink)
            self._close()
            raise
        os.close(self._sink)
        self._thread.start()

    @property
    def data(self) -> bytes:
        """What was written so far, its end."""
        with self._lock:
            self._take()
            return bytes(self._kept)

    @property
    def text(self) -> str:
        """The same as text."""
        return self.data.decode("utf-8", "replace")

    def close(self) -> None:
        """Read no more; nothing where no process could be started, or it is closed."""
        if self._open:
            os.write(self._waker, b"w")
            self._thread.join()
            self._close()

    def _close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def _read(self) -> None:
        while not self._is_over:
            ready, _, _ = select.select([self._source, self._woken], [], [])
            if self._woken in ready:
                return
            with self._lock:
                self._take()

    def _take(self) -> None:
        """Take in what is there; the lock is held."""
        for _ in range(_BLOCKS):
            try:
                data = os.read(self._source, _BLOCK)
            except BlockingIOError:
                return
            if not data:
                self._is_over = True
                return
            self._kept += data
            del self._kept[: -self._most]
