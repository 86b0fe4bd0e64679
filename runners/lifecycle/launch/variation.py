"""A variation of an old run: other parameters, flags, variables, folder or checkpoints."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from runners.model.errors import WrongInput
from runners.model.parameters import with_value, with_values
from runners.model.spec import RunSpec
from runners.presets.flags import change_flag, change_flags, flag_names
from runners.presets.parameter_input import parse_scalar, parse_value


def _as_patterns(text: str) -> tuple[str, ...]:
    value = parse_scalar(text)
    return tuple(map(str, value)) if isinstance(value, list) else (text,)


CHANGEABLE: dict[str, Callable[[str], Any]] = {
    "working_directory": str,
    "checkpoints": _as_patterns,
}
"""What may be changed besides parameters and flags, and how its text is read."""
_VARIABLE = "environment."


def takes_one_value(key: str) -> bool:
    """Whether commas and ranges in what a key is changed to are a part of it, never a sweep."""
    return key in CHANGEABLE or key.startswith(_VARIABLE)


def varied(spec: RunSpec, overrides: Sequence[str], name: str = "") -> RunSpec:
    """`spec` of an old run changed by `NAME=VALUE`, renamed if asked; WrongInput if unknown."""
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.removeprefix("parameters.")
        if equals and key in CHANGEABLE:
            spec = msgspec.structs.replace(spec, **{key: CHANGEABLE[key](text)})
        elif equals and key.startswith(_VARIABLE):
            spec = _with_variable(spec, key.removeprefix(_VARIABLE), text)
        elif parameter := next((known for known in spec.parameters if known.name == key), None):
            try:
                changes[key] = with_value(parameter, parse_value(parameter, text)).value
            except ValueError as error:
                raise WrongInput(f"--set {override}: {error}") from None
        elif changed := _with_flag(spec, key, text) if equals else None:
            spec = changed
        else:
            raise WrongInput(
                f"--set {override}: --again changes parameters and flags as NAME=VALUE",
                _changeable(spec),
            )
    return msgspec.structs.replace(with_values(spec, changes), name=name or spec.name)


def _with_variable(spec: RunSpec, name: str, text: str) -> RunSpec:
    """With another value of a variable, in quotes or not, as a preset's may be."""
    value = parse_scalar(text)
    value = value if isinstance(value, str) else text
    return msgspec.structs.replace(spec, environment={**spec.environment, name: value})


def with_flags(spec: RunSpec, flags: Sequence[str]) -> RunSpec:
    """`spec` with `flags` in place of its command's own, or added; WrongInput for other words."""
    try:
        return _with_arguments(
            spec, change_flags(_program_arguments(spec), [_literal(word) for word in flags])
        )
    except ValueError as error:
        raise WrongInput(
            f"after `--` of --again: {error}", "fresnel-tui launch --again RUN -- --lr 1e-4"
        ) from None


def _with_flag(spec: RunSpec, name: str, value: str) -> RunSpec | None:
    changed = change_flag(_program_arguments(spec), name, _literal(value))
    return None if changed is None else _with_arguments(spec, changed)


def _program_arguments(spec: RunSpec) -> tuple[str, ...]:
    """The command, or the program and its arguments: the first word is never a flag."""
    return spec.command or (spec.script or spec.module, *spec.arguments)


def _with_arguments(spec: RunSpec, arguments: Sequence[str]) -> RunSpec:
    if spec.command:
        return msgspec.structs.replace(spec, command=tuple(arguments))
    return msgspec.structs.replace(spec, arguments=tuple(arguments[1:]))


def _literal(word: str) -> str:
    return word.replace("${", "$${")


def _changeable(spec: RunSpec) -> str:
    names = dict.fromkeys(
        [*(parameter.name for parameter in spec.parameters), *flag_names(_program_arguments(spec))]
    )
    shown = ", ".join([*names, *CHANGEABLE, "environment.NAME"])
    return f"those of this run: {shown}; others: -- --flag value"
