"""The shells whose scripts and `-c` lines are known. Standard library only."""

import shutil

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")


def shell_line(text: str) -> list[str]:
    """`text` as a command: by bash where there is one, others know no `source` and no `[[`."""
    return ["bash" if shutil.which("bash") else "sh", "-c", text]
