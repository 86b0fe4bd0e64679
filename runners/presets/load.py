"""YAML → RunSpec: one preset file read, overridden, decoded, checked and frozen.

The one way: values with their lines → overrides → decoded as their types declare → checks of keys
against each other → RunSpec. One clear error for each mistake.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from runners.model.course import PresetEstimate, parse_after
from runners.model.errors import WrongInput
from runners.model.parameters import with_value
from runners.model.placeholders import check_placeholders
from runners.model.program import request_in_full
from runners.model.python_command import processes_for
from runners.model.spec import GpuRequest, Parameter, ParameterValue, RunSpec, wrong_priority
from runners.model.suggestions import nearest_hint
from runners.presets.command_line import command_name
from runners.presets.config_file import InFile, config_parameters, length_of_preset, stand_ins
from runners.presets.cross_checks import check_across
from runners.presets.parameter_input import build_parameter, parse_scalar, parse_value
from runners.presets.reading.diagnostics import Diagnostics
from runners.presets.reading.typed import (
    KeyMistake,
    KeyPath,
    at_key,
    decode,
    decode_keys,
    is_struct,
    key_type,
    keys_of,
    short_key,
)

_NOTHING_IN_FILE = InFile(set())


def load_preset(
    path: Path, overrides: Sequence[str] = (), name: str = "", gpus: Any = None
) -> RunSpec:
    """The RunSpec of the preset file at `path` with `KEY=VALUE` overrides.

    They come after the `gpus` that its group says. WrongInput names what is wrong.
    """
    values, source = open_preset(path)
    return spec_of(path, name, values, overrides, source, gpus)


def open_preset(path: Path) -> tuple[dict[str, Any], Diagnostics]:
    """The keys of a preset file and where they stand; WrongInput when it is no mapping."""
    from runners.presets.reading.yaml_lines import read_yaml  # own commands need none

    values, lines = read_yaml(path)
    source = Diagnostics(path, lines)
    if not isinstance(values, dict):
        raise source.error((), "expected a mapping with at least the key `launcher`")
    return values, source


def command_spec(command: Sequence[str], overrides: Sequence[str] = (), name: str = "") -> RunSpec:
    """The RunSpec of a command without a preset; its words, `${` too, are taken as they stand."""
    if not command:
        raise WrongInput(
            "no command after --", "for example: fresnel-tui launch -- python train.py"
        )
    literal = [word.replace("${", "$${") for word in command]
    label = command_name(command)
    source = Diagnostics(Path(label or "command"), {})
    values: dict[str, Any] = {
        "launcher": "command",
        "command": literal,
        "working_directory": "${working_directory}",
    }
    for unit in ("epoch", "step"):
        # A command has no parameters: `--set epochs=40` says how long it is, for progress and ETA.
        stated = [text for text in overrides if text.startswith(f"{unit}s=")]
        if stated:
            values["total"] = {"count": parse_scalar(stated[-1].partition("=")[2]), "unit": unit}
            overrides = [text for text in overrides if text not in stated]
    spec = spec_of(source.path, name or label, values, overrides, source)
    return msgspec.structs.replace(spec, preset="command", source="")


def spec_of(
    path: Path,
    name: str,
    values: dict[str, Any],
    overrides: Sequence[str],
    source: Diagnostics,
    gpus: Any = None,
) -> RunSpec:
    """The RunSpec of a preset's keys after other `gpus` and `KEY=VALUE` overrides."""
    with source.located():
        (length, stages), own = length_of_preset(values, path), values.get("config")
        overrides = _name_config(values, overrides)
        asked = [text.partition("=")[0].strip() for text in overrides]
        others = ("config.file",) if values.get("config") is not own else ()
        devices = _usual_devices(values)
        if gpus is not None:
            values["gpus"] = _other_gpus(values, ("gpus",), gpus)[1]
        in_file = config_parameters(values, path, asked)
        defaults = _apply_overrides(values, overrides, source)
        spec = _spec_of(path, name, values, defaults, in_file)
        is_explicit = not _CHOICE_OF_GPUS.isdisjoint(asked)
        request = spec.gpus.chosen(spec.gpus) if is_explicit else spec.gpus
        spec = msgspec.structs.replace(spec, stages_in_file=in_file.stages)
        return msgspec.structs.replace(
            spec,
            usual_devices=devices,
            usual_length=length,
            usual_stages=stages,
            gpus=request,
            estimate=doubted_estimate(spec, (*others, *in_file.unnamed)),
        )


