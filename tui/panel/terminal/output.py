"""What is written to the terminal, and when the kernel has taken it."""

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue


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
        # A locale says how files are spelled here, ssh brings it along; terminals are UTF-8.
        file, size = sys.__stderr__.buffer, 0
        while text := self._texts.get():
            file.write(text.encode("utf-8", "backslashreplace"))
            size += len(text)
            if self._texts.empty():
                file.flush()
                self._taken(size)
                size = 0
        file.flush()
