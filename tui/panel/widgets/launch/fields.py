"""The launch form's fields: one per parameter of a preset, and what stands in them."""

import msgspec
from textual.containers import Horizontal
from textual.widgets import Input, Label

from runners.model.errors import WrongInput
from runners.model.spec import Parameter, RunSpec
from runners.presets.parameters import parse_value, with_value
from runners.presets.placeholders import check_placeholders

_MARK = "✎ "


def make_field(parameter: Parameter) -> Horizontal:
    """Name, input and hint of one parameter."""
    limits = []
    if parameter.minimum is not None:
        limits.append(f"≥ {parameter.minimum:g}")
    if parameter.maximum is not None:
        limits.append(f"≤ {parameter.maximum:g}")
    if parameter.choices:
        limits.append(" | ".join(map(str, parameter.choices)))
    help_text = " · ".join([*([parameter.help] if parameter.help else []), *limits])
    return Horizontal(
        Label(parameter.name, classes="name"),
        Input(value=spell_value(parameter), id=f"p-{parameter.name}", compact=True),
        Label(help_text, classes="hint", markup=False),
        classes="field",
    )


def mark_field(field: Input, parameter: Parameter) -> None:
    """Show whether `field` differs from what the preset says: by a sign, and by its colour."""
    default = spell_value(msgspec.structs.replace(parameter, value=parameter.default))
    changed = field.value.strip() != default
    field.set_class(changed, "changed")
    if field.parent is not None:
        field.parent.query_one(".name", Label).update(f"{_MARK if changed else ''}{parameter.name}")


def spell_value(parameter: Parameter) -> str:
    """A parameter's value as its field shows it; null is empty."""
    value = parameter.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def with_texts(spec: RunSpec, texts: dict[str, str]) -> RunSpec:
    """`spec` with what stands in its fields; WrongInput names the parameter whose text is no value
    for it.
    """
    parameters = []
    for parameter in spec.parameters:
        text = texts.get(parameter.name)
        if text is None or text == spell_value(parameter):
            parameters.append(parameter)
            continue
        try:
            check_placeholders(text)
            parameters.append(with_value(parameter, parse_value(parameter, text or "null")))
        except ValueError as error:
            raise WrongInput(f"{parameter.name}: {error}") from None
    return msgspec.structs.replace(spec, parameters=tuple(parameters))
