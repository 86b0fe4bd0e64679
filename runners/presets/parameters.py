"""Parameters of a preset, from its YAML or typed by a person."""

import re
from typing import Any

import yaml
from msgspec import UNSET

from runners.model.parameters import type_of, with_value
from runners.model.spec import Parameter, ParameterValue
from runners.presets.reading.yaml_lines import CoreLoader
from runners.presets.schema_program import ParameterKeys


def build_parameter(name: str, keys: ParameterKeys | ParameterValue) -> Parameter:
    """A checked Parameter from its long or short form; ValueError says what is wrong."""
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        raise ValueError(f"a parameter's name has letters, digits, `-`, `_` and `.`, got {name!r}")
    if not isinstance(keys, ParameterKeys):
        keys = ParameterKeys(value=keys)
    kind = type_of(keys.value) if keys.type is UNSET else keys.type
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
