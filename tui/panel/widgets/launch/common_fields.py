"""The launch form's fields that every run has: name, place in the queue, price, folder."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from runners.host.files import current_folder, expanded
from runners.model.cluster import PlaceKeys, SlurmKeys
from runners.model.course import parse_after
from runners.model.errors import WrongInput
from runners.model.parameters import with_value
from runners.model.spec import After, Parameter, RunSpec
from runners.presets.config_file import with_config_file
from runners.presets.declared_keys import declared_key
from runners.presets.load import doubted_estimate
from runners.presets.parameter_input import build_parameter, parse_scalar, parse_value
from runners.presets.slurm_text import parse_slurm, slurm_text
from runners.slurm.client import is_installed

WORKING_DIRECTORY = "${working_directory}"


class DetailField(NamedTuple):
    """A field of the details.
    Its key, what its empty field says, its help, and whether each run of a group takes it.
    """

    key: str
    hint: str
    help: str
    in_groups: bool = True


def _declared(key: str, spelling: str = "") -> str:
    """What the declaration of a preset's key says, as a hint; how it is spelled in a field."""
    text = declared_key(key).description.removesuffix(".")
    return "; ".join(filter(None, (text[0].lower() + text[1:], spelling)))


FIELDS = (
    DetailField("name", "", "what the run is called in every list", False),
    DetailField("folder", "", "where it runs; relative to where the panel was started", False),
    DetailField(
        "checkpoints",
        "${run_dir}/checkpoints/*",
        _declared("checkpoints", "several separated by spaces"),
        False,
    ),
    DetailField("config", "", "the program's configuration file", False),
    DetailField(
        "keys",
        "as the file says",
        "keys of that file, such as train.gpu=0 train.lr=1e-3; an edited copy goes into the run's "
        "folder",
        False,
    ),
    DetailField("priority", "0", _declared("priority")),
    DetailField("after", "no other run", _declared("after", "ID or name, ID:failure, ID:any")),
    DetailField("price", "the session's", _declared("price")),
    DetailField("slurm", "no", "as a Slurm job: yes, or options: partition=gpu time=4h mem=64G"),
)


_KEYS = "KEY=VALUE, as train.gpu=0"
CONFIGURED = ("config", "keys")
"""Fields of programs that are configured by a file."""


def fields_of(spec: RunSpec, group: bool, machine: str = "") -> list[DetailField]:
    """The fields that say something of `spec`, which may be a group's first.

    That of Slurm where it is known here, or may be on `machine`.
    """
    has_slurm = bool(machine) or spec.place.slurm is not None or is_installed()
    return [
        field
        for field in FIELDS
        if (field.in_groups or not group)
        and (field.key not in CONFIGURED or spec.config is not None)
        and (field.key != "slurm" or has_slurm)
    ]


def detail_texts(spec: RunSpec) -> dict[str, str]:
    """What stands in the fields for `spec`."""
    after = "" if spec.after is None else f"{spec.after.run}:{spec.after.on}"
    return {
        "name": "" if spec.group else spec.name,
        "folder": "" if spec.working_directory == WORKING_DIRECTORY else spec.working_directory,
        "checkpoints": " ".join(spec.checkpoints),
        "config": "" if spec.config is None else spec.config.path,
        "keys": "",
        "priority": str(spec.priority) if spec.priority else "",
        "after": after.removesuffix(":success"),
        "price": spec.price or "",
        "slurm": slurm_text(spec.place.slurm),
    }


def with_details(spec: RunSpec, texts: Mapping[str, str]) -> RunSpec:
    """`spec` with what was typed; fields that are as they were change nothing. WrongInput names the
    field.
    """
    changed = _changed(spec, texts)
    values: dict[str, object] = {}
    if changed.get("name"):
        values["name"] = changed["name"]
    if "folder" in changed:
        values["working_directory"] = absolute_folder(changed["folder"])
    if "checkpoints" in changed:
        values["checkpoints"] = tuple(changed["checkpoints"].split())
    if "priority" in changed:
        values["priority"] = whole_number("priority", changed["priority"]) or 0
    if "after" in changed:
        values["after"] = _after(changed["after"])
    if "price" in changed:
        values["price"] = changed["price"] or None
        values["price_basis"] = "flag" if changed["price"] else "preset"
    if "slurm" in changed:
        values["place"] = PlaceKeys(slurm=parse_slurm(changed["slurm"]))
    return _configured(msgspec.structs.replace(spec, **values), changed)


