"""Our own words in front of a program: a terminal of its own, or output that is not held back."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from runners.host.helpers import command

_STDBUF = ("stdbuf", "-oL", "-eL")


def wrapped(argv: list[str], terminal: bool, runs_python: bool) -> list[str]:
    """`argv` behind what lets its output be seen at once; Python is told by its environment."""
    if terminal:
        # There the C library flushes at every line already.
        return command("pty", *argv)
    return argv if runs_python else unbuffer(argv)


def unbuffer(argv: list[str]) -> list[str]:
    """`argv` behind stdbuf, where that exists and helps."""
    name = Path(argv[0]).name
    if name.startswith(("python", "stdbuf")) or shutil.which(_STDBUF[0]) is None:
        return argv
    return [*_STDBUF, *argv]


def unwrapped(argv: Sequence[str]) -> list[str]:
    """The program that matters: `argv` without what `wrapped` has put before it."""
    program = list(argv)
    for wrapper in (command("pty"), list(_STDBUF)):
        if program[: len(wrapper)] == wrapper:
            program = program[len(wrapper) :]
    return program
