"""YAML → RunSpec: one preset file read, overridden, checked and frozen; one clear error per
mistake.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runners.model.errors import WrongInput
from runners.model.parameters import with_value
from runners.model.placeholders import check_placeholders
from runners.model.spec import ConfigFile, Needs, Parameter, RunSpec
from runners.presets.build import (
    as_text,
    build_after,
    build_command,
    build_estimate,
    build_gpus,
    build_limits,
    build_metrics,
    build_output_limit,
    build_restart,
    build_resume,
    build_retention,
    build_scaling,
    build_stall,
    build_stop,
    build_total,
)
from runners.presets.config_parameters import config_parameters
from runners.presets.declared_checks import build_checks, build_verify
from runners.presets.expectations import build_expectation
from runners.presets.parameters import build_parameter, parse_scalar, parse_value
from runners.presets.reading.diagnostics import Diagnostics, nearest
from runners.presets.reading.yaml_lines import read_yaml
from runners.presets.renamed_keys import known_key, rename_keys
from runners.presets.schema import PresetKeys
from runners.presets.schema_program import ParameterKeys

_ENTRY: Any = ParameterKeys | bool | int | float | str | list[bool | int | float | str] | None


def load_preset(path: Path, overrides: Sequence[str] = (), name: str = "") -> RunSpec:
    """The RunSpec of the preset file at `path` with `KEY=VALUE` overrides; WrongInput names what
    is wrong.
    """
    values, source = open_preset(path)
    return spec_of(path, name, values, overrides, source)


def open_preset(path: Path) -> tuple[dict[str, Any], Diagnostics]:
    """The keys of a preset file and where they stand; WrongInput when it is no mapping."""
    values, lines = read_yaml(path)
    source = Diagnostics(path, lines)
    if not isinstance(values, dict):
        raise source.error((), "expected a mapping with at least the key `launcher`")
    return values, source


def command_spec(command: Sequence[str], overrides: Sequence[str] = (), name: str = "") -> RunSpec:
    """The RunSpec of a command without a preset; its words are taken as they stand, `${`
    included.
    """
    if not command:
        raise WrongInput(
            "no command after --", "for example: fresnel-tui launch -- python train.py"
        )
    literal = [word.replace("${", "$${") for word in command]
    label = re.sub(r"\.[A-Za-z]+$", "", Path(_telling_word(command)).name)
    label = "".join(char for char in label if char.isprintable())
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


def _telling_word(command: Sequence[str]) -> str:
    # `python -m pkg.train` and `bash run.sh` are told apart by what they run, not by what runs it.
    if Path(command[0]).name.startswith(("python", "bash", "sh")):
        for word in command[1:]:
            if not word.startswith("-") and len(word) < 60 and " " not in word:
                return word
    return command[0]


def spec_of(
    path: Path, name: str, values: dict[str, Any], overrides: Sequence[str], source: Diagnostics
) -> RunSpec:
    """The RunSpec of a preset's keys after `KEY=VALUE` overrides."""
    warnings = rename_keys(values, source.lines)
    in_file = config_parameters(values, path, source)
    _apply_overrides(values, overrides, source)
    warnings += rename_keys(values, source.lines)  # an override may use an old name too
    parameters = _build_parameters(values.pop("parameters", None), source)
    parameters = tuple(
        msgspec.structs.replace(one, config_key=one.name, flag="") if one.name in in_file else one
        for one in parameters
    )
    _check_environment(values.get("environment"), source)
    keys = source.convert(values, PresetKeys, ())
    _check_what_runs(keys, source)
    _check_words_everywhere(values, (), source)
    spec = _build_spec(path, name, keys, parameters, source)
    return msgspec.structs.replace(spec, warnings=warnings)


def _build_spec(
    path: Path, name: str, keys: PresetKeys, parameters: tuple[Parameter, ...], source: Diagnostics
) -> RunSpec:
    return RunSpec(
        preset=path.stem,
        name=name or path.stem,
        launcher=keys.launcher,
        source=str(path),
        description=keys.description,
        interpreter=keys.interpreter,
        script=keys.script,
        module=keys.module,
        command=build_command(keys, source),
        shell=keys.shell,
        arguments=tuple(str(word) for word in keys.arguments),
        launcher_arguments=tuple(str(word) for word in keys.launcher_arguments),
        parameters=parameters,
        working_directory=keys.working_directory,
        environment={name: as_text(value) for name, value in keys.environment.items()},
        gpus=build_gpus(keys.gpus, source),
        processes=keys.processes,
        terminal=keys.tty,
        stop=build_stop(keys.stop, keys.launcher, source),
        checkpoints=tuple(
            [keys.checkpoints] if isinstance(keys.checkpoints, str) else keys.checkpoints
        ),
        price=None if keys.price is None else str(keys.price),
        estimate=build_estimate(keys.estimate, source),
        scaling=build_scaling(keys.scaling, parameters, source),
        priority=keys.priority,
        after=build_after(keys.after),
        restart=build_restart(keys.restart, source),
        limits=build_limits(keys.limits, source),
        output_limit=build_output_limit(keys.output_limit, source),
        metrics=build_metrics(keys.metrics, source),
        resume=build_resume(keys.resume, parameters, source),
        config=None if keys.config is None else ConfigFile(keys.config.file, keys.config.flag),
        total=build_total(keys.total, parameters, source),
        expect=build_expectation(keys.expect, source),
        keep=build_retention(keys.keep),
        needs=Needs(tuple(keys.needs.packages), keys.needs.install),
        checks=build_checks(keys.checks, parameters, source),
        verify=build_verify(keys.verify),
        on_stall=build_stall(keys.on_stall, source),
        node_hosts=tuple(keys.nodes.hosts) if keys.nodes else (),
        node_port=keys.nodes.port if keys.nodes else 29500,
    )


