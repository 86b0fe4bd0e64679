"""The launch dialog: choose a preset, edit its parameters, pick GPUs, read the plan, launch."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, get_args

import msgspec
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.control.start import preview
from runners.model.errors import FresnelError
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.model.spec import GpuRequest, RunSpec, ScalingRule
from runners.presets.catalogue import PresetEntry, find_preset, list_presets, resolve_runs
from runners.presets.reading.units import parse_gpu_request
from runners.presets.scaling import describe_batch, devices_of, rescaled
from runners.scheduling.memory_warning import peak_memory_by_gpu
from runners.scheduling.policy import QueueDecision
from runners.state.layout import StateDirectory
from tui.panel.command_log import gpu_words
from tui.panel.feed import PanelSnapshot
from tui.panel.widgets.gpu.pane import describe_reading
from tui.panel.widgets.gpu.picker import GpuPicker, spell_request
from tui.panel.widgets.launch.fields import make_field, mark_field, spell_value, with_texts
from tui.panel.widgets.launch.presets import describe_entry, last_runs, newest_first
from tui.views.plan_text import describe_plan
from tui.views.resume_text import resumed_text

_RULES: tuple[ScalingRule, ...] = get_args(ScalingRule)
_RULE_WORDS = {
    "linear": "linear",
    "sqrt": "square root",
    "program": "batch only, the program scales the rate",
    "none": "batch only",
}


class LaunchRequest(NamedTuple):
    """What shall be launched (several specs for a group), and the words of the command that does
    the same.
    """

    specs: list[RunSpec]
    words: list[str]


class LaunchScreen(ModalScreen[LaunchRequest | None]):
    """Returns what to launch, or None. The run `again` stands first, filled in as it was
    launched.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close"),
        Binding("f2,ctrl+s", "launch", "Launch"),
        Binding("f3", "next_rule", "Scaling"),
        Binding("down", "focus_next_field", show=False),
        Binding("up", "focus_previous_field", show=False),
    ]

    def __init__(
        self,
        state: StateDirectory,
        picture: PanelSnapshot | None,
        again: Run | None = None,
        resume: bool = False,
    ) -> None:
        super().__init__()
        self.state = state
        self.picture = picture
        self.again = again
        self.resume = resume
        self.entries = newest_first(list_presets(), picture)
        if again is not None and resume:
            found = resume_run(state, again)
            words = f"goes on from {again.id}: {resumed_text(again, found.checkpoint)}"
            self.entries.insert(0, PresetEntry(f"{again.name} resumed", "", (found.spec,), words))
        elif again is not None:
            spec = relaunch_spec(state, again)
            self.entries.insert(
                0, PresetEntry(f"{again.name} again", "", (spec,), f"as {again.id} was launched")
            )
        self.entry: PresetEntry | None = None
        self.rule: ScalingRule | None = None
        self._follows: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """Presets on the left; form, GPUs and plan on the right."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = "Launch a run"
            dialog.border_subtitle = "Tab next field · F2 launch · Esc close"
            with Horizontal():
                with Vertical(id="presets"):
                    yield Input(placeholder="filter presets", id="filter", compact=True)
                    yield OptionList(id="names", compact=True)
                with VerticalScroll(id="form", can_focus=False):
                    yield Static(id="about")
                    yield Vertical(id="parameters")
                    yield Static(id="gpulist", classes="heading")
                    yield Horizontal(
                        Label("GPUs", classes="name"),
                        Input(
                            id="gpus",
                            placeholder="a count, or which: 0-6,7; 0 for the CPU",
                            compact=True,
                        ),
                        classes="field",
                        id="gpufield",
                    )
                    yield GpuPicker(self.picture, id="picker")
                    yield Static(id="batch")
                    yield Label("Plan: exactly what runs", classes="heading")
                    yield Static(id="plan")
            with Horizontal(classes="buttons"):
                yield Button("Launch (F2)", id="launch", variant="success", compact=True)
                yield Button("Close (Esc)", id="close", compact=True)

    def on_mount(self) -> None:
        """List the presets."""
        self._describe_gpus()
        self._list_presets("")
        self.query_one("#names").focus()

    def show(self, picture: PanelSnapshot) -> None:
        """Take in a new picture: a first reading, a GPU that came free; what was typed stays."""
        before, self.picture = self.picture, picture
        self.query_one(GpuPicker).take(picture)
        if _holders(before) != _holders(picture):
            self._describe_gpus()
            self._replan()

    def _describe_gpus(self) -> None:
        self.query_one("#gpulist", Static).update(
            describe_reading(self.picture.reading if self.picture else None)
        )
        picker = self.query_one(GpuPicker)
        picker.display = bool(picker.gpus) and (self.entry is None or self._spec is not None)

    # ── the list of presets ───────────────────────────────────────────────────────────────────────

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self._list_presets(event.value)

    @on(Input.Submitted, "#filter")
    def _to_names(self) -> None:
        self.query_one("#names").focus()

    def _list_presets(self, part: str) -> None:
        names, last = self.query_one("#names", OptionList), last_runs(self.picture)
        names.clear_options()
        for position, entry in enumerate(self.entries):
            if part.lower() in entry.name.lower():
                names.add_option(
                    Option(describe_entry(entry, last.get(entry.name)), id=str(position))
                )
        if names.option_count:
            names.highlighted = 0

    @on(OptionList.OptionHighlighted, "#names")
    async def _choose(self, event: OptionList.OptionHighlighted) -> None:
        self.entry = self.entries[int(event.option.id or 0)]
        spec = self.entry.spec
        self.rule = spec.scaling.rule if spec and spec.scaling else None
        self._follows = {}
        about = Text(self.entry.description, style="bold")
        if self.entry.problem:
            about = Text(self.entry.problem, style="red")
        self.query_one("#about", Static).update(about)
        fields = self.query_one("#parameters", Vertical)
        await fields.remove_children()
        if spec is not None:
            await fields.mount_all([make_field(parameter) for parameter in spec.parameters])
            for parameter in spec.parameters:
                mark_field(self.query_one(f"#p-{parameter.name}", Input), parameter)
            self.query_one("#gpus", Input).value = spell_request(spec.gpus)
        self.query_one("#gpufield").display = spec is not None
        self._describe_gpus()
        self._replan()

    @on(OptionList.OptionSelected, "#names")
    def _to_form(self) -> None:
        first = self.query("#parameters Input")
        (first.first() if first else self.query_one("#gpus")).focus()

    # ── the form ──────────────────────────────────────────────────────────────────────────────────

    @on(Input.Changed)
    def _edited(self, event: Input.Changed) -> None:
        if event.input.id == "filter" or self._spec is None:
            return
        parameter = next(
            (p for p in self._spec.parameters if f"p-{p.name}" == event.input.id), None
        )
        if parameter is not None:
            mark_field(event.input, parameter)
        if event.input.id == "gpus":
            self._rescale()
        self._replan()

    @on(Input.Submitted)
    def _next(self, event: Input.Submitted) -> None:
        if event.input.id != "filter":
            self.focus_next()

    @on(GpuPicker.Chosen)
    def _picked(self, message: GpuPicker.Chosen) -> None:
        self.query_one("#gpus", Input).value = message.words

    def action_focus_next_field(self) -> None:
        """Down: the next field."""
        self.focus_next()

    def action_focus_previous_field(self) -> None:
        """Up: the field before."""
        self.focus_previous()

    def action_next_rule(self) -> None:
        """How the learning rate follows the batch: the next rule."""
        scaling = self._spec.scaling if self._spec else None
        if scaling is None or self.rule is None:
            return
        rules = _RULES if scaling.base_rate is not None else ("none",)
        self.rule = rules[(rules.index(self.rule) + 1) % len(rules)]
        self._rescale()
        self._replan()

    @property
    def _spec(self) -> RunSpec | None:
        return self.entry.spec if self.entry else None

    def _texts(self) -> dict[str, str]:
        """What stands in the fields, by parameter."""
        parameters = self._spec.parameters if self._spec else ()
        fields = {one.name: self.query(f"#p-{one.name}") for one in parameters}
        return {name: found.first(Input).value.strip() for name, found in fields.items() if found}

    def _rescale(self) -> None:
        """Let batch and learning rate follow the number of GPUs, but never a value that a person
        has typed.
        """
        spec = self._spec
        if spec is None or spec.scaling is None:
            return
        own = {
            spec_name: value
            for spec_name, value in self._texts().items()
            if self._follows.get(spec_name) != value
        }
        try:
            request = self._request(spec)
            changes = rescaled(
                with_texts(spec, own),
                self._devices(spec, spec.gpus),
                self._devices(spec, request),
                self.rule,
            )
        except FresnelError:
            return  # the plan says what is wrong
        plain = {one.name: spell_value(one) for one in spec.parameters}
        follows = {name: f"{value:g}" for name, value in changes.items()}
        for name in {**self._follows, **follows}:
            if name in own and name not in follows:
                continue
            self.query_one(f"#p-{name}", Input).value = follows.get(name, plain[name])
        self._follows = follows

    def _request(self, spec: RunSpec) -> GpuRequest:
        words = self.query_one("#gpus", Input).value.strip()
        if words == spell_request(spec.gpus):
            return spec.gpus
        try:
            return msgspec.structs.replace(parse_gpu_request(words or "0"), explicit=True)
        except ValueError as error:
            raise FresnelError(f"GPUs: {error}") from None

    def _devices(self, spec: RunSpec, request: GpuRequest) -> int:
        return devices_of(spec, request, len(self.query_one(GpuPicker).gpus))

    def _read_form(self) -> list[RunSpec]:
        """The specs that the form describes; FresnelError names the field that is wrong."""
        if self.entry is None:
            raise FresnelError("choose a preset first")
        if self.entry.problem:
            raise FresnelError(self.entry.problem)
        if self._spec is None:
            return resolve_runs(self.entry.path)
        spec = with_texts(self._spec, self._texts())
        if spec.scaling is not None and self.rule is not None:
            spec = msgspec.structs.replace(
                spec, scaling=msgspec.structs.replace(spec.scaling, rule=self.rule)
            )
        return [msgspec.structs.replace(spec, gpus=self._request(spec))]

    def _words(self) -> list[str]:
        """The headless command that launches what stands in the form."""
        entry, spec = self.entry, self._spec
        if entry is None:
            return []
        known = entry.path and str(find_preset(entry.name)) == entry.path
        words = ["launch", entry.name if known else entry.path] if entry.path else []
        if not entry.path and self.again is not None:
            words = ["launch", "--resume" if self.resume else "--again", self.again.id]
        if spec is None:
            return words
        texts = self._texts()
        for parameter in spec.parameters:
            if texts[parameter.name] != spell_value(parameter):
                words += ["--set", f"{parameter.name}={texts[parameter.name] or 'null'}"]
        request = self._request(spec)
        return words if request == spec.gpus else [*words, *gpu_words(request)]

    # ── the plan ──────────────────────────────────────────────────────────────────────────────────

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)

    @on(Button.Pressed, "#launch")
    def action_launch(self) -> None:
        """Launch what stands in the form."""
        try:
            self.dismiss(LaunchRequest(self._read_form(), self._words()))
        except FresnelError as error:
            self.query_one("#plan", Static).update(Text(str(error), style="red"))
            self.notify(error.message, severity="error", markup=False)

    def _replan(self) -> None:
        try:
            specs = self._read_form()
        except FresnelError as error:
            self.query_one("#plan", Static).update(Text(str(error), style="red"))
            return
        self._show_batch(specs)
        self._plan(specs)

    def _show_batch(self, specs: Sequence[RunSpec]) -> None:
        """What the batch comes to, and which fields follow the number of GPUs by which rule."""
        spec = specs[0]
        words = describe_batch(spec, self._devices(spec, spec.gpus)) if len(specs) == 1 else ""
        text = Text(words, style="bold")
        if words and self._follows:
            follows = ", ".join(f"{name}={value}" for name, value in self._follows.items())
            text.append(
                f"\n✎ {follows} follow the GPUs: {_RULE_WORDS[self.rule or 'none']} (F3 changes)",
                style="yellow",
            )
        batch = self.query_one("#batch", Static)
        batch.display = bool(words)
        batch.update(text)

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, specs: list[RunSpec]) -> None:
        try:
            planned = preview(self.state, specs)
        except FresnelError as error:
            self.app.call_from_thread(self._show_problem, str(error))
            return
        picker = self.query_one(GpuPicker)
        peaks = (
            peak_memory_by_gpu(self.state, specs[0].preset, specs[0].name, picker.gpus)
            if len(specs) == 1
            else {}
        )
        taken = {gpu.uuid: gpu.logical for plan, _ in planned for gpu in plan.gpus}
        self.app.call_from_thread(self._show_plan, planned)
        self.app.call_from_thread(picker.show, taken, peaks)

    def _show_problem(self, words: str) -> None:
        self.query_one("#plan", Static).update(Text(words, style="red"))

    def _show_plan(self, planned: list[tuple[LaunchPlan, QueueDecision]]) -> None:
        text = Text("\n").join(
            _plan_text(describe_plan(plan, verdict)) for plan, verdict in planned
        )
        self.query_one("#plan", Static).update(text)


def _holders(picture: PanelSnapshot | None) -> tuple[object, ...]:
    """What a plan depends on: which GPUs there are, and who holds them."""
    if picture is None or picture.reading is None:
        return ()
    return tuple(
        (gpu.uuid, picture.leases.get(gpu.uuid), gpu.error) for gpu in picture.reading.gpus
    )


def _plan_text(pairs: list[tuple[str, str]]) -> Text:
    text = Text()
    # What decides whether it can run stands first.
    for name, value in sorted(
        pairs, key=lambda pair: pair[0] not in ("GPUs", "mapping", "estimate", "price")
    ):
        text.append(f"{name:<12}", style="dim")
        text.append(f"{value}\n", style="yellow" if value.startswith(("denied", "queued")) else "")
    return text
