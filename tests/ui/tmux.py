"""A tmux server of a test's own: a terminal with an alternate screen, a shell with job control, a
size that changes.
"""

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support import CEILING_S
from tests.terminal import terminal_environment

_LOOK_S = 0.05
"""Each look at the screen is a process of tmux's."""


class Tmux:
    """One session in a server of its own, under `folder`; its window is `columns` × `rows`."""

    def __init__(
        self, folder: Path, command: Sequence[str], columns: int = 80, rows: int = 24, **more: str
    ) -> None:
        self.environment = {**terminal_environment(more), "TMUX_TMPDIR": str(folder), "TMUX": ""}
        del self.environment["TMUX"]
        size = ["-x", str(columns), "-y", str(rows)]
        self.call("-f", os.devnull, "new-session", "-d", "-s", "main", *size, *command)
        # A resize is then ours, not that of whoever attaches, until somebody does.
        self.call("set-option", "-g", "window-size", "manual")

    def call(self, *words: str) -> str:
        """A tmux command's output."""
        done = subprocess.run(
            ["tmux", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=CEILING_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def press(self, *keys: str) -> None:
        """Keys by tmux's names, or text as it is."""
        for key in keys:
            self.call("send-keys", "-t", "main", key)

    def resize(self, columns: int, rows: int) -> None:
        """Another size of the window."""
        self.call("resize-window", "-t", "main", "-x", str(columns), "-y", str(rows))

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self.call("capture-pane", "-p", "-t", "main")

    def ask(self, what: str) -> str:
        """A format of tmux's, such as `#{alternate_on}`, filled in."""
        return self.call("display-message", "-p", "-t", "main", what).strip()

    def wait_for(self, pattern: str, ceiling_s: float = CEILING_S) -> re.Match[str]:
        """Wait until the regular expression is on the screen."""
        deadline = time.monotonic() + ceiling_s
        while True:
            text = self.text
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                return found
            assert time.monotonic() < deadline, f"no {pattern!r} on the screen:\n{text}"
            time.sleep(_LOOK_S)

    def wait_gone(self, pattern: str, ceiling_s: float = CEILING_S) -> None:
        """Wait until the regular expression is no longer on the screen."""
        deadline = time.monotonic() + ceiling_s
        while re.search(pattern, text := self.text, re.MULTILINE):
            assert time.monotonic() < deadline, f"{pattern!r} stays on the screen:\n{text}"
            time.sleep(_LOOK_S)

    @property
    def pid(self) -> int:
        """The process that the window was opened with."""
        return int(self.ask("#{pane_pid}"))

    def close(self) -> None:
        """End the server and what runs in it."""
        subprocess.run(
            ["tmux", "kill-server"], env=self.environment, capture_output=True, check=False
        )
