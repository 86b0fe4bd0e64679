"""Specs and plans as they are written down: their secrets masked, and known by their places."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runners.model.kept_secrets import MASK, SECRET_PREFIX
from runners.model.masking import (
    is_secret_name,
    mask_arguments,
    mask_text,
    mask_value,
    secret_reference,
)

# Shorter ones may stand anywhere by chance.
_SHORTEST_KNOWN = 6
_NEVER_MASKED = (
    *("checkpoints", "config", "directory", "forecast", "gpus", "group", "interpreter", "metrics"),
    *("module", "name", "node", "nodes", "origin", "parent", "preset", "price", "provenance"),
    *("resumed_from", "run", "script", "source", "stop", "tensorboard", "working_directory"),
)
"""Keys of specs and plans that others go by: names, paths and what they are looked for with."""


class MaskedTree(NamedTuple):
    """A spec or plan as JSON values with its secrets masked, and these by their places in it."""

    tree: dict[str, Any]
    secrets: dict[str, Any]


def mask_tree(tree: Mapping[str, Any], known: Iterable[str] = ()) -> MaskedTree:
    """Mask the spec or plan `tree`, and the texts in `known` wherever they stand in it."""
    masked = _mask_fields(tree, _filled_with_secrets(tree))
    values = {*known, *_bare_secrets(masked, tree)}
    values = {value for value in values if len(value) >= _SHORTEST_KNOWN}
    if values:
        # The longest first: one may be a part of another.
        pattern = re.compile("|".join(map(re.escape, sorted(values, key=len, reverse=True))))
        masked = _scrubbed(masked, pattern)
    return MaskedTree(masked, {place: leaf for place, _, leaf in _masked_leaves(masked, tree)})


def mask_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a preset's file with their secrets masked; its parameters are by name."""
    masked = _mask_fields({key: value for key, value in values.items() if key != "parameters"})
    for name, entry in (values.get("parameters") or {}).items():
        fields = entry if isinstance(entry, dict) else {"value": entry}
        hidden = _mask_parameter({"name": name, **fields})
        kept = {key: hidden[key] for key in fields}
        masked.setdefault("parameters", {})[name] = (
            kept if isinstance(entry, dict) else kept["value"]
        )
    return masked


def restored(tree: Any, secrets: Mapping[str, Any], place: str = "") -> Any:
    """`tree` with the secrets of `mask_tree`, by their places, where they are known."""
    if isinstance(tree, dict):
        return {key: restored(value, secrets, f"{place}.{key}") for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        places = (f"{place}.{_place_in(place, tree, i)}" for i in range(len(tree)))
        return [restored(value, secrets, at) for value, at in zip(tree, places, strict=True)]
    return secrets.get(place[1:], tree)


def masked_places(tree: Any) -> list[str]:
    """The places in a spec or plan at which a secret is masked."""
    return [place for place, text in leaves(tree) if isinstance(text, str) and MASK in text]


def secret_name(place: str) -> str:
    """What a person calls the secret at a place of a spec: its variable, parameter or key."""
    for head, tail in (("environment.", ""), ("parameters.", ".value")):
        if place.startswith(head):
            return place.removeprefix(head).removesuffix(tail)
    return place.partition(".")[0]


def give_again(places: Sequence[str], run: str = "") -> str:
    """How the secrets at these places of a spec are given again: in words, or to launch `run`."""
    flags, rest = [], []
    for place in places:
        if place.startswith("environment."):
            flags.append(f"--set {place}=…")
        elif place.startswith("parameters."):
            flags.append(f"--set {secret_name(place)}=…")
        else:
            rest = ["-- --flag VALUE"]
    given = " ".join([*dict.fromkeys(flags), *rest])
    if run:
        return f"fresnel-tui launch --again {run} {given}"
    return f"give it again: {given}"


def travelling(secrets: Mapping[str, Any]) -> dict[str, str]:
    """Secrets by their places as the variables that they travel in."""
    return {f"{SECRET_PREFIX}{place}": json.dumps(value) for place, value in secrets.items()}


def arrived(environment: Mapping[str, str]) -> dict[str, Any]:
    """The secrets by their places that travel in `environment`."""
    return {
        name.removeprefix(SECRET_PREFIX): json.loads(value)
        for name, value in environment.items()
        if name.startswith(SECRET_PREFIX)
    }


def _filled_with_secrets(plan: Mapping[str, Any]) -> set[str]:
    """The variables of a plan into which its spec puts another one that is a secret."""
    written: Mapping[str, str] = plan.get("spec", {}).get("environment", {})
    return {name for name, text in written.items() if secret_reference(text)}


def _mask_fields(fields: Mapping[str, Any], filled: Collection[str] = ()) -> dict[str, Any]:
    masked: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _NEVER_MASKED:
            masked[name] = value
        elif name == "environment" and isinstance(value, dict):
            masked[name] = {
                key: MASK if key in filled else mask_value(key, text) for key, text in value.items()
            }
        elif name == "parameters" and isinstance(value, (list, tuple)):
            masked[name] = [_mask_parameter(parameter) for parameter in value]
        else:
            masked[name] = _mask_any(value)
    return masked


def _mask_any(value: Any) -> Any:
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return _mask_fields(value)
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return mask_arguments(value)
        return [_mask_any(item) for item in value]
    return value


def _mask_parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    name = str(parameter["name"])
    named = name if is_secret_name(name) else str(parameter.get("flag")).strip("-=")
    masked = _mask_fields(parameter)
    for field in ("value", "default", "choices"):
        if field in parameter:
            masked[field] = _mask_scalar(named, parameter[field])
    return masked


def _mask_scalar(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        if not is_secret_name(name) and all(isinstance(item, str) for item in value):
            return mask_arguments(value)
        return [_mask_scalar(name, item) for item in value]
    if isinstance(value, str):
        return mask_value(name, value)
    if isinstance(value, bool) or value is None or mask_value(name, str(value)) != MASK:
        return value
    return MASK


def leaves(tree: Any, place: str = "") -> Iterable[tuple[str, Any]]:
    """The texts and numbers in `tree` with their places, as `spec.environment.HOME`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{place}.{key}")
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            yield from leaves(value, f"{place}.{_place_in(place, tree, i)}")
    else:
        yield place[1:], tree


def _place_in(place: str, items: Sequence[Any], i: int) -> str:
    """The place of item `i` of the list at `place`: a parameter's is its name."""
    return str(items[i]["name"]) if place.endswith(".parameters") else str(i)


def _masked_leaves(masked: Any, real: Any) -> list[tuple[str, Any, Any]]:
    """The leaves of `real` that `masked` does not show as they are: place, what it shows, leaf."""
    pairs = zip(leaves(masked), leaves(real), strict=True)
    return [(place, shown, leaf) for (_, shown), (place, leaf) in pairs if shown != leaf]


def _bare_secrets(masked: Any, real: Any) -> set[str]:
    """The secrets themselves, without what stands around them in their texts."""
    found: set[str] = set()
    for _, shown, value in _masked_leaves(masked, real):
        if isinstance(value, str):
            parts = map(re.escape, str(shown).split(MASK))
            match = re.fullmatch("(.+)".join(parts), value, re.DOTALL)
            found.update(match.groups() if match else ())
    return found


def _scrubbed(tree: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(tree, str):
        return pattern.sub(MASK, tree)
    if isinstance(tree, dict):
        return {
            key: value if key in _NEVER_MASKED else _scrubbed(value, pattern)
            for key, value in tree.items()
        }
    if isinstance(tree, (list, tuple)):
        return [_scrubbed(value, pattern) for value in tree]
    return tree
