"""What stands in the launch form for one run, as text, and the RunSpec that it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from runners.model.errors import FresnelError, WrongInput
from runners.model.spec import GpuRequest, RunSpec, ScalingRule
from runners.presets.command_line import (
    command_name,
    literal_words,
    spell_command_line,
    split_command,
    split_safely,
)
from runners.presets.load import command_spec
from runners.presets.reading.units import parse_gpu_request
from runners.presets.scaling import devices_of, rescaled
from tui.panel.command_log import gpu_words
from tui.panel.widgets.gpu.picker import spell_request
from tui.panel.widgets.launch.fields import spell_value, with_texts

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
    gpus: str = ""
    command: str = ""
    rule: ScalingRule | None = None
    texts: dict[str, str] = field(default_factory=dict)
    follows: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: RunSpec, is_new: bool = False) -> RunDraft:
        """What a form shows of `spec` at first."""
        own = spec.preset == COMMAND and spec.launcher == "command" and not spec.source
        return cls(
            spec,
            spec.name if spec.group else "",
            is_new,
            spell_request(spec.gpus),
            "" if is_new or not own else spell_command_line(spec.command),
            spec.scaling.rule if spec.scaling else None,
            {one.name: spell_value(one) for one in spec.parameters},
        )

    @property
    def has_command(self) -> bool:
        """True for an own command, whose words can be edited."""
        return self.base.preset == COMMAND and not self.base.source

    def spec(self) -> RunSpec:
        """The RunSpec that the fields describe; WrongInput names every field that is wrong."""
        spec = with_texts(self._with_command(), self.texts)
        if spec.scaling is not None and self.rule is not None:
            scaling = msgspec.structs.replace(spec.scaling, rule=self.rule)
            spec = msgspec.structs.replace(spec, scaling=scaling)
        return msgspec.structs.replace(spec, gpus=self.request())

    def _with_command(self) -> RunSpec:
        if not self.has_command:
            return self.base
        typed = command_spec(split_command(self.command))
        name = command_name(self.command) or typed.name if self.is_new else self.base.name
        return msgspec.structs.replace(self.base, command=typed.command, name=name)

    def request(self) -> GpuRequest:
        """The wish for GPUs; WrongInput when it is none."""
        if self.gpus.strip() == spell_request(self.base.gpus):
            return self.base.gpus
        try:
            wish = parse_gpu_request(self.gpus.strip() or "0")
        except ValueError as error:
            raise WrongInput(f"GPUs: {error}") from None
        kept = {
            name: getattr(self.base.gpus, name)
            for name in ("memory", "model", "share_memory", "foreign")
        }
        return msgspec.structs.replace(wish, explicit=True, **kept)

    def devices(self, present: int) -> int:
        """How many devices it computes on, on a host with `present` GPUs."""
        return devices_of(self.base, self.request(), present)

    def rescale(self, present: int) -> None:
        """Let batch and learning rate follow the number of GPUs, but never a value that a person
        has typed.
        """
        if self.base.scaling is None:
            return
        own = {name: text for name, text in self.texts.items() if self.follows.get(name) != text}
        try:
            before = devices_of(self.base, self.base.gpus, present)
            spec = with_texts(self.base, own)
            changes = rescaled(spec, before, self.devices(present), self.rule)
        except FresnelError:
            return  # the plan says what is wrong
        plain = {one.name: spell_value(one) for one in self.base.parameters}
        follows = {name: f"{value:g}" for name, value in changes.items()}
        for name in {**self.follows, **follows}:
            if name not in own or name in follows:
                self.texts[name] = follows.get(name, plain[name])
        self.follows = follows

    # ---- the same as headless words

    def words(self) -> list[str]:
        """The flags that make the same of the preset: changed parameters, and GPUs."""
        prefix = f"{self.member}." if self.member else ""
        words = []
        for parameter in self.base.parameters:
            text = self.texts[parameter.name]
            if text != spell_value(parameter):
                words += ["--set", f"{prefix}{parameter.name}={text or 'null'}"]
        request = self.request()
        if request == self.base.gpus:
            return words
        if self.member:
            return [*words, "--set", f"{prefix}gpus={self.gpus.strip() or '0'}"]
        return [*words, *gpu_words(request)]

    def command_words(self) -> list[str]:
        """The words behind `--`."""
        return ["--", *split_command(self.command)]

    @property
    def command_changed(self) -> bool:
        """True when the command is no longer the one that ran."""
        return self.has_command and literal_words(split_safely(self.command)) != self.base.command
