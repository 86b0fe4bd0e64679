"""A run's spec with the secrets that are never written down, from wherever they still are."""

from collections.abc import Mapping
from typing import Any

import msgspec

from runners.host.files import is_file
from runners.model.errors import FresnelError, WrongInput
from runners.model.masked_plan import (
    give_again,
    leaves,
    mask_tree,
    masked_places,
    restored,
    secret_name,
)
from runners.model.spec import RunSpec

_SPEC = "spec."


def with_secrets(
    spec: RunSpec, arrived: Mapping[str, Any], environment: Mapping[str, str]
) -> RunSpec:
    """`spec` as read from disk, with the secrets that can be found; the others stay masked.

    They are looked for in memory (`arrived`, by their places in a plan), in the file of its preset,
    and for variables in `environment`.
    """
    tree = msgspec.to_builtins(spec)
    places = masked_places(tree)
    if not places:
        return spec
    kept = {
        place.removeprefix(_SPEC): value
        for place, value in arrived.items()
        if place.startswith(_SPEC)
    }
    inherited = {f"environment.{name}": value for name, value in environment.items()}
    known = {**inherited, **_of_preset(spec, tree), **kept}
    found = {place: known[place] for place in places if place in known}
    return msgspec.convert(restored(tree, found), RunSpec)


def refuse_masked(spec: RunSpec, run: str = "") -> None:
    """Raise WrongInput when a secret of an earlier run is still masked in `spec`.

    `run` is the id of one that waited itself, and can only be launched again.
    """
    places = masked_places(msgspec.to_builtins(spec))
    # No program is given what its preset would have given it.
    places = [place for place in places if not place.endswith(".default")]
    if places:
        names = ", ".join(dict.fromkeys(map(secret_name, places)))
        hint = give_again(places, run)
        if spec.source and "--set" not in hint:
            hint = f"its preset {spec.source} does not have it any more; launch that instead"
        raise WrongInput(f"{names} was a secret of this run, which is never written down", hint)


def _of_preset(spec: RunSpec, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The secrets in the file of its preset, where it still has the same text around them."""
    if not is_file(spec.source):
        return {}
    from runners.presets.catalogue import resolve_preset  # few runs have a secret

    try:
        preset = resolve_preset(spec.source)
    except FresnelError:
        return {}
    masked, secrets = mask_tree(msgspec.to_builtins(preset))
    before = dict(leaves(tree))
    now = dict(leaves(masked))
    return {place: value for place, value in secrets.items() if now[place] == before.get(place)}
