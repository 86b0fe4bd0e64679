"""The launch dialog: choose a preset, edit its parameters, pick GPUs, read the plan, launch."""

from typing import ClassVar

import msgspec
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from runners.lifecycle.control import preview
from runners.model.errors import FresnelError
from runners.model.paths import StateDirectory
from runners.model.spec import GpuRequest, Parameter, RunSpec
from runners.presets.catalogue import PresetEntry, list_presets, resolve_runs
from runners.presets.units import parse_gpu_request
from tui.feed import Picture
from tui.format import indices
from tui.headless.launch import describe_plan
from tui.panes.gpus import describe_reading


class LaunchScreen(ModalScreen[list[RunSpec] | None]):
    """Returns the specs to launch (several for a group), or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close"),
        Binding("f2,ctrl+s", "launch", "Launch"),
        Binding("down", "focus_next_field", show=False),
        Binding("up", "focus_previous_field", show=False),
    ]

    def __init__(self, state: StateDirectory, picture: Picture | None) -> None:
        super().__init__()
        self.state = state
        self.picture = picture
        self.entries = list_presets()
        self.entry: PresetEntry | None = None
        self.spec: RunSpec | None = None

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
                        Input(id="gpus", placeholder="a count, or which: 0-6,7; 0 for the CPU", compact=True),
                        classes="field",
                        id="gpufield",
                    )
                    yield Label("Plan: exactly what runs", classes="heading")
                    yield Static(id="plan")
            with Horizontal(classes="buttons"):
                yield Button("Launch (F2)", id="launch", variant="success", compact=True)
                yield Button("Close (Esc)", id="close", compact=True)

    def on_mount(self) -> None:
        """List the presets and show who holds which GPU."""
        self.query_one("#gpulist", Static).update(_gpu_list(self.picture))
        self._list_presets("")
        self.query_one("#names").focus()

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self._list_presets(event.value)

    @on(Input.Submitted, "#filter")
    def _to_names(self) -> None:
        self.query_one("#names").focus()

    def _list_presets(self, part: str) -> None:
        names = self.query_one("#names", OptionList)
        names.clear_options()
        for entry in self.entries:
            if part.lower() in entry.name.lower():
                names.add_option(Option(_option(entry), id=entry.name))
        if names.option_count:
            names.highlighted = 0

    @on(OptionList.OptionHighlighted, "#names")
    async def _choose(self, event: OptionList.OptionHighlighted) -> None:
        self.entry = next(entry for entry in self.entries if entry.name == event.option.id)
        spec = self.entry.spec
        about = Text(self.entry.description, style="bold")
        if self.entry.problem:
            about = Text(self.entry.problem, style="red")
        self.query_one("#about", Static).update(about)
        fields = self.query_one("#parameters", Vertical)
        await fields.remove_children()
        if spec is not None:
            await fields.mount_all([_field(parameter) for parameter in spec.parameters])
            self.query_one("#gpus", Input).value = _gpu_words(spec.gpus)
        self.query_one("#gpufield").display = spec is not None
        self._replan()

    @on(OptionList.OptionSelected, "#names")
    def _to_form(self) -> None:
        first = self.query("#parameters Input")
        (first.first() if first else self.query_one("#gpus")).focus()

    @on(Input.Changed)
    def _edited(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            return
        parameter = next((p for p in self._parameters() if f"p-{p.name}" == event.input.id), None)
        if parameter is not None:
            event.input.set_class(event.value != _text_of(parameter), "changed")
        self._replan()

    @on(Input.Submitted)
    def _next(self, event: Input.Submitted) -> None:
        if event.input.id == "gpus":
            self.query_one("#launch").focus()
        elif event.input.id != "filter":
            self.focus_next()

    def action_focus_next_field(self) -> None:
        """Down: the next field."""
        self.focus_next()

    def action_focus_previous_field(self) -> None:
        """Up: the field before."""
        self.focus_previous()

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)

    @on(Button.Pressed, "#launch")
    def action_launch(self) -> None:
        """Launch what stands in the form."""
        try:
            self.dismiss(self._read_form())
        except FresnelError as error:
            self.query_one("#plan", Static).update(Text(str(error), style="red"))
            self.notify(error.message, severity="error", markup=False)

    def _parameters(self) -> tuple[Parameter, ...]:
        return self.entry.spec.parameters if self.entry and self.entry.spec else ()

    def _read_form(self) -> list[RunSpec]:
        """The specs that the form describes; FresnelError names the field that is wrong."""
        if self.entry is None:
            raise FresnelError("choose a preset first")
        if self.entry.problem:
            raise FresnelError(self.entry.problem)
        if self.entry.spec is None:
            return resolve_runs(self.entry.path)
        overrides = []
        for parameter in self._parameters():
            value = self.query_one(f"#p-{parameter.name}", Input).value.strip()
            if value != _text_of(parameter):
                overrides.append(f"{parameter.name}={value or 'null'}")
        (spec,) = resolve_runs(self.entry.path, overrides)
        words = self.query_one("#gpus", Input).value.strip()
        if words == _gpu_words(spec.gpus):
            return [spec]
        try:
            request = parse_gpu_request(words or "0")
        except ValueError as error:
            raise FresnelError(f"GPUs: {error}") from None
        return [msgspec.structs.replace(spec, gpus=msgspec.structs.replace(request, explicit=True))]

    def _replan(self) -> None:
        try:
            specs = self._read_form()
        except FresnelError as error:
            self.query_one("#plan", Static).update(Text(str(error), style="red"))
            return
        self._plan(specs)

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, specs: list[RunSpec]) -> None:
        try:
            plans = preview(self.state, specs)
            text = Text("\n").join(_plan_text(describe_plan(plan, verdict)) for plan, verdict in plans)
        except FresnelError as error:
            text = Text(str(error), style="red")
        self.app.call_from_thread(self.query_one("#plan", Static).update, text)


def _option(entry: PresetEntry) -> Text:
    if entry.problem:
        return Text(f"{entry.name} ✘", style="red")
    return Text(entry.name)


def _field(parameter: Parameter) -> Horizontal:
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
        Input(value=_text_of(parameter), id=f"p-{parameter.name}", compact=True),
        Label(help_text, classes="hint"),
        classes="field",
    )


def _text_of(parameter: Parameter) -> str:
    value = parameter.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _gpu_words(request: GpuRequest) -> str:
    return "all" if request.all else ",".join(request.ids) or str(request.count)


def _gpu_list(picture: Picture | None) -> Text:
    """Who holds which GPU, neighbours of one holder on one line."""
    reading = picture.reading if picture else None
    if picture is None or reading is None or not reading.gpus:
        return Text(describe_reading(reading), style="dim")
    by_holder: dict[str, list[int]] = {}
    for gpu in reading.gpus:
        holders = [f"{picture.letters.get(lease.run, '')} {lease.run}" for lease in picture.leases.get(gpu.uuid, [])]
        by_holder.setdefault(", ".join(holders), []).append(gpu.index)
    text = Text(describe_reading(reading))
    for holder, where in by_holder.items():
        text.append(f"\n{indices(where):>6} ")
        text.append(f"held by {holder}" if holder else "free", style="yellow" if holder else "green")
    return text


def _plan_text(pairs: list[tuple[str, str]]) -> Text:
    text = Text()
    # What decides whether it can run stands first.
    for name, value in sorted(pairs, key=lambda pair: pair[0] not in ("GPUs", "mapping", "estimate", "price")):
        text.append(f"{name:<12}", style="dim")
        text.append(f"{value}\n", style="yellow" if value.startswith(("denied", "queued")) else "")
    return text
