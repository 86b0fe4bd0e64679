"""The panel's writing to its terminal."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tui.panel.terminal.output import TerminalOutput


def test_a_terminal_that_was_left_non_blocking_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that share it do so, and it takes no more than its reader makes room for."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    texts = ["äöü" * 20_000, "x" * 100_000, "end"]

    def read_all() -> bytes:
        with os.fdopen(reading, "rb") as file:
            return file.read()

    with os.fdopen(writing, "w") as terminal, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(sys, "__stderr__", terminal)
        output = TerminalOutput(lambda _: None)
        output.start()
        for text in texts:
            output.write(text)
        read = pool.submit(read_all)
        output.end()
        terminal.close()
        assert read.result() == "".join(texts).encode()
