"""The launch form's fields of one run: its parameters, its command, its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from runners.model.masking import mask_text
from runners.model.spec import Parameter
from tui.panel.widgets.launch.command_input import CommandInput
from tui.panel.widgets.launch.drafts import RunDraft
from tui.panel.widgets.launch.fields import FormField, describe_parameter, is_secret, spell_value
from tui.snapshot.feed import PanelSnapshot


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
