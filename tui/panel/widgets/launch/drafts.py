"""What stands in the launch form for one run: its fields, as text, and the RunSpec of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from runners.lifecycle.launch.sweep import fill_placeholders, takes_several
from runners.lifecycle.launch.variation import takes_one_value, varied
from runners.model.errors import FresnelError, WrongInput
from runners.model.masking import mask_text
from runners.model.program import parse_gpu_request
from runners.model.python_command import devices_of
from runners.model.scaling import rescaled
from runners.model.spec import GpuRequest, Parameter, RunSpec, ScalingRule
from runners.presets.command_line import (
    literal_arguments,
    spell_command_line,
    split_command,
    split_safely,
)
from runners.presets.load import command_spec
from runners.presets.sweeps import varied_keys
from tui.panel.command_log import gpu_arguments
from tui.panel.widgets.gpu.picker import spell_request
from tui.panel.widgets.launch.command_input import CommandInput
from tui.panel.widgets.launch.common_fields import assignments
from tui.panel.widgets.launch.fields import (
    FormField,
    describe_parameter,
    is_secret,
    spell_value,
    with_texts,
)
from tui.snapshot.feed import PanelSnapshot

COMMAND = "command"
"""What a spec's preset is called when it has none."""


@dataclass
class RunDraft:
    """One run of the form. `texts` are its parameters' fields by name, `follows` the values that
    the number of GPUs gave them; `member` is its name in a group.
    """

    base: RunSpec
    member: str = ""
    is_new: bool = False
    """An own command that has not run yet: its name comes from what is typed."""
    goes_on: bool = False
    """A run that goes on from its checkpoint: no field of it takes several values."""
    gpus: str = ""
    command: str = ""
    rule: ScalingRule | None = None
    texts: dict[str, str] = field(default_factory=dict)
    follows: dict[str, str] = field(default_factory=dict)
    values: str = ""
    """Of an own command: what stands for `{NAME}` in it, as `lr=1e-4,3e-4 seed=0..2`."""

    @classmethod
    def of(cls, spec: RunSpec, is_new: bool = False, goes_on: bool = False) -> RunDraft:
        """What a form shows of `spec` at first."""
        own = spec.preset == COMMAND and spec.launcher == "command" and not spec.source
        return cls(
            spec,
            spec.name if spec.group else "",
            is_new,
            goes_on,
            spell_request(spec.gpus),
            "" if is_new or not own else spell_command_line(spec.command),
            spec.scaling.rule if spec.scaling else None,
            {parameter.name: spell_value(parameter) for parameter in spec.parameters},
        )

    @property
    def has_command(self) -> bool:
        """True for an own command, whose words can be edited."""
        return self.base.preset == COMMAND and not self.base.source

    open_ended = has_command

    def spec(self) -> RunSpec:
        """The RunSpec that the fields describe, of a sweep with the first of its values.
        Raises WrongInput, which names every field that is wrong.
        """
        return self.specs(self._firsts())[0]

    def specs(self, overrides: Sequence[str], name: str = "") -> list[RunSpec]:
        """`spec` with `KEY=VALUE` overrides in place of what stands in their fields; only it."""
        chosen = dict(override.partition("=")[::2] for override in overrides)
        texts = {name: chosen.get(name, text) for name, text in self.texts.items()}
        spec = with_texts(self._with_command(overrides), texts)
        if spec.scaling is not None and self.rule is not None:
            scaling = msgspec.structs.replace(spec.scaling, rule=self.rule)
            spec = msgspec.structs.replace(spec, scaling=scaling)
        return [msgspec.structs.replace(spec, gpus=self.request(), name=name or spec.name)]

    def overrides(self) -> list[str]:
        """The fields that may have several values, as `KEY=VALUE`; none of a group's member."""
        if self.has_command:
            return self._varied_values()
        if self.member:
            return []
        plain = {parameter.name: spell_value(parameter) for parameter in self.base.parameters}
        return [f"{name}={text}" for name, text in self.texts.items() if text != plain[name]]

    def takes_several(self, key: str) -> bool:
        """Whether commas and ranges in the value of `key` are values of a sweep."""
        is_flag = self.has_command and not takes_one_value(key)
        return not self.goes_on and takes_several(self.base, key, unknown=is_flag)

    def _firsts(self) -> list[str]:
        """The overrides, of several values the first."""
        overrides = self.overrides()
        first = {
            key: axis.first for key, axis in varied_keys(overrides, self.takes_several).items()
        }
        parts = (override.partition("=") for override in overrides)
        return [f"{key}={first.get(key, text)}" for key, _, text in parts]

    def _varied_values(self) -> list[str]:
        return assignments("values", self.values, "NAME=VALUES, as lr=1e-4,3e-4")

    def _with_command(self, overrides: Sequence[str]) -> RunSpec:
        if not self.has_command:
            return self.base
        command, others = fill_placeholders(split_command(self.command), list(overrides))
        typed = command_spec(command)
        name = typed.name if self.is_new else self.base.name
        spec = msgspec.structs.replace(self.base, command=typed.command, name=name)
        if others and (self.is_new or self.command_changed):
            mark = f"{{{others[0].partition('=')[0]}}}"
            # A flag is only replaced in a command that has run: here nobody knows what the program
            # takes.
            raise WrongInput(f"values: {others[0]}: write {mark} where it goes in the command")
        return varied(spec, others)

    def request(self) -> GpuRequest:
        """The wish for GPUs; WrongInput when it is none."""
        if self.gpus.strip() == spell_request(self.base.gpus):
            return self.base.gpus
        try:
            parsed = parse_gpu_request(self.gpus.strip() or "0")
        except ValueError as error:
            raise WrongInput(f"GPUs: {error}") from None
        return self.base.gpus.chosen(parsed)

    def devices(self, present: int) -> int:
        """How many devices it computes on, on a host with `present` GPUs."""
        return devices_of(self.base, self.request(), present)

    def rescale(self, present: int) -> None:
        """Let batch and learning rate follow the number of GPUs.
        A value that a person has typed is never changed.
        """
        if self.base.scaling is None:
            return
        # What differs from the value that was computed has been typed.
        own = {name: text for name, text in self.texts.items() if self.follows.get(name) != text}
        try:
            first = dict(text.partition("=")[::2] for text in self._firsts())
            single = {name: first.get(name, text) for name, text in own.items()}
            before = devices_of(self.base, self.base.gpus, present)
            spec = with_texts(self.base, single)
            changes = rescaled(spec, before, self.devices(present), self.rule)
        except FresnelError:
            return  # the plan says what is wrong
        plain = {parameter.name: spell_value(parameter) for parameter in self.base.parameters}
        follows = {name: f"{value:g}" for name, value in changes.items()}
        for name in {**self.follows, **follows}:
            if name not in own or name in follows:
                self.texts[name] = follows.get(name, plain[name])
        self.follows = follows

    # ---- the same as headless words

    def arguments(self) -> list[str]:
        """The flags that make the same of the preset: changed parameters, and GPUs."""
        prefix = f"{self.member}." if self.member else ""
        arguments = [word for override in self._varied_values() for word in ("--set", override)]
        for parameter in self.base.parameters:
            text = self.texts[parameter.name]
            if text != spell_value(parameter):
                arguments += ["--set", f"{prefix}{parameter.name}={text or 'null'}"]
        request = self.request()
        if request == self.base.gpus:
            return arguments
        if self.member:
            return [*arguments, "--set", f"{prefix}gpus={self.gpus.strip() or '0'}"]
        return [*arguments, *gpu_arguments(request)]

    def command_arguments(self) -> list[str]:
        """The words after `--`, and what is put behind them: the flag by which it goes on."""
        return ["--", *split_command(self.command), *self.base.arguments]

    @property
    def command_changed(self) -> bool:
        """True when the command is no longer the one that ran."""
        return (
            self.has_command and literal_arguments(split_safely(self.command)) != self.base.command
        )


