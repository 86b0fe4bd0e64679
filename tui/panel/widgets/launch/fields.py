"""The launch form's fields: one per parameter of a preset, and what stands in them."""

import msgspec
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Label

from runners.model.errors import WrongInput
from runners.model.masking import is_secret_name, mask_text
from runners.model.parameters import with_value
from runners.model.placeholders import check_placeholders
from runners.model.spec import Parameter, ParameterValue, RunSpec
from runners.presets.parameter_input import parse_value
from tui.panel.widgets.launch.command_input import CommandInput

_MARK = "✎ "
_SHORT = 14
"""Cells that a number takes at most."""


class FormField(Horizontal):
    """A name, something to type in, and a hint. `key` says what it stands for.

    What stands in a field that `hides` is shown as dots.
    """

    hides = False

    def __init__(
        self, key: str, name: str, value: str, hint: str = "", empty: str = "", wide: bool = False
    ) -> None:
        super().__init__(classes="field wide" if wide else "field")
        self.key = key
        self.title = name
        self.hint = hint
        self.default = value
        self._value = value
        self._empty = empty

    def compose(self) -> ComposeResult:
        yield Label(self.title, classes="name", markup=False)
        yield self._editor()
        yield Label(self.hint, classes="hint", markup=False)

    def _editor(self) -> Input | CommandInput:
        return Input(self._value, self._empty, compact=True, password=self.hides)

    @property
    def input(self) -> Input | CommandInput:
        """Where one types."""
        return next(child for child in self.children if isinstance(child, (Input, CommandInput)))

    @property
    def value(self) -> str:
        """What stands in it, before it is shown too."""
        return (self.input.value if self.children else self._value).strip()

    @property
    def is_typed(self) -> bool:
        """Whether something else was typed than stood there at first."""
        return self.value != self._value.strip()

    @property
    def change(self) -> str:
        """How it differs from what the preset says."""
        if self.hides:
            return "changed"
        return f"{self.default or 'not set'} → {self.value or 'not set'}"

    def put(self, text: str) -> None:
        """Have this stand in it."""
        if self.input.value != text:
            self.input.value = text

    def mark(self) -> None:
        """Show whether it differs from what the preset says: by a sign, and by its colour."""
        changed = self.value != self.default
        # Parts are gone where the form closes, or other fields come, with a key still on its way.
        self.query("Input, CommandInput").set_class(changed, "changed")
        for name in self.query(".name").results(Label):
            name.update(f"{_MARK if changed else ''}{self.title}")


def describe_parameter(parameter: Parameter) -> tuple[str, str, bool]:
    """Value, hint with limits, and whether the line to type in is a long one."""
    limits = []
    if parameter.minimum is not None:
        limits.append(f"≥ {parameter.minimum:g}")
    if parameter.maximum is not None:
        limits.append(f"≤ {parameter.maximum:g}")
    if parameter.choices and not is_secret(parameter):
        limits.append(" | ".join(map(str, parameter.choices)))
    hint = " · ".join([*([parameter.help] if parameter.help else []), *limits])
    value = spell_value(parameter)
    is_text = parameter.type in ("str", "list") and not parameter.choices
    return value, hint, is_text or len(value) > _SHORT


def is_secret(parameter: Parameter) -> bool:
    """Whether a parameter's value is hidden: by its name or flag, or by how it looks."""
    if parameter.type not in ("str", "list"):
        return False
    value, flag = spell_value(parameter), parameter.flag.strip("-=")
    named = is_secret_name(parameter.name) or is_secret_name(flag)
    return named or mask_text(value) != value


def spell_value(parameter: Parameter) -> str:
    """A parameter's value as its field shows it; null is empty."""
    value = parameter.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def with_texts(spec: RunSpec, texts: dict[str, str]) -> RunSpec:
    """`spec` with what stands in its fields.
    Raises WrongInput, which names every parameter whose text is no value for it.
    """
    parameters, problems = [], []
    for parameter in spec.parameters:
        text = texts.get(parameter.name)
        try:
            value = _read(parameter, text)
        except ValueError as error:
            problems.append(f"{parameter.name}: {error}")
        else:
            parameters.append(value)
    if problems:
        raise WrongInput("\n".join(problems))
    return msgspec.structs.replace(spec, parameters=tuple(parameters))


def _read(parameter: Parameter, text: str | None) -> Parameter:
    if text is None or text == spell_value(parameter):
        return parameter
    check_placeholders(text)
    value: ParameterValue = parse_value(parameter, text or "null")
    return with_value(parameter, value)
