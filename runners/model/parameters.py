"""Values of a run's parameters: checked against their type and range, and as command-line words."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from runners.model.spec import Parameter, ParameterValue, RunSpec

_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list",
}
ENDLESS = ("inf", "-inf", "nan")
"""Numbers that JSON does not know, as a parameter has them."""
_LARGEST = 10**100


def leaf_of(name: str) -> str:
    """The last part of a setting's name in one spelling: `train.batch-size` as `batch_size`."""
    return name.rpartition(".")[2].lower().replace("-", "_")


def keepable(value: Any) -> Any:
    """`value` as JSON keeps it, which has no number without end and none that is no number: texts.

    A list's items alike.
    """
    if isinstance(value, list):
        return [keepable(item) for item in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def with_value(parameter: Parameter, value: ParameterValue) -> Parameter:
    """The same parameter with another value; ValueError when type, range or choices forbid it."""
    return msgspec.structs.replace(parameter, value=_check(parameter, value))


def with_values(spec: RunSpec, values: Mapping[str, ParameterValue]) -> RunSpec:
    """`spec` with other parameter values; ValueError when type, range or choices forbid one."""
    parameters = tuple(
        with_value(parameter, values[parameter.name]) if parameter.name in values else parameter
        for parameter in spec.parameters
    )
    return msgspec.structs.replace(spec, parameters=parameters)


def arguments_of(parameter: Parameter) -> list[str]:
    """Its command-line words: nothing for null and false, the bare flag for true."""
    value, flag = parameter.value, parameter.flag
    if value is None or value is False or value == []:
        return []
    if value is True:
        return [flag] if flag else []
    values = [format_value(item) for item in (value if isinstance(value, list) else [value])]
    return flagged(flag, *values)


def flagged(flag: str, *values: str) -> list[str]:
    """The words that give a flag its values: the one of `flag=` has them in it."""
    if flag.endswith("="):
        return [flag + ",".join(values)]
    return [flag, *values] if flag else [*values]


def format_value(value: bool | int | float | str) -> str:
    """A value as a program expects it on its command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def type_of(value: object) -> str:
    """The name of a value's type as presets have it: bool, int, float, list or str."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float, list)):
        return type(value).__name__
    return "str"


def _check(parameter: Parameter, value: ParameterValue) -> ParameterValue:
    if value is None:
        return None
    actual = type_of(value)
    if actual == "int" and abs(value) > _LARGEST:  # type: ignore[arg-type]
        raise ValueError("expected a number that a program can reckon with")
    if parameter.type == "float" and (actual == "int" or value in ENDLESS):
        value = float(value)  # type: ignore[arg-type]
    elif parameter.type == "str" and actual in ("int", "float"):
        value = str(value)
    elif parameter.type != actual:
        raise ValueError(f"expected {_TYPE_NAMES[parameter.type]}, got {value!r}")
    if parameter.choices and keepable(value) not in parameter.choices:
        raise ValueError(f"expected one of {', '.join(map(str, parameter.choices))}, got {value!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if parameter.minimum is not None and value < parameter.minimum:
            raise ValueError(f"expected at least {parameter.minimum:g}, got {value!r}")
        if parameter.maximum is not None and value > parameter.maximum:
            raise ValueError(f"expected at most {parameter.maximum:g}, got {value!r}")
    return keepable(value)  # type: ignore[no-any-return]
