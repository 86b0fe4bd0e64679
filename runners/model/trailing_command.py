"""A command line of ours, where somebody's own command may stand behind a bare `--`."""

from collections.abc import Sequence

HERE_ONLY = (
    *("up", "host", "push", "fetch", "fetches", "nodes", "secret", "serve", "demo", "schema"),
    *("reset-terminal", "completion", "pictures", "report", "best", "prices"),
)
"""The commands that cannot be done on another machine."""


def split_at_dashes(line: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before a bare `--`, which are for us, and all others from it on."""
    at = line.index("--") if "--" in line else len(line)
    return [*line[:at]], [*line[at:]]


def with_flags(line: Sequence[str], *flags: str) -> list[str]:
    """`line` with flags of ours behind our own, before somebody's own command."""
    ours, command = split_at_dashes(line)
    return [*ours, *flags, *command]
