"""The launch form: a preset or a command, its values, GPUs, and the plan exactly as it will run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from runners.model.errors import FresnelError, WrongInput
from runners.model.masking import mask_text
from runners.model.spec import RunSpec
from tui.panel.command_log import gpu_arguments
from tui.panel.launch_planner import LaunchPlanner, LaunchRequest
from tui.panel.screen_keys import LAUNCH_KEYS
from tui.panel.screens.dialogs import FormDialog
from tui.panel.screens.launch_plan_text import (
    batch_text,
    environment_lines,
    outcome_text,
    plan_lines,
)
from tui.panel.screens.standing import is_open
from tui.panel.widgets.launch.command_input import CommandInput
from tui.panel.widgets.launch.fields import FormField
from tui.panel.widgets.launch.form import LaunchForm
from tui.panel.widgets.launch.kept_drafts import KeptDrafts, Typed
from tui.panel.widgets.launch.preset_list import PresetList
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.form_plan import FormPlan
from tui.views.runs.launch_choices import LaunchChoice, own_command

NOT_LAUNCHED = "typed, and not launched"
_TYPED_WITHIN_S = 0.1
"""Between two keys of somebody who types on: a plan waits for the last of them."""


class LaunchScreen(FormDialog):
    """Launches what was chosen on the machine that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = LAUNCH_KEYS

    def __init__(
        self,
        planners: Sequence[LaunchPlanner],
        planner: LaunchPlanner,
        snapshot: PanelSnapshot | None,
        kept: KeptDrafts,
        old: LaunchChoice | None = None,
    ) -> None:
        """`planner` is the machine shown first; `old` a run of it that stands first, filled in;
        `kept` is what was typed in forms that were left.
        """
        super().__init__()
        self.planners = planners
        self.planner = planner
        self.snapshot = snapshot and planner.snapshot(snapshot)
        self.choice: LaunchChoice | None = None
        self._plan_number = 0
        """How often a plan was asked for: only the newest is shown."""
        self._old = {} if old is None else {planner.name: old}
        self._kept = kept
        self._as_filled: Typed = {}
        """What was typed earlier, as the fields were filled with it: leaving loses none of it."""
        self._leaving = False
        """Esc was pressed, and what was typed since is not launched."""
        self._is_filling = False
        self._after_filling: Callable[[], None] | None = None
        """What a key asked for while the fields were being filled: half of them say nothing."""
        self._is_read_anew = False
        """What is chosen is filled in again, although it may look the same."""
        self._moves = False
        """Another machine's presets are being read: what is typed until then goes along."""

    def compose(self) -> ComposeResult:
        """What there is on the left; fields, GPUs and plan on the right."""
        with Vertical(classes="dialog wide"):
            with Horizontal():
                yield PresetList(self.snapshot, id="presets")
                yield LaunchForm(self.snapshot, id="form")
            yield Static(id="fieldhelp")
            yield Static(id="outcome")
            with Horizontal(classes="buttons"):
                yield Button("Launch (F2)", id="launch", variant="success", compact=True)
                yield Button("Close (Esc)", id="close", compact=True)

    def on_mount(self) -> None:
        """What is known at once stands in the list; the presets follow as soon as they are read."""
        self._show_machine()
        if self._old:
            self.presets.set_choices(self._own_choices)
        self.query_one("#filter").focus()
        self._read_presets()

    @property
    def _own_choices(self) -> list[LaunchChoice]:
        """What is there before any preset was read."""
        old = self._old.get(self.planner.name)
        return [*([old] if old is not None else []), own_command()]

    @property
    def _left_name(self) -> str:
        """What was typed in last; nothing where the form is for a certain run."""
        return "" if self._old else self._kept.newest(self.planner.name)

    def _show_machine(self) -> None:
        name = self.planner.name
        several = len(self.planners) > 1
        where = name or ("this machine" if several else "")
        keys = ["F2 launch", "F4 more"]
        keys += [] if name else ["F5 save", "F6 edit"]
        keys += ["F7 check", *(["F8 machine"] if several else []), "Esc close"]
        dialog = self.query_one(".dialog", Vertical)
        title = f"Launch a run on {where}" if where else "Launch a run"
        chosen = self.choice.entry.name if self.choice is not None else ""
        dialog.border_title = " · ".join(filter(None, (title, chosen)))
        dialog.border_subtitle = " · ".join(keys)
        self.form.machine = name
        self.form.describe_gpus()

    def action_next_machine(self) -> None:
        """Launch on the next machine that is reached; what was typed goes along."""
        at = self.planners.index(self.planner)
        for planner in [*self.planners[at + 1 :], *self.planners[:at]]:
            # Machines that are not reached are passed over, and named.
            if not planner.obstacle:
                break
            self.notify(planner.obstacle, severity="warning", timeout=4, markup=False)
        else:
            self.notify("there is no other machine: H adds one", timeout=4)
            return
        self.planner, self._moves = planner, True
        snapshot = getattr(self.app, "snapshot", None)
        if snapshot is not None:
            self.show(snapshot)
        self._show_machine()
        self._read_presets(self.choice.entry.name if self.choice is not None else "")

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
        return is_open(self)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot: a first reading, a GPU that came free; what was typed stays."""
        if not self.is_open:
            return
        before, self.snapshot = self.snapshot, self.planner.snapshot(snapshot)
        self.presets.snapshot = self.snapshot
        self.form.take(self.snapshot)
        if _holders(before) != _holders(self.snapshot):
            self.form.describe_gpus()
            self._replan()

    # ---- what there is to launch

    def _read_presets(self, changed: str = "") -> None:
        planner = self.planner
        self.planner.choices(
            lambda choices: self._list_presets(planner, choices, changed), self._show_problem
        )

    def _list_presets(
        self, planner: LaunchPlanner, found: Sequence[LaunchChoice], changed: str
    ) -> None:
        """List them; one that was `changed` is read anew, else what is being edited stays."""
        # F8 may have gone on to the next machine while these were read.
        if not self.is_open or planner is not self.planner:
            return
        choices = [*self._own_choices, *found]
        self._is_read_anew = bool(changed)
        chosen = self.choice.entry.name if self.choice is not None else ""
        keep = changed or chosen or self._left_name
        self.presets.set_choices(choices, keep)

    @on(PresetList.ChoiceMoved)
    async def _choose(self, message: PresetList.ChoiceMoved) -> None:
        if not self.is_open or (message.choice == self.choice and not self._is_read_anew):
            return
        keeps, self._moves = self._moves, False
        if not keeps and not self._is_read_anew:
            self._keep_typed()
        self.choice, self._is_read_anew = message.choice, False
        self._show_machine()
        entry = message.choice.entry
        about = Text(entry.description, style="bold")
        if message.choice.obstacle:
            about.append(f"\ncannot run here: {message.choice.obstacle}", style="yellow")
        if entry.problem:
            about = Text(entry.problem, style="red")
        self.query_one("#about", Static).update(about)
        self.form.show_plan(Text("…", style="dim"), "")
        self._show_outcome(Text("…", style="dim"))
        kept = self._kept.of(self.planner.name, entry.name)
        if kept:
            about.append("\nas you left it: F9 begins anew", style="yellow")
            self.query_one("#about", Static).update(about)
        self._is_filling = True
        await self.form.load(message.choice, kept, keeps)
        self._as_filled = {} if keeps else self.form.typed()
        self._is_filling = False
        self._replan()
        after, self._after_filling = self._after_filling, None
        if after is not None:
            after()

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

    @on(events.DescendantFocus)
    def _make_room(self, event: events.DescendantFocus) -> None:
        """While one types in the form, the list stands aside where the form needs its cells."""
        draft = self.form.single
        at = list(event.widget.ancestors)
        if self.form in at or self.presets in at:
            is_own = draft is not None and draft.has_command
            self.presets.set_class(self.form in at, "aside")
            self.presets.set_class(is_own, "own")

    @on(CommandInput.PathsFound)
    def _show_paths(self, message: CommandInput.PathsFound) -> None:
        """How a path may go on; as a shell lists it."""
        self.query_one("#fieldhelp", Static).update(Text("  ".join(message.names), style="bold"))

    @on(LaunchForm.FormChanged)
    def _changed(self) -> None:
        self._leaving = False
        # Planning costs more than a key: what is typed quickly, or pasted, is planned once.
        self._plan_number += 1
        self.set_timer(_TYPED_WITHIN_S, partial(self._replan, self._plan_number))

    def action_next_rule(self) -> None:
        """How the learning rate follows the batch: the next rule."""
        if not self.form.next_rule():
            self.notify("nothing here follows the number of GPUs", timeout=4)

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
        draft = self.form.single
        if draft is not None and draft.has_command and (draft.is_new or draft.command_changed):
            gpus, details = gpu_arguments(draft.request()), self.form.detail_arguments()
            if "--name" not in details:
                details += ["--name", draft.spec().name]
            values = [word for override in draft.overrides() for word in ("--set", override)]
            return ["launch", *gpus, *details, *values, *draft.command_arguments()]
        return ["launch", *self.choice.start, *self.form.arguments()]

    # ---- leaving, and beginning anew

    def _keep_typed(self) -> None:
        if self.choice is not None and not self._is_filling:
            self._kept.keep(self.planner.name, self.choice.entry.name, self.form.typed())

    def action_leave(self) -> None:
        """Close the form; what was typed is kept, and Esc asks for it twice."""
        is_new = not self._is_filling and self.form.typed() != self._as_filled
        if is_new and not self._leaving:
            self._leaving = True
            notice = f"{NOT_LAUNCHED}: Esc again closes, and keeps it for the next time"
            self.query_one("#fieldhelp", Static).update(Text(notice, style="yellow"))
            return
        self._keep_typed()
        self.dismiss()

    async def action_begin_anew(self) -> None:
        """Forget what was typed."""
        if self.choice is None:
            return
        if not self.form.typed():
            self.notify("nothing was typed yet", timeout=4)
            return
        self._kept.forget(self.planner.name, self.choice.entry.name)
        self._is_read_anew = True
        await self._choose(PresetList.ChoiceMoved(self.choice))

    # ---- presets kept and edited

    def action_save(self) -> None:
        """Keep what stands in the form as a preset of one's own."""
        from tui.panel.screens.save_preset import ask_to_save

        draft = self.form.single
        if self._is_elsewhere():
            return
        try:
            if draft is None:
                raise WrongInput("only a single run can be saved as a preset")
            specs = self._read_form()
            if self.form.sweep is not None:
                raise WrongInput("a sweep cannot be saved as a preset: give each field one value")
            ask_to_save(self, specs[0], self._saved)
        except FresnelError as error:
            self.notify(str(error), severity="error", markup=False)

    def _is_elsewhere(self) -> bool:
        """Whether the presets are another machine's, which keeps them itself; then that is told."""
        name = self.planner.name
        if name:
            self.notify(f"presets of {name} are kept there: push copies one", timeout=5)
        return bool(name)

    def _saved(self, path: Path) -> None:
        self.notify(f"saved as {path}", timeout=6, markup=False)
        self._read_presets(changed=path.stem)

    def action_edit(self) -> None:
        """Open the preset's file in an editor; what is wrong with it then is said here."""
        from tui.panel.screens.save_preset import edit_preset

        if self._is_elsewhere():
            return
        if self.choice is None or not self.choice.entry.path:
            self.notify("this is not a preset yet: F5 saves it as one", timeout=4)
            return
        edited = edit_preset(self.app, Path(self.choice.entry.path))
        self._read_presets(changed=edited.stem)

    # ---- the plan

    @on(Button.Pressed, "#launch")
    def action_launch(self) -> None:
        """Launch what stands in the form."""
        if self._is_filling:
            self._after_filling = self.action_launch
            return
        try:
            request = self._request()
        except FresnelError as error:
            self._show_problem(str(error))
            self.notify(mask_text(error.message), severity="error", markup=False)
        else:
            self._launch(request)

    def _launch(self, request: LaunchRequest) -> None:
        if self.choice is not None:
            self._kept.forget(self.planner.name, self.choice.entry.name)
        self.planner.launch(request)
        self.dismiss()

    def _request(self) -> LaunchRequest:
        """What the form describes; FresnelError names the field that is wrong."""
        return LaunchRequest(self._read_form(), self._arguments(), self.form.judged_by)

    def action_verify(self) -> None:
        """Check what stands in the form, and launch it from there."""
        from tui.panel.screens.verify import VerifyScreen

        if self._is_filling:
            self._after_filling = self.action_verify
            return
        try:
            request = self._request()
        except FresnelError as error:
            self.notify(error.message, severity="error", markup=False)
            return

        def answered(launch: bool | None) -> None:
            if launch:
                self._launch(request.checked)

        self.app.push_screen(VerifyScreen(request, self.planner), answered)

    def _replan(self, wanted: int | None = None) -> None:
        if not self.is_open or wanted not in (None, self._plan_number):
            return
        self._plan_number += 1
        number = self._plan_number
        try:
            request = self._request()
        except FresnelError as error:
            self._show_problem(str(error))
            return
        self._show_batch()
        self.planner.plan(
            request,
            lambda plan: self._take_plan(number, request, plan),
            lambda problem: self._take_problem(number, problem),
        )

    def _show_batch(self) -> None:
        text = batch_text(self.form.single, len(self.form.picker.gpus))
        batch = self.query_one("#batch", Static)
        batch.display = bool(text.plain)
        batch.update(text)

    def _take_plan(self, number: int, request: LaunchRequest, plan: FormPlan) -> None:
        """Show a plan, unless what it was made for has changed since."""
        if number != self._plan_number or not self.is_open:
            return
        sweep, (said, variables) = self.form.sweep, environment_lines(plan)
        self.form.show_plan(plan_lines(plan, sweep, self.form.changes()), said, variables)
        self._show_outcome(outcome_text(plan, sweep))
        taken = {uuid: logical for run in plan.runs for uuid, logical in run.devices.items()}
        self.form.picker.show(taken, plan.peaks, request.specs[0].gpus)

    def _take_problem(self, number: int, problem: str) -> None:
        if number == self._plan_number and self.is_open:
            self._show_problem(problem)
            self.form.picker.show({}, {}, None)

    def _show_problem(self, problem: str) -> None:
        if self.is_open:
            text = Text(mask_text(problem), style="red")
            self.form.show_plan(text, "")
            self._show_outcome(Text.assemble(("✘ ", "red"), text))

    def _show_outcome(self, text: Text) -> None:
        self.query_one("#outcome", Static).update(text)


def _holders(snapshot: PanelSnapshot | None) -> tuple[object, ...]:
    """What a plan depends on: which GPUs there are, and who holds them."""
    if snapshot is None or snapshot.reading is None:
        return ()
    return tuple(
        (gpu.uuid, snapshot.leases.get(gpu.uuid), gpu.error) for gpu in snapshot.reading.gpus
    )
