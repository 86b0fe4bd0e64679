"""Commands that another machine advises, as they are typed on this one."""

import re
from typing import Any

from runners.model.late_pattern import late_pattern
from runners.model.trailing_command import HERE_ONLY

_NAMED = late_pattern(r"`fresnel-tui ([a-z][a-z-]*)((?: (?!-- )[^`\s]+)*)([^`]*)`")

_ADVICE = frozenset(
    {"advice", "cause", "doubt", "hint", "message", "notes", "obstacle", "problem", "reason"}
    | {"remedy", "waits"}
)
"""Keys of an answer with words of ours; all else is somebody's own: a command, a note, a diff."""
_NAMES = _ADVICE | {"alert", "asks", "GPUs", "note", "queue", "remedies"}
"""The same in what is shown as names and values."""


def named_from_here(text: str, machine: str) -> str:
    """The text with `--host MACHINE` in the commands of ours that it names between backticks."""

    def named(found: re.Match[str]) -> str:
        command, ours, program = found.groups()
        if command in (*HERE_ONLY, "help") or "--host" in ours:
            return found.group()
        return f"`fresnel-tui {command}{ours} --host {machine}{program}`"

    return _NAMED.sub(named, text)


def advised_from_here(found: Any, machine: str) -> Any:
    """A structured answer, decoded from JSON, with `--host MACHINE` in the commands it advises.

    Raises ValueError for one that is nested without end.
    """
    try:
        return _advised(found, machine, "")
    except RecursionError:
        raise ValueError("an answer that is nested too deep") from None


def _advised(found: Any, machine: str, about: str) -> Any:
    """The part of an answer that stands under the key `about`."""
    if isinstance(found, str):
        return named_from_here(found, machine) if about in _ADVICE else found
    if isinstance(found, dict):
        return {key: _advised(part, machine, key) for key, part in found.items()}
    if not isinstance(found, (list, tuple)):
        return found
    match found:
        case [str(name), str(value)] if name in _NAMES and about not in _ADVICE:
            return [name, named_from_here(value, machine)]
    return [_advised(part, machine, about) for part in found]
