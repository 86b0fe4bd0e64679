"""Commands that another machine advises, as they are typed on this one."""

import re

from runners.model.late_pattern import late_pattern
from runners.model.trailing_command import HERE_ONLY

_NAMED = late_pattern(r"`fresnel-tui ([a-z][a-z-]*)((?: (?!-- )[^`\s]+)*)([^`]*)`")


def named_from_here(text: str, machine: str) -> str:
    """The text with `--host MACHINE` in the commands of ours that it names between backticks."""

    def named(found: re.Match[str]) -> str:
        command, ours, program = found.groups()
        if command in (*HERE_ONLY, "help") or "--host" in ours:
            return found.group()
        return f"`fresnel-tui {command}{ours} --host {machine}{program}`"

    return _NAMED.sub(named, text)