def _apply_overrides(values: dict[str, Any], overrides: Sequence[str], source: Diagnostics) -> None:
    """Take in every override; WrongInput names all that cannot be."""
    mistakes = []
    for override in overrides:
        try:
            _apply_override(values, override, source)
        except WrongInput as error:
            mistakes.append(error)
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise WrongInput("\n".join(str(error) for error in mistakes))


def _apply_override(values: dict[str, Any], override: str, source: Diagnostics) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    flag = f"--set {override}"
    if not equals or not key:
        raise WrongInput(f"{flag}: expected KEY=VALUE", "for example --set epochs=10")
    parameters = values.get("parameters") or {}
    name = key.removeprefix("parameters.")
    if isinstance(parameters, dict) and name in parameters:
        entry = parameters[name]
        parameter = _build_parameter(name, entry, source)
        source.flags["parameters", name] = flag
        value = parse_value(parameter, text)
        source.attempt(("parameters", name), lambda: with_value(parameter, value))
        parameters[name] = (
            {**entry, "value": value}
            if isinstance(entry, dict)
            else {"value": value, "type": parameter.type}
        )
        source.defaults[name] = parameter.default
        return
    path = known_key(tuple(key.split(".")))
    fields = PresetKeys.__struct_fields__
    if path[0] not in fields or path[0] == "parameters":
        raise WrongInput(
            f"{flag}: {source.path.stem} has no parameter or key "
            f"`{key}`{nearest(key, [*parameters, *fields])}",
            f"its parameters: {', '.join(parameters) or 'none'}",
        )
    source.flags[path] = flag
    target = values
    for part in path[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[path[-1]] = parse_scalar(text)


def _build_parameters(raw: Any, source: Diagnostics) -> tuple[Parameter, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, dict):
        raise source.error(("parameters",), "expected a mapping (NAME: VALUE)")
    return tuple(_build_parameter(name, entry, source) for name, entry in raw.items())


def _build_parameter(name: str, raw: Any, source: Diagnostics) -> Parameter:
    key = ("parameters", name)
    entry = source.convert(raw, _ENTRY, key)
    if isinstance(raw, dict):
        # A mapping matches no scalar, so this is the long form.
        entry = source.convert(raw, ParameterKeys, key)
    parameter = source.attempt(key, lambda: build_parameter(name, entry))
    if isinstance(parameter.value, str):
        text = parameter.value
        source.attempt(key, lambda: check_placeholders(text))
    return msgspec.structs.replace(parameter, default=source.defaults.get(name, parameter.default))


def _check_environment(raw: Any, source: Diagnostics) -> None:
    if not isinstance(raw, dict):
        return
    for name, value in raw.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise source.error(("environment", name), "a variable's name has letters, digits and _")
        if not isinstance(value, (str, int, float, bool)):
            found = (
                "nothing" if value is None else "a list" if isinstance(value, list) else "a mapping"
            )
            raise source.error(("environment", name), f"expected text or a number, got {found}")


def _check_what_runs(keys: PresetKeys, source: Diagnostics) -> None:
    if keys.launcher == "command":
        if not keys.command:
            raise source.error((), "launcher command needs the key `command`")
        for key in ("script", "module"):
            if getattr(keys, key):
                raise source.error((key,), "launcher command runs `command`; remove this key")
    else:
        if keys.command or keys.shell:
            key = "command" if keys.command else "shell"
            raise source.error(
                (key,), f"launcher {keys.launcher} runs `script` or `module`; remove this key"
            )
        if bool(keys.script) == bool(keys.module):
            wrong = "not both" if keys.script else "one of them is missing"
            raise source.error((), f"launcher {keys.launcher} needs `script` or `module`: {wrong}")
    if keys.launcher_arguments and keys.launcher not in ("torchrun", "accelerate"):
        raise source.error(
            ("launcher_arguments",), "only torchrun and accelerate take launcher arguments"
        )
    if keys.processes is not None and keys.launcher not in ("torchrun", "accelerate"):
        raise source.error(("processes",), "only torchrun and accelerate start several processes")


def _check_words_everywhere(value: Any, key: tuple[str | int, ...], source: Diagnostics) -> None:
    if isinstance(value, str):
        source.attempt(key, lambda: check_placeholders(value))
    elif isinstance(value, dict):
        for name, child in value.items():
            _check_words_everywhere(child, (*key, name), source)
    elif isinstance(value, list):
        for i, child in enumerate(value):
            _check_words_everywhere(child, (*key, i), source)