def _configured(spec: RunSpec, changed: Mapping[str, str]) -> RunSpec:
    """`spec` with another configuration file, and with keys of it, as typed."""
    other = [] if not changed.get("config") else ["config.file"]
    if other:
        spec = with_config_file(spec, changed["config"])
    before = {parameter.name for parameter in spec.parameters}
    if "keys" in changed:
        spec = msgspec.structs.replace(spec, parameters=_with_keys(spec, changed["keys"]))
    more = [parameter.name for parameter in spec.parameters if parameter.name not in before]
    return msgspec.structs.replace(spec, estimate=doubted_estimate(spec, (*other, *more)))


def _with_keys(spec: RunSpec, text: str) -> tuple[Parameter, ...]:
    """Its parameters with keys of the configuration as typed.

    A key over which a parameter wins is that parameter, any other one of its own.
    """
    found = {parameter.name: parameter for parameter in spec.parameters}
    by_key = {parameter.stands_for: name for name, parameter in found.items()}
    for word in assignments("keys", text, _KEYS):
        key, _, value = word.partition("=")
        name = by_key.get(key, key)
        try:
            if name in found:
                given = parse_value(found[name], value)
                found[name] = with_value(found[name], given)
            else:
                made = build_parameter(key, {"value": parse_scalar(value)})
                found[key] = msgspec.structs.replace(made, config_key=key, flag="")
        except (ValueError, WrongInput) as error:
            raise WrongInput(f"keys: {key}: {error}") from None
    return tuple(found.values())


def assignments(field: str, text: str, expected: str) -> list[str]:
    """The words of a field, each with a `=`; WrongInput says what the `field` expects."""
    try:
        typed = shlex.split(text)
    except ValueError as error:
        raise WrongInput(f"{field}: {str(error).lower()}") from None
    for word in typed:
        if not word.partition("=")[1]:
            raise WrongInput(f"{field}: {word}: expected {expected}")
    return typed


def whole_number(field: str, text: str) -> int | None:
    """What was typed in a field, None for nothing; WrongInput for what is no number."""
    try:
        return int(text) if text else None
    except ValueError:
        raise WrongInput(f"{field}: expected a whole number, got {text!r}") from None


_CLEARED = {
    "priority": ("--priority", "0"),
    "after": ("--set", "after=null"),
    "price": ("--set", "price=null"),
}
"""The flags for a field that was emptied: without one, what the preset says would count."""


def detail_arguments(spec: RunSpec, texts: Mapping[str, str], is_here: bool = True) -> list[str]:
    """The headless flags for what was typed; another machine finds a relative folder itself."""
    changed = _changed(spec, texts)
    arguments: list[str] = []
    for key in ("name", "priority", "after", "price"):
        if changed.get(key):
            arguments += [f"--{key}", changed[key]]
        elif key in changed and key in _CLEARED:
            arguments += _CLEARED[key]
    if "folder" in changed:
        folder = absolute_folder(changed["folder"]) if is_here else changed["folder"]
        arguments += ["--set", f"working_directory={folder or WORKING_DIRECTORY}"]
    if changed.get("config"):
        arguments += ["--set", f"config={changed['config']}"]
    for word in assignments("keys", changed.get("keys", ""), _KEYS):
        arguments += ["--set", word]
    if "checkpoints" in changed:
        patterns = changed["checkpoints"].split()
        text = patterns[0] if len(patterns) == 1 else json.dumps(patterns)
        arguments += ["--set", f"checkpoints={text}"]
    if "slurm" in changed:
        arguments += _slurm_arguments(spec, parse_slurm(changed["slurm"]))
    return arguments


def _slurm_arguments(spec: RunSpec, keys: SlurmKeys | None) -> list[str]:
    if keys == SlurmKeys() and spec.place.slurm is None:
        return ["--slurm"]
    # The flags add to what a preset says, and this replaces it.
    given = None if keys is None else msgspec.to_builtins(keys)
    return ["--set", f"place.slurm={json.dumps(given)}"]


def absolute_folder(text: str) -> str:
    """A folder as typed, from where the panel was started; what has `${…}` in it stays."""
    if "${" in text or not text:
        return text or WORKING_DIRECTORY
    return os.path.normpath(current_folder() / expanded(text))


def _after(text: str) -> After | None:
    try:
        return parse_after(text) if text else None
    except ValueError as error:
        raise WrongInput(f"after: {error}") from None


def _changed(spec: RunSpec, texts: Mapping[str, str]) -> dict[str, str]:
    before = detail_texts(spec)
    return {key: text.strip() for key, text in texts.items() if text.strip() != before[key]}
