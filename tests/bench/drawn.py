"""A terminal that draws: a panel sends the cells that changed, in which no word may come whole."""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measure import Screen

from tests.screens import QuickScreen, QuickStream, known_to_pyte


class DrawnScreen(Screen):
    """A program in a terminal; what counts is what the terminal shows, and since when."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        rows, columns = self.size
        self.shown = QuickScreen(columns, rows)
        self._stream = QuickStream(self.shown)

    def read(self, patience_s: float) -> bytes:
        """What has come; it is drawn."""
        block = super().read(patience_s)
        self._stream.feed(known_to_pyte(block))
        return block

    def find_shown(
        self, pattern: str, accepts: Callable[[str], bool], ceiling_s: float = 30.0
    ) -> tuple[float, str]:
        """When a pattern's first group was first seen that is accepted; and that group."""
        deadline = time.monotonic() + ceiling_s
        while True:
            self.read(0.05)
            now = time.monotonic()
            text = "\n".join(self.shown.display)
            for found in re.finditer(pattern, text):
                if accepts(found[1]):
                    return now, found[1]
            if now > deadline or self.ended:
                raise TimeoutError(f"{pattern!r} never came; what is seen:\n{text}")
