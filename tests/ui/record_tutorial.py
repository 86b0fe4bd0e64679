"""Types the tutorial's first five minutes into a real terminal and keeps what it shows as
`docs/tutorial.cast` (`make recording`).

Played by `asciinema play docs/tutorial.cast`, or by its web player. The format is asciicast v2:
https://docs.asciinema.org/manual/asciicast/v2/. GPUs are simulated and marked so; the runs are real. Only the path of this checkout is written
otherwise: it says nothing to who watches.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support import REPOSITORY
from tests.terminal import Terminal

TUTORIAL = REPOSITORY / "docs" / "tutorial.md"
CAST = TUTORIAL.with_suffix(".cast")
COLUMNS, ROWS = 100, 28
CHECKOUT = "/opt/fresnel-tui"
SECTIONS = ("1. Look around", "2. A program of your own", "3. A run that fails")
CEILING_S = 120.0
LONGEST_PAUSE_S = 2.0
"""Nobody wants to watch how long something takes here."""
TYPED_S = 0.03
PROMPT = "$ "
LOOKS = (
    ("", "Quit"),
    ("Down", r"broken · output\.log"),
    ("d", "Why broken ended"),
    ("Escape", "Quit"),
    ("Up", r"mended · output\.log"),
    ("m", "Metrics .* mended"),
    ("a", "c first"),
    ("Escape", "Quit"),
    ("?", "Esc closes"),
    ("Escape", r"epoch 20/20 \| loss"),
)
"""In the panel: what is pressed, and what is to be seen before the next."""


class RecordedTerminal(Terminal):
    """A terminal that keeps when it showed what."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.shown: list[tuple[float, str]] = []
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._now = 0.0
        self._read_at = time.monotonic()
        super().__init__(arguments, COLUMNS, ROWS, **environment)

    def read(self, patience_s: float = 0.05) -> None:
        """Take in what the program has written, and when."""
        before = len(self.raw)
        super().read(patience_s)
        text = self._decode(bytes(self.raw[before:])).replace(str(REPOSITORY), CHECKOUT)
        if text:
            moment = time.monotonic()
            self._now += min(moment - self._read_at, LONGEST_PAUSE_S)
            self._read_at = moment
            self.shown.append((round(self._now, 3), text))

    def wait_for_prompt(self) -> None:
        """Wait until the shell takes the next line."""
        deadline = time.monotonic() + CEILING_S
        while not self.raw.endswith(PROMPT.encode()):
            self.read()
            assert time.monotonic() < deadline, self.text

    def linger(self, seconds: float) -> None:
        """Leave people time to read."""
        self._now += seconds

    def type(self, line: str) -> None:
        """Type a line as somebody does, and have the shell do it."""
        for character in line:
            self.press(character)
            self._read_at = time.monotonic() - TYPED_S
        self.press("Enter")


def program() -> str:
    """The tutorial's training program."""
    found = re.search(r"```python\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def command_lines() -> Iterator[str]:
    """What the recorded sections say to type, without the remarks behind it."""
    text = TUTORIAL.read_text(encoding="utf-8")
    for title in SECTIONS:
        section = text.split(f"## {title}\n")[1].split("\n## ")[0]
        for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL):
            for line in block.splitlines():
                yield line.partition("  #")[0].rstrip()


def record(folder: Path) -> list[tuple[float, str]]:
    """Type all of it in `folder`; returns the seconds at which what was shown."""
    (folder / "train.py").write_text(program(), encoding="utf-8")
    os.chdir(folder)
    terminal = RecordedTerminal(
        "bash",
        "--norc",
        "--noprofile",
        PS1=PROMPT,
        HOME=str(folder),
        FRESNEL_HOST="gpu-box-3",
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    )
    try:
        terminal.wait_for_prompt()
        for line in command_lines():
            terminal.type(line)
            terminal.wait_for_prompt()
            terminal.linger(1.5)
        terminal.type("fresnel-tui")
        for key, seen in LOOKS:
            terminal.press(*filter(None, [key]))
            terminal.wait_for(seen, CEILING_S)
            terminal.linger(1.5)
        terminal.press("q")
        terminal.wait_for_prompt()
        return terminal.shown
    finally:
        terminal.close()


def main() -> None:
    """Record it and write the file."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shown = record(Path(folder))
    header = {
        "version": 2,
        "width": COLUMNS,
        "height": ROWS,
        "title": "fresnel-tui: the first five minutes (simulated GPUs)",
        "env": {"TERM": "xterm-256color", "SHELL": "/bin/bash"},
    }
    lines = [header, *([moment, "o", text] for moment, text in shown)]
    CAST.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(f"{CAST.relative_to(REPOSITORY)}: {shown[-1][0]:.0f} s, {CAST.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
