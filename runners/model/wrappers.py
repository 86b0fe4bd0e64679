"""What a plan puts before a program, and the program behind it."""

from collections.abc import Sequence

from runners.host.helpers import command as helper_command

STDBUF = ("stdbuf", "-oL", "-eL")
"""What is put before a program so that its lines are seen at once."""


def unwrapped(argv: Sequence[str]) -> list[str]:
    """The program that matters: `argv` without what a plan has put before it."""
    program = list(argv)
    for wrapper in (helper_command("pty"), list(STDBUF)):
        if program[: len(wrapper)] == wrapper:
            program = program[len(wrapper) :]
    return program
