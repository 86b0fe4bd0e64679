"""The launch form's fields: what is chosen, as fields to edit; and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from runners.host.files import current_folder
from runners.lifecycle.launch.sweep import Sweep, judging_metric, sweep_of
from runners.model.errors import WrongInput
from runners.model.masking import mask_text
from runners.model.spec import RunSpec
from tui.panel.command_log import gpu_arguments
from tui.panel.hotkeys import hotkey
from tui.panel.widgets.gpu.picker import GpuPicker
from tui.panel.widgets.launch.command_input import KEYS, CommandInput
from tui.panel.widgets.launch.common_fields import (
    DetailField,
    absolute_folder,
    detail_arguments,
    detail_texts,
    fields_of,
    with_details,
)
from tui.panel.widgets.launch.drafts import CommandField, DraftField, RunDraft, past_commands
from tui.panel.widgets.launch.fields import FormField
from tui.panel.widgets.launch.kept_drafts import Typed
from tui.panel.widgets.launch.plan_view import PlanView
from tui.panel.widgets.launch.sweep_fields import (
    SWEEP_FIELDS,
    VALUES,
    as_fields,
    sweep_arguments,
    sweep_request,
)
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.launch_choices import LaunchChoice

_GPUS = "a count, all, or which: 0-6,7 (7-7: 7 alone); 0 for the CPU"
_SHELL = f"as in a shell: pipes, variables and `cd … && …` work · {KEYS}"
_EXAMPLE = "python train.py --epochs 10"
_WIDE = ("name", "folder", "checkpoints", "config", "keys", "slurm")
_SHORTEST, _LONGEST = 15, 28
"""Cells for the names of fields."""
_RULES = ("linear", "sqrt", "none")


class LaunchForm(VerticalScroll):
    """Fields of one choice. Announces every change; `specs` and `words` say what it comes to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("down", "app.focus_next", "the next field"),
        hotkey("up", "app.focus_previous", "the previous field"),
    ]

    class FormChanged(Message):
        """Something was typed, picked or chosen."""

    def __init__(self, snapshot: PanelSnapshot | None, *, id: str | None = None) -> None:
        # Its fields have the focus: Tab would else stop at the box around them.
        super().__init__(id=id, can_focus=False)
        self.snapshot = snapshot
        self.drafts: list[RunDraft] = []
        self.unfolded = False
        self.sweep: Sweep | None = None
        """What `specs` came to last, where it was a sweep."""
        self._spec: RunSpec | None = None
        self.machine = ""
        """Whose fields these are: a folder that is typed is relative to one on that machine."""

    def compose(self) -> ComposeResult:
        yield Static(id="about")
        yield Vertical(id="parameters")
        yield Static(id="fold")
        yield Vertical(id="details")
        yield Static(id="gpulist", classes="heading")
        yield Vertical(id="gpufield")
        yield GpuPicker(self.snapshot, id="picker")
        yield Static(id="batch")
        yield PlanView(id="plan")

    @property
    def picker(self) -> GpuPicker:
        """The list of GPUs."""
        return self.query_one(GpuPicker)

    @property
    def single(self) -> RunDraft | None:
        """The one run of the form; None for a group and for nothing."""
        return self.drafts[0] if len(self.drafts) == 1 and not self.drafts[0].member else None

    async def load(self, choice: LaunchChoice, kept: Typed, keeps: bool = False) -> None:
        """Show the fields of another choice, with what was `kept` of an earlier time.
        Where it `keeps`, with what was typed so far.
        """
        typed: Typed = {}
        entry = choice.entry
        self.drafts = [RunDraft.of(spec, choice.is_new, choice.goes_on) for spec in entry.specs]
        self._spec = entry.specs[0] if entry.specs else None
        self.unfolded = choice.is_new or bool(self.drafts and self.drafts[0].has_command)
        # One after the other and awaited: fields of two choices would else stand together for a
        # moment.
        typed |= await self._replace("#parameters", list(self._parameter_fields()))
        typed |= await self._replace("#details", self._detail_fields())
        single = self.single
        gpus = [] if single is None else [DraftField(single, "gpus", "GPUs", single.gpus, _GPUS)]
        typed |= await self._replace("#gpufield", gpus)
        self.fold()
        self.picker.show({}, {})
        self.describe_gpus()
        fields = list(self.query(FormField))
        longest = max((len(field.title) for field in fields), default=0)
        for field in fields:
            field.query_one(".name").styles.width = min(_LONGEST, max(_SHORTEST, longest + 3))
            field.mark()
        self.scroll_home(animate=False)
        self._type_again(typed if keeps else kept)

    async def _replace(self, place: str, fields: Sequence[Widget]) -> Typed:
        """Put `fields` into the box at `place`; what was typed there up to this moment."""
        box = self.query_one(place, Vertical)
        typed = {
            (field.key, field.title): field.value
            for field in box.query(FormField)
            if field.value != field.default
        }
        focused = next((field.key for field in box.query(FormField) if field.has_focus_within), "")
        if focused:
            # Of fields that go all together the next would get it, and keys end there.
            self.screen.set_focus(None)
        await box.remove_children()
        if fields:
            await box.mount_all(fields)
        if focused and self.screen.focused is None:
            for field in box.query(FormField):
                if field.key == focused:
                    field.input.focus()
        return typed

    def _parameter_fields(self) -> Iterator[Widget]:
        for draft in self.drafts:
            if draft.member:
                yield Label(draft.member, classes="heading", markup=False)
                yield DraftField(draft, "gpus", "GPUs", draft.gpus, _GPUS)
            if draft.has_command:
                yield self._command_field(draft)
            for parameter in draft.base.parameters:
                yield DraftField.of(draft, parameter)

    def _command_field(self, draft: RunDraft) -> Widget:
        given = (draft, "command", "command", draft.command, _SHELL, _EXAMPLE, True)
        # What is typed may be seen; what an old run was given may not.
        if mask_text(draft.command) != draft.command:
            hidden = DraftField(*given)
            hidden.hides = True
            return hidden
        field = CommandField(*given)
        field.past, field.folder = past_commands(self.snapshot), self.folder
        return field

    def _detail_fields(self) -> list[Widget]:
        if self._spec is None:
            return []
        texts, group = detail_texts(self._spec), self.single is None
        if self.drafts[0].is_new:
            texts["name"] = ""
        # The folder of another machine is not known here.
        folder = "" if self.machine else str(current_folder())
        empty = {"folder": folder, "name": "from the command"}
        fields: list[Widget] = [
            FormField(
                f"d:{field.key}",
                field.key,
                texts[field.key],
                self._help_of(field),
                empty.get(field.key, field.hint),
                wide=field.key in _WIDE,
            )
            for field in fields_of(self._spec, group, self.machine)
        ]
        if group or self.drafts[0].goes_on:
            return fields
        return [*fields, *self._sweep_fields()]

    def _help_of(self, field: DetailField) -> str:
        if field.key != "folder" or not self.machine:
            return field.help
        return f"where it runs on {self.machine}; relative to where its commands run, ~ is its home"

    def _sweep_fields(self) -> Iterator[Widget]:
        draft = self.drafts[0]
        if draft.has_command:
            yield DraftField(draft, VALUES.key, VALUES.key, "", VALUES.help, VALUES.hint, wide=True)
        for field in SWEEP_FIELDS:
            yield FormField(f"s:{field.key}", field.key, "", field.help, field.hint)

    # ---- folded, unfolded

    def toggle_fold(self) -> None:
        """Show name, queue, price and folder, or hide them."""
        self.unfolded = not self.unfolded
        self.fold()
        if self.unfolded:
            first = self.query("#details Input")
            if first:
                first.first().focus()

    def fold(self) -> None:
        """As `unfolded` says."""
        details, sign = self.query_one("#details"), "▾" if self.unfolded else "▸"
        fields = list(details.query(FormField))
        keys = [field.title for field in fields if field.key.startswith("d:")]
        keys += ["sweep"] if len(fields) > len(keys) else []
        details.display = self.unfolded
        head = self.query_one("#fold", Static)
        head.display = bool(keys)
        more = "" if self.unfolded else f": {', '.join(keys)}"
        head.update(Text.assemble((f"{sign} More (F4)", "bold"), more))

    # ---- what is typed and picked

    @on(Input.Changed)
    @on(CommandInput.Changed)
    def _edited(self, event: Input.Changed | CommandInput.Changed) -> None:
        event.stop()
        field = event.control.parent
        if isinstance(field, FormField):
            field.mark()
        if isinstance(field, DraftField) and field.children:
            self._take_text(field)
        self.post_message(self.FormChanged())

    def _take_text(self, field: DraftField) -> None:
        """What stands in a field goes into its draft; another one's if that was replaced since."""
        draft = field.draft
        if field.key == "command":
            draft.command = field.value
        elif field.key == VALUES.key:
            draft.values = field.value
        elif field.key != "gpus":
            draft.texts[field.title] = field.value
        elif draft.gpus != field.value:
            draft.gpus = field.value
            self._rescale(draft)

    @on(GpuPicker.Chosen)
    def _picked(self, message: GpuPicker.Chosen) -> None:
        message.stop()
        for field in self.query("#gpufield FormField").results(FormField):
            field.put(message.text)

    def type_command(self, text: str) -> None:
        """Have this stand in the command's field."""
        for field in self.query(DraftField):
            if field.key == "command":
                self._put(field, text)

    def next_rule(self) -> bool:
        """How the learning rate follows the batch: the next rule; False where nothing follows."""
        follow = [draft for draft in self.drafts if draft.base.scaling and draft.rule]
        for draft in follow:
            scaling = draft.base.scaling
            assert scaling is not None
            rules = _RULES if scaling.base_rate is not None else ("none",)
            place = rules.index(draft.rule) if draft.rule in rules else -1
            draft.rule = rules[(place + 1) % len(rules)]  # type: ignore[assignment]
            self._rescale(draft)
        self.post_message(self.FormChanged())
        return bool(follow)

    def _rescale(self, draft: RunDraft) -> None:
        """Let fields follow the number of GPUs; the others may have newer text than the draft."""
        before = dict(draft.texts)
        draft.rescale(len(self.picker.gpus))
        for field in self.query(DraftField):
            name, mine = field.title, field.draft is draft and field.key == "parameter"
            if mine and draft.texts[name] != before[name]:
                field.put(draft.texts[name])

    def changes(self) -> list[tuple[str, str]]:
        """What differs from the preset, or from the run it begins with: names, and how."""
        changed = [field for field in self.query(FormField) if field.value != field.default]
        return [(field.title, field.change) for field in changed if field.change]

    # ---- typed, and kept

    def typed(self) -> Typed:
        """What stands in fields that are not as they were filled in."""
        return {
            (field.key, field.title): field.value
            for field in self.query(FormField)
            if field.is_typed
        }

    # ---- what completes a command

    def folder(self) -> Path | None:
        """Where the command runs; None where that is not known here."""
        text = self._texts("d").get("folder", "")
        return None if self.machine or "${" in text else Path(absolute_folder(text or "."))

    # ---- the GPUs

    def take(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; what was typed stays."""
        self.snapshot = snapshot
        self.picker.take(snapshot)

    def describe_gpus(self) -> None:
        """What GPUs there are; the list to pick from, for a single run."""
        from tui.panel.widgets.gpu.pane import describe_reading

        reading = self.snapshot.reading if self.snapshot else None
        self.query_one("#gpulist", Static).update(describe_reading(reading))
        self.picker.display = bool(self.picker.gpus) and self.single is not None

    # ---- what it comes to

    def specs(self) -> list[RunSpec]:
        """The specs that the fields describe; FresnelError names the fields that are wrong."""
        texts = self._detail_values()
        draft = self.single
        try:
            self.sweep = None if draft is None else self._sweep_of(draft, texts)
        except WrongInput as error:
            raise as_fields(error) from None
        if self.sweep is None:
            return [with_details(draft.spec(), texts) for draft in self.drafts]
        # The runs of a sweep have names of their own, made from the one that was typed.
        texts.pop("name", None)
        return [with_details(spec, texts) for spec in self.sweep.specs]

    def _sweep_of(self, draft: RunDraft, texts: dict[str, str]) -> Sweep | None:
        request = sweep_request(self._texts("s"), texts.get("name", "").strip())
        return sweep_of(request, draft.overrides(), draft)

    @property
    def judged_by(self) -> str | None:
        """The metric by which the median rule stops runs of the sweep; None without a rule."""
        return judging_metric(self._texts("s").get("early-stop") or None)

    def command_of(self, choice: LaunchChoice) -> list[str]:
        """The headless command that launches what stands in the form of this choice."""
        draft, details = self.single, self._detail_arguments()
        if draft is None or not draft.has_command or not (draft.is_new or draft.command_changed):
            flags = [argument for draft in self.drafts for argument in draft.arguments()]
            return ["launch", *choice.start, *flags, *details]
        if "--name" not in details:
            details += ["--name", draft.spec().name]
        values = [word for override in draft.overrides() for word in ("--set", override)]
        gpus = gpu_arguments(draft.request())
        return ["launch", *gpus, *details, *values, *draft.command_arguments()]

    def _detail_arguments(self) -> list[str]:
        """Those of them for name, queue, price, folder and sweep."""
        if self._spec is None:
            return []
        details = detail_arguments(self._spec, self._texts("d"), is_here=not self.machine)
        return [*details, *sweep_arguments(self._texts("s"))]

    def _type_again(self, typed: Typed) -> None:
        """Have this stand in the fields of the same keys and titles."""
        for field in self.query(FormField):
            if (field.key, field.title) in typed:
                self._put(field, typed[field.key, field.title])

    def _put(self, field: FormField, text: str) -> None:
        """Have this stand in a field, and count before its change has come as a message."""
        field.put(text)
        if isinstance(field, DraftField):
            self._take_text(field)

    def _texts(self, kind: str) -> dict[str, str]:
        """What stands in the fields of details ("d") or of a sweep ("s"), by key."""
        return {
            field.key.partition(":")[2]: field.value
            for field in self.query("#details FormField").results(FormField)
            if field.key.startswith(f"{kind}:")
        }

    def _detail_values(self) -> dict[str, str]:
        values = self._texts("d")
        if self.drafts and self.drafts[0].is_new and not values.get("name"):
            # Empty means: from the command.
            values.pop("name", None)
        return values
