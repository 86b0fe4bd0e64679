"""The shells whose scripts and `-c` lines are known. Standard library only."""

from collections.abc import Sequence

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")


def line_of(argv: Sequence[str]) -> str:
    """The line that a shell is given in `argv` (`bash -lc LINE`); empty: it is no such command."""
    if len(argv) < 3 or argv[0].rpartition("/")[2] not in SHELLS:
        return ""
    option = argv[1]
    return argv[2] if option[:1] == "-" and option[1:].isalpha() and option[-1] == "c" else ""


def shell_line(text: str) -> list[str]:
    """`text` as a command: by bash where there is one, others know no `source` and no `[[`."""
    from shutil import which  # `list` makes no line

    return ["bash" if which("bash") else "sh", "-c", text]
