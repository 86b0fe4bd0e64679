"""A real terminal for tests: a program on a pty, its screen kept by pyte, keys sent as bytes."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.screens import QuickScreen, QuickStream, known_to_pyte
from tests.support import CEILING_S
from tests.warm import COMMANDS, PANELS, take_terminal

REPOSITORY = Path(__file__).resolve().parents[1]
BETWEEN_KEYS_S = 0.05

KEYS = {
    "Enter": "\r",
    "Escape": "\x1b",
    "Tab": "\t",
    "Shift+Tab": "\x1b[Z",
    "Right": "\x1b[C",
    "Up": "\x1b[A",
    "Down": "\x1b[B",
    "Home": "\x1b[H",
    "End": "\x1b[F",
    "F2": "\x1bOQ",
    "F7": "\x1b[18~",
    "PageDown": "\x1b[6~",
    "Ctrl+P": "\x10",
    "Ctrl+Up": "\x1b[1;5A",
    "Ctrl+Down": "\x1b[1;5B",
    "Ctrl+Right": "\x1b[1;5C",
    "Ctrl+Left": "\x1b[1;5D",
    "Ctrl+Q": "\x11",
    "Backspace": "\x7f",
}


class Terminal:
    """A program in a terminal of `columns` × `rows`."""

    def __init__(
        self, arguments: Sequence[str], columns: int = 80, rows: int = 24, **environment: str
    ) -> None:
        self.screen = QuickScreen(columns, rows)
        self.stream = QuickStream(self.screen)
        self.window, own = pty.openpty()
        _set_size(own, rows, columns)
        self.child = PANELS.start(
            arguments,
            env=terminal_environment(environment),
            **dict.fromkeys(("stdin", "stdout", "stderr"), own),
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(own)
        self.written = 0
        self.raw = bytearray()

    def read(self, patience_s: float = 0.05) -> None:
        """Take in what the program has written."""
        if not select.select([self.window], [], [], patience_s)[0]:
            return
        try:
            block = os.read(self.window, 1 << 16)
        except OSError:  # nothing has this terminal open any more
            time.sleep(patience_s)
            return
        self.written += len(block)
        self.raw += block
        self.stream.feed(known_to_pyte(block))

    @property
    def text(self) -> str:
        """The screen as lines of text."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, pattern: str, ceiling_s: float = CEILING_S) -> re.Match[str]:
        """Wait until the regular expression is on the screen."""
        deadline = time.monotonic() + ceiling_s
        while True:
            self.read()
            found = re.search(pattern, self.text)
            if found:
                return found
            assert time.monotonic() < deadline, f"no {pattern!r} on the screen:\n{self.text}"

    def wait_gone(self, pattern: str, ceiling_s: float = CEILING_S) -> None:
        """Wait until the regular expression is no longer on the screen."""
        deadline = time.monotonic() + ceiling_s
        while re.search(pattern, self.text):
            self.read()
            assert time.monotonic() < deadline, f"{pattern!r} stays on the screen:\n{self.text}"

    def press(self, *keys: str) -> None:
        """Send keys by name, or characters as they are."""
        for key in keys:
            # Nobody types quicker; Escape and a letter at once would be Alt and the letter.
            deadline = time.monotonic() + BETWEEN_KEYS_S
            while (left := deadline - time.monotonic()) > 0:
                self.read(left)
            os.write(self.window, KEYS.get(key, key).encode())
            self.read(0.02)

    def resize(self, rows: int, columns: int) -> None:
        """Another size of the window, and of what is seen of it."""
        self.screen.resize(rows, columns)
        _set_size(self.window, rows, columns)

    def wait_end(self, ceiling_s: float = CEILING_S) -> int:
        """Wait for the program's end; its exit code (128+signal when killed)."""
        deadline = time.monotonic() + ceiling_s
        while (code := self.child.poll()) is None:
            self.read()
            assert time.monotonic() < deadline, f"still alive:\n{self.text}"
        return code if code >= 0 else 128 - code

    def close(self) -> None:
        """End the program, whatever it does."""
        self.child.kill()
        self.child.wait(CEILING_S)
        if self.window != -1:
            os.close(self.window)
            self.window = -1


def terminal_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The test's environment in a terminal with colours, our package first on the path."""
    # readline, which pytest loads, exports the size of the terminal that the tests were started in.
    mine = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {
        **mine,
        "TERM": "xterm-256color",
        "PYTHONPATH": str(REPOSITORY),
        "LANG": "C.UTF-8",
        **more,
    }


def panel_command(*arguments: str) -> list[str]:
    """The panel's own command line."""
    return [sys.executable, "-m", "fresnel_tui", *arguments]


def headless(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A headless command, run to its end; how it exits is for the test to look at."""
    return COMMANDS.run(
        panel_command("--no-ui", *words),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * CEILING_S,
    )


def _set_size(window: int, rows: int, columns: int) -> None:
    fcntl.ioctl(window, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
