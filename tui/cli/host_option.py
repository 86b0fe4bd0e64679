"""Which commands `--host NAME` runs on a rented machine, and taking those words off a command."""

from collections.abc import Sequence

from runners.model.trailing_command import HERE_ONLY, split_at_dashes
from tui.cli.command_table import ALIASES, COMMANDS
from tui.cli.parsing import UsageError

REMOTE_COMMANDS = frozenset(COMMANDS) - frozenset(HERE_ONLY)
_LOOKING = ("list", "status", "gpus", "cost", "monitor", "doctor", "guard")
FOR_SEVERAL = (*_LOOKING, "stop", "kill", "pause", "continue", "drain")
"""What may be done on several machines at once."""
_HELP = "do it on this rented machine (`fresnel-tui host list`)"


def host_help(command: str) -> str:
    """What `--host` is for a command, in its help."""
    if command in ("launch", "plan"):
        return f"{_HELP}, on one of several (a,b, @LABEL), or on any"
    return f"{_HELP}, on several (a,b, @LABEL), or on all" if command in FOR_SEVERAL else _HELP


def may_take_host(argv: Sequence[str]) -> bool:
    """Whether the command that stands first can be done on another machine."""
    return bool(argv) and ALIASES.get(argv[0], argv[0]) in REMOTE_COMMANDS


def take_host(argv: Sequence[str]) -> tuple[list[str], str]:
    """The words without `--host NAME`, and the name; empty when the command is meant here."""
    ours, command = split_at_dashes(argv)
    for i, word in enumerate(ours):
        if word.startswith("--host="):
            return ours[:i] + ours[i + 1 :] + command, word.partition("=")[2]
        if word != "--host":
            continue
        if i + 1 < len(ours) and not ours[i + 1].startswith("-"):
            return ours[:i] + ours[i + 2 :] + command, ours[i + 1]
        if ours[0] != "gpus":  # there it also means this machine's own readings
            raise UsageError("--host: which?", "`fresnel-tui host list` shows them", "")
    return list(argv), ""
