"""The launch form: a preset or a command, its values, GPUs, and the plan exactly as it will run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.launch.planner import PlannedRun, plan_runs
from runners.model.errors import FresnelError, WrongInput
from runners.model.gpus import GpuSnapshot
from runners.model.run import Run
from runners.model.scaling import describe_batch
from runners.model.spec import RunSpec
from runners.presets.catalogue import PresetEntry, find_preset
from runners.scheduling.memory_warning import peak_memory_by_gpu
from runners.scheduling.queue_order import Granted
from runners.state.layout import StateDirectory
from tui.panel.command_log import gpu_arguments
from tui.panel.screen_keys import LAUNCH_KEYS
from tui.panel.widgets.gpu.picker_table import Peaks
from tui.panel.widgets.launch.fields import FormField
from tui.panel.widgets.launch.form import LaunchForm
from tui.panel.widgets.launch.preset_choices import LaunchChoice, own_command, read_choices
from tui.panel.widgets.launch.preset_list import PresetList
from tui.panel.widgets.launch.sweep_fields import sweep_text
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.plan_text import describe_plan
from tui.views.runs.resume_text import resumed_text

_RULE_TEXT = {
    "linear": "linear",
    "sqrt": "square root",
    "program": "batch only, the program scales the rate",
    "none": "batch only",
}
_HEADERS = ("GPUs", "mapping", "note", "estimate", "price")
"""What decides whether it can run stands first."""


class LaunchRequest(NamedTuple):
    """What shall be launched: several specs for a group or sweep.
    `arguments` are the command line that does the same, `judged_by` is the metric that the median
    rule judges a sweep by (None: no rule).
    """

    specs: list[RunSpec]
    arguments: list[str]
    judged_by: str | None = None


class LaunchScreen(ModalScreen[LaunchRequest | None]):
    """Returns what to launch, or None. The run `again` stands first, filled in as it was
    launched.
    """

    BINDINGS: ClassVar[list[BindingType]] = LAUNCH_KEYS

    def __init__(
        self,
        state: StateDirectory,
        snapshot: PanelSnapshot | None,
        again: Run | None = None,
        resume: bool = False,
    ) -> None:
        super().__init__()
        self.state = state
        self.snapshot = snapshot
        self.again = again
        self.resume = resume
        self.choice: LaunchChoice | None = None
        self._plan_number = 0
        self._leaves = False
        """How often a plan was asked for: only the newest is shown."""
        self._old = [] if again is None else [self._old_choice(again)]

    def _old_choice(self, again: Run) -> LaunchChoice:
        """The run to go on from, or to launch again, as a choice."""
        if self.resume:
            found = resume_run(self.state, again)
            origin = f"goes on from {again.id}: {resumed_text(again, found.checkpoint)}"
            return LaunchChoice(PresetEntry(f"{again.name} resumed", "", (found.spec,), origin))
        spec = relaunch_spec(self.state, again)
        origin = f"as {again.id} was launched"
        return LaunchChoice(PresetEntry(f"{again.name} again", "", (spec,), origin))

    def compose(self) -> ComposeResult:
        """What there is on the left; fields, GPUs and plan on the right."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = "Launch a run"
            dialog.border_subtitle = (
                "F2 launch · F4 more · F5 save · F6 edit · F7 check · Esc close"
            )
            with Horizontal():
                yield PresetList(self.snapshot, id="presets")
                yield LaunchForm(self.snapshot, id="form")
            yield Static(id="fieldhelp")
            with Horizontal(classes="buttons"):
                yield Button("Launch (F2)", id="launch", variant="success", compact=True)
                yield Button("Close (Esc)", id="close", compact=True)

    def on_mount(self) -> None:
        """What is known at once stands in the list; the presets follow as soon as they are read."""
        self.form.describe_gpus()
        if self._old:
            self.presets.set_choices([*self._old, own_command()])
        self.query_one("#filter").focus()
        self._read_presets()

    @property
    def presets(self) -> PresetList:
        """The list of what can be launched."""
        return self.query_one(PresetList)

    @property
    def form(self) -> LaunchForm:
        """The fields."""
        return self.query_one(LaunchForm)

    @property
    def is_open(self) -> bool:
        """Whether the form still stands: its messages may arrive while it is being closed."""
        return self.is_mounted and not self._leaves

    def dismiss(self, result: LaunchRequest | None = None) -> AwaitComplete:
        """Close the form; what comes from its widgets from now on is no longer looked at."""
        self._leaves = True
        return super().dismiss(result)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot: a first reading, a GPU that came free; what was typed stays."""
        if not self.is_open:
            return
        before, self.snapshot = self.snapshot, snapshot
        self.presets.snapshot = snapshot
        self.form.take(snapshot)
        if _holders(before) != _holders(snapshot):
            self.form.describe_gpus()
            self._replan()

    # ---- what there is to launch

    @work(thread=True, exclusive=True, group="presets")
    def _read_presets(self, changed: str = "") -> None:
        choices = [*self._old, own_command(), *read_choices(self.snapshot)]
        self.app.call_from_thread(self._list_presets, choices, changed)

    def _list_presets(self, choices: Sequence[LaunchChoice], changed: str) -> None:
        """List them; one that was `changed` is read anew, else what is being edited stays."""
        if not self.is_open:
            return
        if changed:
            self.choice = None
        keep = changed or (self.choice.entry.name if self.choice is not None else "")
        self.presets.set_choices(choices, keep)

    @on(PresetList.ChoiceMoved)
    async def _choose(self, message: PresetList.ChoiceMoved) -> None:
        if message.choice == self.choice or not self.is_open:
            return
        self.choice = message.choice
        entry = message.choice.entry
        about = Text(entry.description, style="bold")
        if message.choice.obstacle:
            about.append(f"\ncannot run here: {message.choice.obstacle}", style="yellow")
        if entry.problem:
            about = Text(entry.problem, style="red")
        self.query_one("#about", Static).update(about)
        self._show_plan_text(Text("…", style="dim"))
        await self.form.load(message.choice)
        self._replan()

    @on(PresetList.ChoiceEntered)
    def _to_form(self, message: PresetList.ChoiceEntered) -> None:
        if not self.is_open:
            return
        if message.typed:
            self.form.type_command(message.typed)
        fields = [field for field in self.form.query(FormField) if field.input.focusable]
        if fields:
            fields[0].input.focus()

    # ---- the form

    @on(LaunchForm.FormChanged)
    def _changed(self) -> None:
        self._replan()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The whole help of the field that has the keys."""
        field = event.widget.parent
        text = Text()
        if isinstance(field, FormField) and field.hint:
            text = Text.assemble((f"{field.title}: ", "bold"), field.hint)
        for place in self.query("#fieldhelp").results(Static):
            place.update(text)

    def action_next_rule(self) -> None:
        """How the learning rate follows the batch: the next rule."""
        self.form.next_rule()

    def action_fold(self) -> None:
        """Name, queue, price and folder, or not."""
        self.form.toggle_fold()

    def _read_form(self) -> list[RunSpec]:
        """The specs that the form describes; FresnelError names the field that is wrong."""
        if self.choice is None:
            raise WrongInput("choose a preset first")
        if self.choice.entry.problem:
            raise WrongInput(self.choice.entry.problem)
        return self.form.specs()

    def _arguments(self) -> list[str]:
        """The headless command that launches what stands in the form."""
        if self.choice is None:
            return []
        entry, draft = self.choice.entry, self.form.single
        if draft is not None and draft.has_command and (draft.is_new or draft.command_changed):
            gpus, details = gpu_arguments(draft.request()), self.form.detail_arguments()
            if "--name" not in details:
                details += ["--name", draft.spec().name]
            values = [word for override in draft.overrides() for word in ("--set", override)]
            return ["launch", *gpus, *details, *values, *draft.command_arguments()]
        if entry.path:
            known = str(find_preset(entry.name)) == entry.path
            return ["launch", entry.name if known else entry.path, *self.form.arguments()]
        run = self.again.id if self.again is not None else ""
        return ["launch", "--resume" if self.resume else "--again", run, *self.form.arguments()]

    # ---- presets kept and edited

    def action_save(self) -> None:
        """Keep what stands in the form as a preset of one's own."""
        from tui.panel.screens.save_preset import ask_to_save

        draft = self.form.single
        try:
            if draft is None:
                raise WrongInput("only a single run can be saved as a preset")
            specs = self._read_form()
            if self.form.sweep is not None:
                raise WrongInput("a sweep cannot be saved as a preset: give each field one value")
            ask_to_save(self, specs[0], self._saved)
        except FresnelError as error:
            self.notify(str(error), severity="error", markup=False)

    def _saved(self, path: Path) -> None:
        self.notify(f"saved as {path}", timeout=6, markup=False)
        self._read_presets(changed=path.stem)

    def action_edit(self) -> None:
        """Open the preset's file in an editor; what is wrong with it then is said here."""
        from tui.panel.screens.save_preset import edit_preset

        if self.choice is None or not self.choice.entry.path:
            self.notify("this is no preset: F5 makes it one", timeout=4)
            return
        edited = edit_preset(self.app, Path(self.choice.entry.path))
        self._read_presets(changed=edited.stem)

    # ---- the plan

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)

    @on(Button.Pressed, "#launch")
    def action_launch(self) -> None:
        """Launch what stands in the form."""
        try:
            specs = self._read_form()
            self.dismiss(LaunchRequest(specs, self._arguments(), self.form.judged_by))
        except FresnelError as error:
            self._show_problem(str(error))
            self.notify(error.message, severity="error", markup=False)

    def action_verify(self) -> None:
        """Check what stands in the form, and launch it from there."""
        from tui.panel.screens.verify import VerifyScreen

        try:
            specs = self._read_form()
        except FresnelError as error:
            self.notify(error.message, severity="error", markup=False)
            return
        command, judged_by = self._arguments(), self.form.judged_by

        def answered(launch: bool | None) -> None:
            if launch:
                once = ["--no-verify"] if any(spec.verify for spec in specs) else []
                checked = [msgspec.structs.replace(spec, verify=()) for spec in specs]
                self.dismiss(LaunchRequest(checked, [*command, *once], judged_by))

        self.app.push_screen(VerifyScreen(self.state, specs), answered)

    def _replan(self) -> None:
        if not self.is_open:
            return
        self._plan_number += 1
        try:
            specs = self._read_form()
        except FresnelError as error:
            self._show_problem(str(error))
            return
        self._show_batch()
        # Of a sweep the first run: the others differ from it only in what varies.
        shown = specs if self.form.sweep is None else specs[:1]
        self._plan(shown, self._plan_number, self.form.picker.gpus)

    def _show_batch(self) -> None:
        """What the batch comes to, and which fields follow the number of GPUs by which rule."""
        text, draft = Text(), self.form.single
        if draft is not None:
            spec = draft.spec()
            description = describe_batch(spec, draft.devices(len(self.form.picker.gpus)))
            text = Text(description, style="bold")
            if description and draft.follows:
                follows = ", ".join(f"{name}={value}" for name, value in draft.follows.items())
                rule = _RULE_TEXT[draft.rule or "none"]
                text.append(f"\n✎ {follows} follow the GPUs: {rule} (F3 changes)", style="yellow")
        batch = self.query_one("#batch", Static)
        batch.display = bool(text.plain)
        batch.update(text)

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, specs: list[RunSpec], number: int, gpus: Sequence[GpuSnapshot]) -> None:
        try:
            planned = plan_runs(self.state, specs)
        except FresnelError as error:
            self.app.call_from_thread(self._take_plan, number, str(error), (), {}, specs)
            return
        peaks: Peaks = {}
        if len(specs) == 1:
            peaks = peak_memory_by_gpu(self.state, specs[0].preset, specs[0].name, gpus)
        self.app.call_from_thread(self._take_plan, number, "", planned, peaks, specs)

    def _take_plan(
        self,
        number: int,
        problem: str,
        planned: Sequence[PlannedRun],
        peaks: Peaks,
        specs: list[RunSpec],
    ) -> None:
        """Show a plan, unless what it was made for has changed since."""
        if number != self._plan_number or not self.is_open:
            return
        if problem:
            self._show_problem(problem)
        else:
            plans = [_plan_text(run) for run in planned]
            head = [] if self.form.sweep is None else [sweep_text(self.form.sweep)]
            self._show_plan_text(Text("\n").join([*head, *plans]))
        taken = {gpu.uuid: gpu.logical for run in planned for gpu in run.plan.gpus}
        self.form.picker.show(taken, peaks, specs[0].gpus)

    def _show_problem(self, problem: str) -> None:
        self._show_plan_text(Text(problem, style="red"))

    def _show_plan_text(self, text: Text) -> None:
        self.query_one("#plan", Static).update(text)


def _holders(snapshot: PanelSnapshot | None) -> tuple[object, ...]:
    """What a plan depends on: which GPUs there are, and who holds them."""
    if snapshot is None or snapshot.reading is None:
        return ()
    return tuple(
        (gpu.uuid, snapshot.leases.get(gpu.uuid), gpu.error) for gpu in snapshot.reading.gpus
    )


def _plan_text(run: PlannedRun) -> Text:
    text, pairs = Text(), describe_plan(run.plan, run.decision)
    loud = {"note"} if isinstance(run.decision, Granted) else {"note", "GPUs"}
    for name, value in sorted(pairs, key=lambda pair: pair[0] not in _HEADERS):
        text.append(f"{name:<12}", style="dim")
        text.append(f"{value}\n", style="yellow" if name in loud else "")
    return text
