"""A copy of our source, which is the program of a test, and another version put in its place."""

import re
import shutil
import sys
from pathlib import Path

from tests.support import REPOSITORY

# Isolated: nothing of it is forked from a process that has imported the first version.
_BEGINS = "import sys; sys.path.insert(0, {!r}); from tui.__main__ import main; main()"
UNTIL_IT_MAY = (
    "sh",
    "-c",
    "echo ready; until [ -e may_end ]; do sleep 0.05; done; echo RuntimeError: no; exit 3",
)
"""A program that fails once the file `may_end` is in its folder."""
AGAIN = ("--set", "restart.times=1", "--set", "restart.backoff=0.1s")


def install(place: Path) -> tuple[str, ...]:
    """Copy our source to `place`; returns what begins its commands."""
    for name in ("runners", "tui", "presets"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, place / name, ignore=ignored)
    return (sys.executable, "-I", "-c", _BEGINS.format(str(place)))


def upgrade(place: Path) -> None:
    """Install a version in which a constant has another name, in its module and where it is used:
    a process that has imported the module cannot import what uses it any more.
    """
    changed = 0
    for file in place.rglob("*.py"):
        file.touch()
        text = file.read_text()
        if file.name == "shells.py" or "runners.host.shells" in text:
            new = file.with_suffix(".new")
            new.write_text(re.sub(r"\bSHELLS\b", "NAMES", text))
            new.replace(file)
            changed += "SHELLS" in text
    assert changed > 1
