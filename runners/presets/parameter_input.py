"""Parameters of a preset, from its YAML or typed by a person."""

import re
from typing import Any

from runners.model.parameters import keepable, type_of, with_value
from runners.model.spec import Parameter, ParameterValue
from runners.presets.reading.typed import KeyMistake, at_key, decode_keys

_NUMBERS = {"value", "choices", "minimum", "maximum"}
"""What may be any number, also one without end."""


def build_parameter(name: str, entry: Any) -> Parameter:
    """The parameter of one entry of a preset: its long form, or a value alone."""
    key = ("parameters", name)
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        raise KeyMistake(
            key, f"a parameter's name has letters, digits, `-`, `_` and `.`, got {name!r}"
        )
    long_form = dict(entry) if isinstance(entry, dict) else {"value": entry}
    taken = {"type": type_of(long_form.get("value")), "flag": f"--{name}"}
    long_form |= {part: keepable(long_form[part]) for part in long_form.keys() & _NUMBERS}
    for bound in ("minimum", "maximum"):
        if long_form.get(bound) in ("inf", "-inf"):
            del long_form[bound]
    given = decode_keys(long_form, Parameter, key)
    value = given.pop("value", None)
    bare = Parameter(**{"name": name, "default": value, **taken, **given})
    if bare.minimum is not None and bare.maximum is not None and bare.minimum > bare.maximum:
        raise KeyMistake(key, f"minimum {bare.minimum:g} is above maximum {bare.maximum:g}")
    with at_key(key):
        return with_value(bare, value)


def parse_value(parameter: Parameter, text: str) -> ParameterValue:
    """A value typed by a person for `parameter`, as YAML reads it; text is taken as it stands."""
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
    import yaml  # few commands need any

    from runners.presets.reading.yaml_lines import CoreLoader

    try:
        return yaml.load(text, CoreLoader)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        return text
