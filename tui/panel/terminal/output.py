"""What is written to the terminal, and when the kernel has taken it."""

import os
import select
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

_BLOCK = 1 << 13


class TerminalOutput(threading.Thread):
    """Writes texts in their order, and tells how many characters the kernel has taken.

    Who writes never waits, however slow the terminal: how much is worth writing is the painter's.
    """

    def __init__(self, taken: Callable[[int], None]) -> None:
        super().__init__(daemon=True, name="terminal-output")
        self._texts: SimpleQueue[str] = SimpleQueue()
        self._taken = taken

    def write(self, text: str) -> None:
        """Have it written."""
        self._texts.put(text)

    def end(self) -> None:
        """Return when all is written."""
        self._texts.put("")
        self.join()

    def run(self) -> None:
        """Write what comes, until an empty text comes."""
        if sys.__stderr__ is None:
            return
        descriptor, waiting, size = sys.__stderr__.fileno(), bytearray(), 0
        while text := self._texts.get():
            # A locale says how files are spelled here, ssh brings it along; terminals are UTF-8.
            waiting += text.encode("utf-8", "backslashreplace")
            size += len(text)
            is_all = self._texts.empty()
            if is_all or len(waiting) >= _BLOCK:
                _write(descriptor, waiting)
                waiting.clear()
            if is_all:
                self._taken(size)
                size = 0
        _write(descriptor, waiting)


def _write(descriptor: int, content: bytearray) -> None:
    """Write all of it; what shares the terminal may have left it non-blocking. Raises OSError."""
    with memoryview(content) as view:
        at = 0
        while at < len(view):
            try:
                at += os.write(descriptor, view[at:])
            except BlockingIOError:
                select.select([], [descriptor], [])
