"""The shells whose scripts and `-c` lines are known. Standard library only."""

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
