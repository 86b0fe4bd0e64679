"""The words of a command of ours, where somebody's own command may stand behind a bare `--`."""

from collections.abc import Sequence


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before a bare `--`, which are for us, and all others from it on."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at]], [*words[at:]]


def with_flags(words: Sequence[str], *flags: str) -> list[str]:
    """`words` with flags of ours behind them, before somebody's own command."""
    ours, command = split_words(words)
    return [*ours, *flags, *command]