class DraftField(FormField):
    """A field of one run: a parameter, its command, its GPUs."""

    def __init__(
        self,
        draft: RunDraft,
        key: str,
        name: str,
        value: str,
        hint: str = "",
        empty: str = "",
        wide: bool = False,
    ) -> None:
        super().__init__(key, name, value, hint, empty, wide)
        self.draft = draft

    @classmethod
    def of(cls, draft: RunDraft, parameter: Parameter) -> DraftField:
        """The field of one parameter."""
        value, hint, wide = describe_parameter(parameter)
        field = cls(draft, "parameter", parameter.name, value, hint, wide=wide)
        field.hides = is_secret(parameter)
        field.default = spell_value(msgspec.structs.replace(parameter, value=parameter.default))
        return field


class CommandField(DraftField):
    """The command, with lines of its own below its name."""

    past: Sequence[str] = ()
    folder: Callable[[], Path | None]

    @property
    def change(self) -> str:
        """Of a run that is launched again: the plan shows the command itself."""
        return "edited" if self.default else ""

    def _editor(self) -> CommandInput:
        self.add_class("lines")
        return CommandInput(self._value, self._empty, self.past, self.folder)


def past_commands(snapshot: PanelSnapshot | None) -> list[str]:
    """The commands that were run, the newest first, each once; none that has a secret."""
    runs = sorted(snapshot.runs if snapshot else (), key=lambda view: -view.run.created)
    drafts = (RunDraft.of(view.run.plan.spec) for view in runs if view.run.plan is not None)
    found = dict.fromkeys(draft.command for draft in drafts if draft.command)
    return [command for command in found if mask_text(command) == command]
