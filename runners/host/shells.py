"""The shells whose scripts and `-c` lines are known. Standard library only."""

from collections.abc import Sequence
from typing import NamedTuple

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")


class ShellCommand(NamedTuple):
    """What a shell is given: a line (`bash -lc LINE`) or the file of a script; else both empty."""

    line: str = ""
    script: str = ""


def shell_command(argv: Sequence[str]) -> ShellCommand:
    """The line or the script that `argv` runs by a shell, as bash(1) and sh(1) read it."""
    name, *arguments = argv or [""]
    if name.endswith(".sh"):
        return ShellCommand(script=name)
    if name.rpartition("/")[2] not in SHELLS:
        return ShellCommand()
    is_line = False
    while arguments and arguments[0][:1] in ("-", "+"):
        option = arguments.pop(0)
        if option in ("-", "--"):
            break
        is_cluster = option[:2] not in ("--", "++")
        is_line |= is_cluster and option[0] == "-" and "c" in option
        if option in ("--rcfile", "--init-file") or (is_cluster and option[-1] in "oO"):
            del arguments[:1]
    if not arguments:
        return ShellCommand()
    return ShellCommand(line=arguments[0]) if is_line else ShellCommand(script=arguments[0])


def shell_line(text: str) -> list[str]:
    """`text` as a command: by bash where there is one, others know no `source` and no `[[`."""
    from shutil import which  # `list` makes no line

    return ["bash" if which("bash") else "sh", "-c", text]