def doubted_estimate(spec: RunSpec, changed: Sequence[str]) -> PresetEstimate:
    """The author's estimate, and what it does not reckon with, as it does with stages' lengths."""
    begins = spec.total.of_stage if spec.total is not None and spec.stages_in_file else ""
    unknown = [key for key in changed if not (begins and key.startswith(begins))]
    estimate = spec.estimate
    if not unknown or (estimate.seconds is None and estimate.usd is None):
        return estimate
    doubt = f"it is for the preset's own {' and '.join(unknown)}"
    return msgspec.structs.replace(estimate, doubt="; ".join(filter(None, (doubt, estimate.doubt))))


def with_wishes(
    spec: RunSpec,
    request: GpuRequest | None,
    priority: int | None,
    after: str | None,
    price: str | None,
) -> RunSpec:
    """`spec` with what its launch says of GPUs, queue and price; WrongInput for no such `after`."""
    changes: dict[str, Any] = {}
    if request is not None:
        changes["gpus"] = spec.gpus.chosen(request)
    if priority is not None:
        if problem := wrong_priority(priority):
            raise WrongInput(f"priority {priority}: {problem}")
        changes["priority"] = priority
    if after is not None:
        try:
            changes["after"] = parse_after(after)
        except ValueError as error:
            raise WrongInput(f"after: {error}") from None
    if price is not None:
        changes |= {"price": price, "price_basis": "flag"}
    return msgspec.structs.replace(spec, **changes)


_CHOICE_OF_GPUS = frozenset({"gpus", "gpus.count", "gpus.ids"})
"""The keys of an override that says how many GPUs, or which."""
_OF_DEVICES = ("gpus", "processes", "launcher", "script", "command")


def _usual_devices(values: dict[str, Any]) -> int:
    """On how many devices a preset computes before anything is changed; 0 where it does not say."""
    given = [name for name in _OF_DEVICES if values.get(name) is not None]
    declared = keys_of(RunSpec)
    try:
        keys = {name: decode(values[name], declared[name].type, (name,)) for name in given}
        if "command" in keys:  # its words may say the number by a parameter
            keys["parameters"] = _build_parameters(values.get("parameters"), {})
    except (KeyMistake, WrongInput):
        return 0  # said where all keys are decoded
    request: GpuRequest = keys.get("gpus", GpuRequest(count=1))
    if request.all or "launcher" not in keys:
        return 0
    return processes_for(RunSpec("", "", **keys), len(request.ids) or request.number)


