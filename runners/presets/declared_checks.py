"""A preset's own checks: `checks: {imports, files, commands, without_effect}` and `verify`."""

import re
import shlex
from typing import get_args

from runners.model.spec import CheckGroup, CommandRule, DeclaredChecks, FileRule, Parameter
from runners.presets.reading.diagnostics import Diagnostics, nearest
from runners.presets.reading.units import parse_duration, parse_range
from runners.presets.schema_checks import CheckKeys, CommandCheckKeys, FileCheckKeys

PARAMETER = re.compile(r"\$\{parameters\.([\w.-]+)\}")
"""A parameter's value in the text of a check."""
GROUPS: tuple[CheckGroup, ...] = get_args(CheckGroup)
_FIELDS = re.compile(r"\{(\w*)\}")
_KNOWN_FIELDS = ("stem", "name", "folder", "row")


def build_checks(
    keys: CheckKeys, parameters: tuple[Parameter, ...], source: Diagnostics
) -> DeclaredChecks:
    """The checks a preset declares; errors name the key."""
    return DeclaredChecks(
        tuple(keys.imports),
        tuple(_file(one, i, parameters, source) for i, one in enumerate(keys.files)),
        tuple(_command(one, i, source) for i, one in enumerate(keys.commands)),
        keys.without_effect,
    )


def build_verify(value: bool | list[CheckGroup]) -> tuple[CheckGroup, ...]:
    """The groups of checks made before a launch."""
    if isinstance(value, bool):
        return GROUPS if value else ()
    return tuple(value)


def _file(
    keys: FileCheckKeys, place: int, parameters: tuple[Parameter, ...], source: Diagnostics
) -> FileRule:
    where = ("checks", "files", place)
    names = [parameter.name for parameter in parameters]
    for name in PARAMETER.findall(keys.path):
        if name not in names:
            raise source.error((*where, "path"), f"no parameter `{name}`{nearest(name, names)}")
    for key, patterns in (("pairs", keys.pairs), ("rows", keys.rows)):
        for i, pattern in enumerate(patterns):
            unknown = set(_FIELDS.findall(pattern)) - set(_KNOWN_FIELDS)
            if unknown:
                known = ", ".join(f"{{{one}}}" for one in _KNOWN_FIELDS)
                raise source.error(
                    (*where, key, i), f"{{{min(unknown)}}} is not known; there are {known}"
                )
    count, size = keys.count, keys.size
    return FileRule(
        keys.path,
        keys.name,
        None if count is None else source.attempt((*where, "count"), lambda: parse_range(count)),
        None
        if size is None
        else source.attempt((*where, "size"), lambda: parse_range(size, sizes=True)),
        tuple(keys.pairs),
        tuple(keys.rows),
        keys.optional,
        keys.advice,
    )


def _command(keys: CommandCheckKeys, place: int, source: Diagnostics) -> CommandRule:
    where = ("checks", "commands", place)
    words = keys.command
    if isinstance(words, str):
        text = words
        words = source.attempt((*where, "command"), lambda: shlex.split(text))
    if not words:
        raise source.error((*where, "command"), "it is empty")
    seconds = source.attempt((*where, "within"), lambda: parse_duration(keys.within))
    return CommandRule(tuple(words), keys.name, keys.exits, seconds, keys.optional, keys.advice)
