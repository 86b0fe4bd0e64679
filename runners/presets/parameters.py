"""Parameters of a preset: typed, checked, and turned into command-line arguments."""

import re
from typing import Any

import yaml
from msgspec import UNSET

from runners.model.spec import Parameter, ParameterValue
from runners.presets.reading.yaml_lines import CoreLoader
from runners.presets.schema_program import ParameterKeys

_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list",
}


def build_parameter(name: str, keys: ParameterKeys | ParameterValue) -> Parameter:
    """A checked Parameter from its long or short form; ValueError says what is wrong."""
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        raise ValueError(f"a parameter's name has letters, digits, `-`, `_` and `.`, got {name!r}")
    if not isinstance(keys, ParameterKeys):
        keys = ParameterKeys(value=keys)
    kind = _type_of(keys.value) if keys.type is UNSET else keys.type
    flag = f"--{name}" if keys.flag is UNSET else keys.flag
    if keys.minimum is not None and keys.maximum is not None and keys.minimum > keys.maximum:
        raise ValueError(f"minimum {keys.minimum:g} is above maximum {keys.maximum:g}")
    parameter = Parameter(
        name=name,
        value=None,
        default=keys.value,
        type=kind,  # type: ignore[arg-type]
        flag=flag,
        minimum=keys.minimum,
        maximum=keys.maximum,
        choices=tuple(keys.choices),
        help=keys.help,
    )
    return with_value(parameter, keys.value)


def with_value(parameter: Parameter, value: ParameterValue) -> Parameter:
    """The same parameter with another value; ValueError when type, range or choices forbid it."""
    fields = {name: getattr(parameter, name) for name in parameter.__struct_fields__}
    fields["value"] = _check(parameter, value)
    return Parameter(**fields)


def parse_value(parameter: Parameter, text: str) -> ParameterValue:
    """A value typed by a person for `parameter`, in YAML's spelling; text parameters take it as it
    stands.
    """
    if parameter.type == "str":
        return None if text in ("null", "~") else text
    value: ParameterValue = parse_scalar(text)
    if parameter.type == "list" and not isinstance(value, list):
        return [
            part for part in (parse_scalar(part) for part in text.split(",")) if part is not None
        ]
    return value


def parse_scalar(text: str) -> Any:
    """A YAML value from one line of text; the text itself when it is not YAML."""
    try:
        return yaml.load(text, CoreLoader)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        return text


def arguments_of(parameter: Parameter) -> list[str]:
    """The command-line words for one parameter: nothing for null and false, the bare flag for
    true.
    """
    value = parameter.value
    if value is None or value is False:
        return []
    if value is True:
        return [parameter.flag] if parameter.flag else []
    values = (
        [format_value(item) for item in value] if isinstance(value, list) else [format_value(value)]
    )
    if not values:
        return []
    if parameter.flag.endswith("="):
        return [parameter.flag + ",".join(values)]
    return ([parameter.flag] if parameter.flag else []) + values


def format_value(value: bool | int | float | str) -> str:
    """A value as a program expects it on its command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    return "list" if isinstance(value, list) else "str"


def _check(parameter: Parameter, value: ParameterValue) -> ParameterValue:
    if value is None:
        return None
    actual = _type_of(value)
    if parameter.type == "float" and actual == "int":
        value = float(value)  # type: ignore[arg-type]
    elif parameter.type == "str" and actual in ("int", "float"):
        value = str(value)
    elif parameter.type != actual:
        raise ValueError(f"expected {_TYPE_WORDS[parameter.type]}, got {value!r}")
    if parameter.choices and value not in parameter.choices:
        raise ValueError(f"expected one of {', '.join(map(str, parameter.choices))}, got {value!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if parameter.minimum is not None and value < parameter.minimum:
            raise ValueError(f"expected at least {parameter.minimum:g}, got {value!r}")
        if parameter.maximum is not None and value > parameter.maximum:
            raise ValueError(f"expected at most {parameter.maximum:g}, got {value!r}")
    return value