def _name_config(values: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Take in `config=FILE` or `config.file=FILE`, its keys are parameters; the other overrides."""
    config, others = values.get("config"), []
    for text in overrides:
        key, equals, file = text.partition("=")
        if isinstance(config, dict) and equals and key.strip() in ("config", "config.file"):
            values["config"] = config = {**config, "file": file}
        else:
            others.append(text)
    return others


def _spec_of(
    path: Path,
    name: str,
    values: dict[str, Any],
    defaults: dict[str, ParameterValue],
    in_file: InFile,
) -> RunSpec:
    parameters = _build_parameters(values.pop("parameters", None), defaults, in_file)
    _check_every_placeholder(values, ())
    values = _one_shell_text(values)
    keys = decode_keys(values, RunSpec, ())
    spec = RunSpec(
        preset=path.stem, name=name or path.stem, source=str(path), parameters=parameters, **keys
    )
    if spec.launcher == "command" and "target" not in values.get("stop", {}):
        # A shell command is signalled as by Ctrl+C, a Python program by its leader alone.
        stop = msgspec.structs.replace(spec.stop, target="group")
        spec = msgspec.structs.replace(spec, stop=stop)
    check_across(spec)
    return spec


def _one_shell_text(values: dict[str, Any]) -> dict[str, Any]:
    """The values, with a command for a shell as the one word that it is."""
    if values.get("shell") is not True or "command" not in values:
        return values
    if not isinstance(values["command"], str):
        raise KeyMistake(("command",), "with shell: true the command is one text, not a list")
    return {**values, "command": [values["command"]]}


def _apply_overrides(
    values: dict[str, Any], overrides: Sequence[str], source: Diagnostics
) -> dict[str, ParameterValue]:
    """Take in every override; the former values of parameters. WrongInput names all that fail."""
    mistakes = []
    defaults: dict[str, ParameterValue] = {}
    for override in overrides:
        try:
            with source.located():
                _apply_override(values, override, defaults, source)
        except WrongInput as error:
            mistakes.append(error)
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise WrongInput("\n".join(str(error) for error in mistakes))
    return defaults


def _apply_override(
    values: dict[str, Any], override: str, defaults: dict[str, ParameterValue], source: Diagnostics
) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    flag = f"--set {override}"
    if not equals or not key:
        raise WrongInput(f"{flag}: expected KEY=…", "for example --set epochs=10")
    parameters = values.get("parameters") or {}
    name = key.removeprefix("parameters.")
    name = stand_ins(parameters).get(name, name) if isinstance(parameters, dict) else name
    if isinstance(parameters, dict) and name in parameters:
        entry = parameters[name]
        parameter = build_parameter(name, entry)
        source.flags["parameters", name] = flag
        value = parse_value(parameter, text)
        with at_key(("parameters", name)):
            with_value(parameter, value)
        long_form = entry if isinstance(entry, dict) else {}
        # Emptied by one override, it has no value any more that its type could be taken from.
        parameters[name] = {"type": parameter.type, **long_form, "value": value}
        defaults.setdefault(name, parameter.default)
        return
    path = tuple(key.split("."))
    keys = keys_of(RunSpec)
    if path[0] not in keys or path[0] == "parameters":
        raise WrongInput(
            f"{flag}: {source.path.stem} has no parameter or key "
            f"`{key}`{nearest_hint(key, [*parameters, *keys])}",
            f"its parameters: {', '.join(parameters) or 'none'}",
        )
    source.flags[path] = flag
    value = parse_scalar(text)
    if path[0] == "environment" and type(value) in (int, float):
        value = text  # as it is written, in the file too
    _set_key(values, path, keys[path[0]].type, value)


def _set_key(values: dict[str, Any], path: tuple[str, ...], kind: Any, value: Any) -> None:
    """Set a key, or one within it; a short form there, or in its place, leaves the others."""
    present = values.get(path[0])
    if path[0] == "gpus" and not isinstance(value, dict):
        path, value = _other_gpus(values, path, value)
    elif len(path) > 1:
        values[path[0]] = _in_full(present, kind)
    elif isinstance(present, dict) and not isinstance(value, dict):
        full = _in_full(value, kind)
        value = {**present, **full} if isinstance(full, dict) else value
    target = values
    for part in path[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[path[-1]] = value


def _in_full(value: Any, kind: Any) -> Any:
    """The mapping that a short form stands for, so that another key of it can be set besides."""
    structs = [member for member in key_type(kind).members if is_struct(member)]
    short = short_key(structs[0]) if structs else None
    is_short = short is not None and value is not None and not isinstance(value, dict)
    return {short.name: value} if short is not None and is_short else value


def _other_gpus(
    values: dict[str, Any], path: tuple[str, ...], value: Any
) -> tuple[tuple[str, ...], Any]:
    """Where to set what, so that another number or choice of GPUs leaves what else is said."""
    with suppress(ValueError, TypeError):  # said where it is decoded
        present = request_in_full(values.get("gpus", 1))
        given = request_in_full(value) if path == ("gpus",) else {path[1]: value}
        if given.keys() & {"count", "ids"}:
            present = {name: present[name] for name in present.keys() - {"count", "ids"}}
        if len(path) < 3:
            return ("gpus",), {**present, **given}
        values["gpus"] = present
    return path, value


def _build_parameters(
    raw: Any, defaults: dict[str, ParameterValue], in_file: InFile = _NOTHING_IN_FILE
) -> tuple[Parameter, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, dict):
        raise KeyMistake(("parameters",), "expected a mapping (NAME: VALUE)")
    found = []
    for name, entry in raw.items():
        parameter = build_parameter(name, entry)
        if isinstance(parameter.value, str):
            with at_key(("parameters", name)):
                check_placeholders(parameter.value)
        changes: dict[str, Any] = {"default": defaults.get(name, parameter.default)}
        if name in in_file.names:
            changes |= {"config_key": name, "flag": ""}
        if name in in_file.values:
            changes["in_file"] = in_file.values[name]
        found.append(msgspec.structs.replace(parameter, **changes))
    return tuple(found)


def _check_every_placeholder(value: Any, key: KeyPath) -> None:
    if isinstance(value, str):
        with at_key(key):
            check_placeholders(value)
    elif isinstance(value, dict):
        for name, child in value.items():
            _check_every_placeholder(child, (*key, name))
    elif isinstance(value, list):
        for i, child in enumerate(value):
            _check_every_placeholder(child, (*key, i))
