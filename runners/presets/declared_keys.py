"""The keys that a preset declares, by name: what is said of each, and which values it may have."""

from typing import Any, NamedTuple

from runners.model.spec import RunSpec
from runners.presets.reading.typed import choices_of, is_struct, key_type, keys_of


class DeclaredKey(NamedTuple):
    """A key with its description; `choices` are its values where they are a closed set."""

    name: str
    description: str
    choices: tuple[str, ...] = ()


def declared_keys(within: str = "") -> list[DeclaredKey]:
    """The keys of a preset, or those of its part `within`, such as `restart`; none of no part.

    Their names are whole, as `--set` takes them: `restart.times`.
    """
    struct: Any = RunSpec
    for part in filter(None, within.split(".")):
        field = keys_of(struct).get(part)
        members = () if field is None else key_type(field.type).members
        plain = [key_type(member).type for member in members]
        struct = next((member for member in plain if is_struct(member)), None)
        if struct is None:
            return []
    before = f"{within}." if within else ""
    return [
        DeclaredKey(before + name, key_type(field.type).description, _choices(field.type))
        for name, field in keys_of(struct).items()
    ]


def declared_key(name: str) -> DeclaredKey:
    """The key of this name. Raises KeyError for one that no preset has."""
    within = name.rpartition(".")[0]
    return {key.name: key for key in declared_keys(within)}[name]


def _choices(kind: Any) -> tuple[str, ...]:
    is_truth = bool in key_type(kind).members
    return ("true", "false") if is_truth else tuple(choices_of(kind))
