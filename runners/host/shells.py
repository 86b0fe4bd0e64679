"""The shells whose scripts and `-c` lines are known. Standard library only."""

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")


def shell_line(text: str) -> list[str]:
    """`text` as a command: by bash where there is one, others know no `source` and no `[[`."""
    from shutil import which  # `list` makes no line

    return ["bash" if which("bash") else "sh", "-c", text]
