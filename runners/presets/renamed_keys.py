"""Preset keys that were renamed: the old names are read for one release, with a warning each.

Remove an entry one release after it came in.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from runners.presets.reading.yaml_lines import Lines


class RenamedKey(NamedTuple):
    """An old key, its new name in the same mapping, and old values that are spelled anew too."""

    place: tuple[str, ...]
    old: str
    new: str
    values: Mapping[str, str] = {}


RENAMED = (
    RenamedKey((), "terminal", "tty"),
    RenamedKey(("gpus",), "foreign", "allow_foreign"),
    RenamedKey(("scaling",), "counts", "per", {"each": "device"}),
    RenamedKey(("metrics",), "higher", "higher_is_better"),
    RenamedKey(("estimate",), "doubt", "caveat"),
)


def rename_keys(values: dict[str, Any], lines: Lines) -> tuple[str, ...]:
    """Give every old key in a preset's `values` its new name, in place; return a warning for each.

    `lines` says where keys stand; the new names stand where the old ones did.

    Where both names stand the old one stays, to be refused as the unknown key it then is.
    """
    warnings = []
    for renamed in RENAMED:
        mapping = _at(values, renamed.place)
        if mapping is None or renamed.old not in mapping or renamed.new in mapping:
            continue
        value = mapping.pop(renamed.old)
        mapping[renamed.new] = renamed.values.get(value, value) if isinstance(value, str) else value
        place = (*renamed.place, renamed.old)
        if place in lines:
            lines.update({(*renamed.place, renamed.new): lines[place]})
        old, new = (".".join((*renamed.place, name)) for name in (renamed.old, renamed.new))
        warnings.append(f"the preset key `{old}` is now called `{new}`; the old name goes soon")
    return tuple(warnings)


def known_key(path: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a key given on the command line, where it has an old name: the first part's new
    name, which `rename_keys` cannot give once the key has been refused as unknown.
    """
    for renamed in RENAMED:
        if path[: len(renamed.place) + 1] == (*renamed.place, renamed.old):
            return (*renamed.place, renamed.new, *path[len(renamed.place) + 1 :])
    return path


def _at(values: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any] | None:
    for name in place:
        found = values.get(name)
        if not isinstance(found, dict):
            return None
        values = found
    return values
