"""YAML → RunSpec: one preset file read, overridden, checked and frozen; one clear error per mistake."""

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from runners.model.errors import WrongInput
from runners.model.spec import (
    After,
    Estimate,
    GpuRequest,
    Limits,
    Parameter,
    ParameterValue,
    RestartRule,
    RunSpec,
    StopRule,
)
from runners.presets.parameters import build_parameter, parse_scalar, parse_value, with_value
from runners.presets.schema import (
    AfterKeys,
    EstimateKeys,
    GpuKeys,
    LimitKeys,
    ParameterKeys,
    PresetKeys,
    RestartKeys,
    ShareKeys,
    StopKeys,
)
from runners.presets.units import build_stop_rule, parse_duration, parse_gpu_ids, parse_gpu_request, parse_size
from runners.presets.words import check_words
from runners.presets.yaml_source import Lines, read_yaml

T = TypeVar("T")

_ENTRY: Any = ParameterKeys | bool | int | float | str | list[bool | int | float | str] | None
_READABLE = {
    "`object`": "a mapping (key: value)",
    "`array`": "a list",
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`null`": "nothing",
}


class _Source:
    """Where values come from, so that an error can name file, line and key."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self.path = path
        self.lines = lines
        self.flags: dict[tuple[str | int, ...], str] = {}
        self.defaults: dict[str, ParameterValue] = {}  # of parameters that were overridden

    def error(self, key: tuple[str | int, ...], message: str) -> WrongInput:
        """A WrongInput for the value at `key`."""
        for end in range(len(key), -1, -1):
            if key[:end] in self.flags:
                return WrongInput(f"{self.flags[key[:end]]}: {message}")
            if key[:end] in self.lines:
                name = ".".join(str(part) for part in key)
                place = f"{self.path}:{self.lines[key[:end]]}"
                return WrongInput(f"{place}: {name}: {message}" if name else f"{place}: {message}")
        return WrongInput(": ".join([str(self.path), *([".".join(map(str, key))] if key else []), message]))

    def attempt(self, key: tuple[str | int, ...], make: Callable[[], T]) -> T:
        """The result of `make()`, its ValueError turned into an error at `key`."""
        try:
            return make()
        except ValueError as error:
            raise self.error(key, str(error)) from None


def load_preset(path: Path, overrides: Sequence[str] = (), name: str = "") -> RunSpec:
    """The RunSpec of the preset file at `path` with `KEY=VALUE` overrides; WrongInput names what is wrong."""
    values, lines = read_yaml(path)
    source = _Source(path, lines)
    if not isinstance(values, dict):
        raise source.error((), "expected a mapping with at least the key `launcher`")
    return _spec_of(path, name, values, overrides, source)


def command_spec(command: Sequence[str], overrides: Sequence[str] = (), name: str = "") -> RunSpec:
    """The RunSpec of a command without a preset; its words are taken as they stand, `${` included."""
    if not command:
        raise WrongInput("no command after --", "for example: fresnel-tui launch -- python train.py")
    literal = [word.replace("${", "$${") for word in command]
    label = re.sub(r"\.[A-Za-z]+$", "", Path(_telling_word(command)).name)
    source = _Source(Path(label or "command"), {})
    values = {"launcher": "command", "command": literal, "working_directory": "${working_directory}"}
    spec = _spec_of(source.path, name or label, values, overrides, source)
    return msgspec.structs.replace(spec, preset="command", source="")


def _telling_word(command: Sequence[str]) -> str:
    # `python -m pkg.train` and `bash run.sh` are told apart by what they run, not by what runs it.
    if Path(command[0]).name.startswith(("python", "bash", "sh")):
        for word in command[1:]:
            if not word.startswith("-") and len(word) < 60 and " " not in word:
                return word
    return command[0]


def _spec_of(path: Path, name: str, values: dict[str, Any], overrides: Sequence[str], source: _Source) -> RunSpec:
    for override in overrides:
        _apply_override(values, override, source)
    parameters = _build_parameters(values.pop("parameters", None), source)
    _check_environment(values.get("environment"), source)
    keys = _convert(values, PresetKeys, (), source)
    _check_what_runs(keys, source)
    _check_words_everywhere(values, (), source)
    return _build_spec(path, name, keys, parameters, source)


def _build_spec(path: Path, name: str, keys: PresetKeys, parameters: tuple[Parameter, ...], source: _Source) -> RunSpec:
    return RunSpec(
        preset=path.stem,
        name=name or path.stem,
        launcher=keys.launcher,
        source=str(path),
        description=keys.description,
        interpreter=keys.interpreter,
        script=keys.script,
        module=keys.module,
        command=_build_command(keys, source),
        shell=keys.shell,
        arguments=tuple(str(word) for word in keys.arguments),
        launcher_arguments=tuple(str(word) for word in keys.launcher_arguments),
        parameters=parameters,
        working_directory=keys.working_directory,
        environment={name: _as_text(value) for name, value in keys.environment.items()},
        gpus=_build_gpus(keys.gpus, source),
        processes=keys.processes,
        terminal=keys.terminal,
        stop=_build_stop(keys.stop, source),
        checkpoints=tuple([keys.checkpoints] if isinstance(keys.checkpoints, str) else keys.checkpoints),
        price=None if keys.price is None else str(keys.price),
        estimate=_build_estimate(keys.estimate, source),
        priority=keys.priority,
        after=_build_after(keys.after),
        restart=_build_restart(keys.restart, source),
        limits=_build_limits(keys.limits, source),
    )


def _apply_override(values: dict[str, Any], override: str, source: _Source) -> None:
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
            {**entry, "value": value} if isinstance(entry, dict) else {"value": value, "type": parameter.type}
        )
        source.defaults[name] = parameter.default
        return
    path = tuple(key.split("."))
    fields = PresetKeys.__struct_fields__
    if path[0] not in fields or path[0] == "parameters":
        raise WrongInput(
            f"{flag}: {source.path.stem} has no parameter or key `{key}`{_nearest(key, [*parameters, *fields])}",
            f"its parameters: {', '.join(parameters) or 'none'}",
        )
    source.flags[path] = flag
    target = values
    for part in path[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[path[-1]] = parse_scalar(text)


def _build_parameters(raw: Any, source: _Source) -> tuple[Parameter, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, dict):
        raise source.error(("parameters",), "expected a mapping (NAME: VALUE)")
    return tuple(_build_parameter(name, entry, source) for name, entry in raw.items())


def _build_parameter(name: str, raw: Any, source: _Source) -> Parameter:
    key = ("parameters", name)
    entry = _convert(raw, _ENTRY, key, source)
    if isinstance(raw, dict):
        # A mapping matches no scalar, so this is the long form.
        entry = _convert(raw, ParameterKeys, key, source)
    parameter = source.attempt(key, lambda: build_parameter(name, entry))
    if isinstance(parameter.value, str):
        text = parameter.value
        source.attempt(key, lambda: check_words(text))
    return msgspec.structs.replace(parameter, default=source.defaults.get(name, parameter.default))


def _check_environment(raw: Any, source: _Source) -> None:
    if not isinstance(raw, dict):
        return
    for name, value in raw.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise source.error(("environment", name), "a variable's name has letters, digits and _")
        if not isinstance(value, (str, int, float, bool)):
            raise source.error(("environment", name), f"expected text or a number, got {_word(value)}")


def _check_what_runs(keys: PresetKeys, source: _Source) -> None:
    if keys.launcher == "command":
        if not keys.command:
            raise source.error((), "launcher command needs the key `command`")
        for key in ("script", "module"):
            if getattr(keys, key):
                raise source.error((key,), "launcher command runs `command`; remove this key")
    else:
        if keys.command or keys.shell:
            key = "command" if keys.command else "shell"
            raise source.error((key,), f"launcher {keys.launcher} runs `script` or `module`; remove this key")
        if bool(keys.script) == bool(keys.module):
            wrong = "not both" if keys.script else "one of them is missing"
            raise source.error((), f"launcher {keys.launcher} needs `script` or `module`: {wrong}")
    if keys.launcher_arguments and keys.launcher not in ("torchrun", "accelerate"):
        raise source.error(("launcher_arguments",), "only torchrun and accelerate take launcher arguments")
    if keys.processes is not None and keys.launcher not in ("torchrun", "accelerate"):
        raise source.error(("processes",), "only torchrun and accelerate start several processes")


def _check_words_everywhere(value: Any, key: tuple[str | int, ...], source: _Source) -> None:
    if isinstance(value, str):
        source.attempt(key, lambda: check_words(value))
    elif isinstance(value, dict):
        for name, child in value.items():
            _check_words_everywhere(child, (*key, name), source)
    elif isinstance(value, list):
        for i, child in enumerate(value):
            _check_words_everywhere(child, (*key, i), source)


def _build_command(keys: PresetKeys, source: _Source) -> tuple[str, ...]:
    if keys.shell and not isinstance(keys.command, str):
        raise source.error(("command",), "with shell: true the command is one text, not a list")
    if isinstance(keys.command, list):
        return tuple(keys.command)
    if keys.shell:
        return (keys.command,)
    text = keys.command
    return tuple(source.attempt(("command",), lambda: shlex.split(text)))


def _build_gpus(keys: int | str | GpuKeys, source: _Source) -> GpuRequest:
    if not isinstance(keys, GpuKeys):
        if isinstance(keys, int) and keys < 0:
            raise source.error(("gpus",), f"expected 0 or more GPUs, got {keys}")
        return source.attempt(("gpus",), lambda: parse_gpu_request(keys))
    if keys.ids != [] and keys.count != 0:
        raise source.error(("gpus",), "give count or ids, not both")
    ids = source.attempt(("gpus", "ids"), lambda: parse_gpu_ids(keys.ids)) if keys.ids != [] else ()
    share = keys.share.memory if keys.share is not None else None
    return GpuRequest(
        count=keys.count if isinstance(keys.count, int) else 0,
        all=keys.count == "all",
        ids=ids,
        required=keys.required,
        memory=_size(keys.memory, ("gpus", "memory"), source),
        model=keys.model,
        share_memory=_size(share, ("gpus", "share", "memory"), source),
        foreign=keys.foreign,
    )


def _size(value: str | int | None, key: tuple[str | int, ...], source: _Source) -> int | None:
    return None if value is None else source.attempt(key, lambda: parse_size(value))


def _build_after(keys: str | AfterKeys | None) -> After | None:
    if keys is None:
        return None
    return After(keys) if isinstance(keys, str) else After(keys.run, keys.on)


def _build_restart(keys: int | RestartKeys, source: _Source) -> RestartRule:
    if isinstance(keys, int):
        if keys < 0:
            raise source.error(("restart",), f"expected 0 or more, got {keys}")
        return RestartRule(keys)
    backoff = source.attempt(("restart", "backoff"), lambda: parse_duration(keys.backoff))
    return RestartRule(keys.times, backoff, tuple(keys.arguments))


def _build_limits(keys: LimitKeys, source: _Source) -> Limits:
    seconds = None
    if keys.time is not None:
        seconds = source.attempt(("limits", "time"), lambda: parse_duration(keys.time or 0))
    return Limits(seconds, _dollars(keys.cost, ("limits", "cost"), source))


def _build_stop(keys: StopKeys, source: _Source) -> StopRule:
    return source.attempt(("stop", "ladder"), lambda: build_stop_rule(keys.ladder, keys.target))


def _build_estimate(keys: EstimateKeys, source: _Source) -> Estimate:
    seconds = None
    if keys.time is not None:
        seconds = source.attempt(("estimate", "time"), lambda: parse_duration(keys.time or 0))
    return Estimate(seconds, _dollars(keys.cost, ("estimate", "cost"), source))


def _dollars(value: str | float | int | None, key: tuple[str | int, ...], source: _Source) -> str | None:
    if value is not None and not re.fullmatch(r"\d+(\.\d+)?", str(value)):
        raise source.error(key, f"expected US dollars such as 0.17, got {value!r}")
    return None if value is None else str(value)


def _convert(value: Any, kind: Any, key: tuple[str | int, ...], source: _Source) -> Any:
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        key = (*key, *_parse_place(place.rstrip("`")))
        raise source.error(*_explain(message, key, value if not key else None)) from None


def _explain(message: str, key: tuple[str | int, ...], value: Any) -> tuple[tuple[str | int, ...], str]:
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
    if unknown:
        fields = _fields_at(key)
        hint = _nearest(unknown[1], fields) or f"; the keys here are {', '.join(fields)}"
        return (*key, unknown[1]), f"unknown key{hint}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", message)
    if missing:
        return key, f"the key `{missing[1]}` is missing (python, torchrun, accelerate or command)"
    for word, readable in _READABLE.items():
        message = message.replace(word, readable)
    message = re.sub(r"`([^`]*)`", lambda m: _readable_union(m[1]), message)
    if "Invalid enum value" in message:
        value_text = message.removeprefix("Invalid enum value ").strip("'`")
        choices = _choices_at(key)
        message = f"expected one of {', '.join(choices)}, got {value_text!r}{_nearest(value_text, choices)}"
    return key, message[:1].lower() + message[1:]


def _readable_union(union: str) -> str:
    words = [_READABLE.get(f"`{word.strip()}`", word.strip()) for word in union.split("|")]
    return " or ".join(words)


def _fields_at(key: tuple[str | int, ...]) -> list[str]:
    kinds = {
        "gpus": GpuKeys,
        "stop": StopKeys,
        "estimate": EstimateKeys,
        "parameters": ParameterKeys,
        "after": AfterKeys,
        "restart": RestartKeys,
        "limits": LimitKeys,
    }
    kind: Any = kinds.get(str(key[0]), PresetKeys) if key else PresetKeys
    if key[:2] == ("gpus", "share"):
        kind = ShareKeys
    return list(kind.__struct_fields__)


def _choices_at(key: tuple[str | int, ...]) -> list[str]:
    if key and key[-1] == "launcher":
        return ["python", "torchrun", "accelerate", "command"]
    if key and key[-1] == "on":
        return ["success", "failure", "any"]
    if key and key[-1] == "target":
        return ["leader", "group", "workers"]
    if key and key[-1] == "type":
        return ["int", "float", "str", "bool", "list"]
    return ["all, or a whole number"]


def _parse_place(place: str) -> tuple[str | int, ...]:
    parts = re.findall(r"\.([\w-]+)|\[(\d+)\]", place)
    return tuple(name if name else int(index) for name, index in parts)


def _nearest(word: str, words: list[str]) -> str:
    close = difflib.get_close_matches(word, words, 1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def _word(value: object) -> str:
    return "nothing" if value is None else "a list" if isinstance(value, list) else "a mapping"


def _as_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
