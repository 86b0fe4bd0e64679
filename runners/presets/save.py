"""Write a RunSpec down as a preset of the user's own."""

import os
import re
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import yaml

from runners.host.files import create_once, is_file, is_there, replace
from runners.model.errors import FresnelError, WrongInput
from runners.model.masked_plan import mask_keys
from runners.model.masking import mask_value
from runners.model.spec import GpuRequest, Parameter, Rung, RunSpec
from runners.presets.load import command_spec, load_preset, open_preset, spec_of
from runners.presets.parameter_input import parse_scalar
from runners.presets.reading.diagnostics import Diagnostics
from runners.presets.reading.typed import key_type, keys_of
from runners.presets.reading.yaml_lines import parse_yaml
from runners.state.layout import config_dir

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def preset_path(name: str) -> Path:
    """Where a preset of the user's own with this name lies; WrongInput when it is no name."""
    if not _NAME.fullmatch(name) or name.endswith((".yaml", ".yml")):
        raise WrongInput(
            f"preset name {name!r}: letters, digits, `-`, `_` and `.`", "for example lr-sweep"
        )
    return config_dir() / "presets" / f"{name}.yaml"


def save_preset(spec: RunSpec, name: str, overwrite: bool = False) -> Path:
    """Write `spec` as the user's preset `name` and return its path.

    A spec of a preset is that preset's file with the values of `spec`; one of a command is written
    anew. The loader checks it before it stands under its name. WrongInput when the name is taken
    and `overwrite` is false, or when the preset that it came from is gone.
    """
    path = preset_path(name)
    if is_there(path) and not overwrite:
        raise WrongInput(f"{path} exists already", "choose another name, or overwrite it")
    text = preset_text(spec)
    values, lines = parse_yaml(text, path)
    spec_of(path, "", values, (), Diagnostics(path, lines))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if overwrite:
            replace(Path(os.path.realpath(path)), text.encode())  # a link stays one
        elif not create_once(path, text.encode()):
            raise WrongInput(f"{path} exists already", "choose another name")
    except OSError as error:
        raise FresnelError(f"{path}: {error.strerror}") from None
    return path


def preset_text(spec: RunSpec) -> str:
    """The YAML of a preset that does what `spec` says."""
    values = _masked(_from_source(spec) if spec.source else _from_command(spec))
    origin = f"from {spec.preset} " if spec.source else ""
    head = f"# Saved {origin}by the launch form; `fresnel-tui presets` checks it.\n"
    return head + yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that our loader would take for a number: to YAML 1.1 `3e-4` is none."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(parse_scalar(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _quoted)


def _masked(values: dict[str, Any]) -> dict[str, Any]:
    """The keys of a preset without secrets: a variable's is inherited, others have to be given."""
    masked = {**values, **mask_keys(values)}
    environment = values.get("environment")
    if isinstance(environment, dict):
        masked["environment"] = {
            name: text if mask_value(name, str(text)) == str(text) else f"${{{name}}}"
            for name, text in environment.items()
        }
    return masked


def _from_command(spec: RunSpec) -> dict[str, Any]:
    values: dict[str, Any] = {
        "description": spec.description or f"saved from the command of {spec.name}",
        "launcher": "command",
        "command": list(spec.command),
        "working_directory": spec.working_directory,
        "gpus": gpu_keys(spec.gpus),
    }
    return values | _changed_keys(spec, command_spec(["program"]))


def _from_source(spec: RunSpec) -> dict[str, Any]:
    source = Path(spec.source)
    if not is_file(source):
        raise WrongInput(f"its preset {source} is gone", "launch it again as it was, with a")
    values, _ = open_preset(source)
    before = load_preset(source)
    _put_parameters(values, spec.parameters)
    if spec.config and before.config and spec.config.path != before.config.path:
        values["config"] = {**values["config"], "file": spec.config.path}
    folder = spec.working_directory
    # What was relative to the old file's folder, or names it, is not in the new one's.
    if folder and not folder.startswith(("/", "~", "$")):
        folder = str((source.absolute().parent / folder).resolve())
    if folder:
        values["working_directory"] = folder
    values = {
        key: _with_folder(value, str(source.absolute().parent)) for key, value in values.items()
    }
    if spec.gpus != before.gpus:
        values["gpus"] = gpu_keys(spec.gpus)
    return values | _changed_keys(spec, before)


_OF_THEIR_OWN = ("parameters", "config", "working_directory", "gpus", "command", "estimate")
"""Keys that are kept otherwise; of the estimate only what may speak against it changes."""


def _changed_keys(spec: RunSpec, before: RunSpec) -> dict[str, Any]:
    """The keys of `spec` that are not as they were, as a preset says them."""
    return {
        name: _plain(value)
        for name, field in keys_of(RunSpec).items()
        if name not in _OF_THEIR_OWN
        and (value := getattr(spec, field.name)) != getattr(before, field.name)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Rung):
        return f"{value.how} {value.wait_s:g}s"
    if isinstance(value, msgspec.Struct):
        return {
            name: _range_text(*given) if _is_range(field.type) else _plain(given)
            for name, field in keys_of(type(value)).items()
            if (given := getattr(value, field.name)) not in ({}, None, field.default)
        }
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, (tuple, list)) else value


def _is_range(kind: Any) -> bool:
    """Whether a key takes two ends, which are only written as a text."""
    plain = [key_type(member).type for member in key_type(kind).members]
    return any(get_origin(each) is tuple and get_args(each)[-1] is not ... for each in plain)


def _range_text(low: float, high: float | None) -> str:
    if high is not None:
        return f"{low}-{high}"
    return f"{low}-" if isinstance(low, int) else str(low)  # of percent none is the least alone


def _put_parameters(values: dict[str, Any], parameters: tuple[Parameter, ...]) -> None:
    config = found if isinstance(found := values.get("config"), dict) else {}
    places = [place.get("parameters") for place in (values, config)]
    for parameter in parameters:
        named = [place for place in places if isinstance(place, dict) and parameter.name in place]
        for place in named:
            entry = place[parameter.name]
            if isinstance(entry, dict):
                place[parameter.name] = {**entry, "value": parameter.value}
            elif parameter.value != parameter.default:
                place[parameter.name] = {"value": parameter.value, "type": parameter.type}
        if parameter.config_key and not named:  # a key of the program's file that was asked for
            keys = config["parameters"] = config.get("parameters") or {}
            keys[parameter.name] = {"value": parameter.value, "type": parameter.type}


def _with_folder(value: Any, folder: str) -> Any:
    if isinstance(value, str):
        return value.replace("${preset_dir}", folder)
    if isinstance(value, dict):
        return {key: _with_folder(child, folder) for key, child in value.items()}
    return [_with_folder(child, folder) for child in value] if isinstance(value, list) else value


def gpu_keys(request: GpuRequest) -> Any:
    """A wish for GPUs as a preset says it."""
    keys: dict[str, Any] = msgspec.to_builtins(request)
    keys.pop("explicit", None)  # that a person chose is no part of a preset
    if request.ids:
        keys["ids"] = ",".join(request.ids)
    else:
        keys = {"count": request.count, **keys}
    return keys["count"] if keys.keys() == {"count"} else keys
