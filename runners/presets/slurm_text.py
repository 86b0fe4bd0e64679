"""The keys of `place.slurm` in one line of text, and from the parts of a command line."""

from collections.abc import Mapping
from typing import Any

import msgspec

from runners.model.cluster import SlurmKeys
from runners.model.errors import WrongInput
from runners.model.spelling import split_text
from runners.model.units import duration_text, parse_duration
from runners.presets.parameter_input import parse_scalar
from runners.presets.reading.typed import KeyMistake, decode

_YES, _NO = "yes", "no"


def slurm_keys(given: Mapping[str, str], before: str = "") -> SlurmKeys:
    """Keys of Slurm as they were typed; WrongInput names the wrong one, with `before` before it."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        try:
            values[name] = split_text(text) if name == "extra" else parse_scalar(text)
        except ValueError as error:
            raise WrongInput(f"{before}{name}: {error}") from None
    try:
        found: SlurmKeys = decode(values, SlurmKeys, ("place", "slurm"))
    except KeyMistake as mistake:
        name = str(mistake.key[-1])
        name = name.replace("_", "-") if before == "--" else name
        raise WrongInput(f"{before}{name}: {mistake.message}") from None
    return found


def parse_slurm(text: str) -> SlurmKeys | None:
    """`partition=gpu time=4h`, or `yes`; None for `no` and nothing. WrongInput names the key."""
    try:
        parts = split_text(text)
    except ValueError as error:
        raise WrongInput(f"slurm: {error}") from None
    if parts in ([], [_NO]):
        return None
    if parts == [_YES]:
        return SlurmKeys()
    pairs = [part.partition("=")[::2] for part in parts]
    if not all(name and value for name, value in pairs):
        raise WrongInput(
            f"slurm: expected yes, no, or options such as partition=gpu time=4h, got {text!r}"
        )
    return slurm_keys(dict(pairs), "slurm: ")


def slurm_text(keys: SlurmKeys | None) -> str:
    """What `parse_slurm` reads as `keys`."""
    if keys is None:
        return ""
    given: Mapping[str, Any] = msgspec.to_builtins(keys)
    return " ".join(f"{name}={_spelled(name, value)}" for name, value in given.items()) or _YES


def _spelled(name: str, value: Any) -> str:
    if name == "time":
        text = duration_text(value)
        return text if parse_duration(text) == value else f"{value}s"  # seconds of many hours
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{' '.join(value)}'" if isinstance(value, (list, tuple)) else str(value)
