"""The launch form: a preset or a command, its values, GPUs, and the plan exactly as it will run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from runners.model.errors import FresnelError, WrongInput
from runners.model.masking import mask_text
from runners.model.spec import RunSpec
from tui.panel.launch_planner import LaunchPlanner, LaunchRequest, holders_of
from tui.panel.screen_keys import LAUNCH_KEYS
from tui.panel.screens.dialogs import FormDialog, form_buttons, if_answered, is_open
from tui.panel.screens.launch_checks import FormChecks
from tui.panel.screens.launch_plan_text import (
    environment_lines,
    form_keys,
    form_title,
    outcome_text,
    plan_lines,
    show_batch,
)
from tui.panel.terminal.key_order import release_keys
from tui.panel.widgets.launch.command_input import CommandInput
from tui.panel.widgets.launch.fields import FormField
from tui.panel.widgets.launch.form import LaunchForm
from tui.panel.widgets.launch.kept_drafts import KeptDrafts, OpenDraft
from tui.panel.widgets.launch.plan_view import OutcomeLines, PlanView
from tui.panel.widgets.launch.preset_list import PresetList, about_choice
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.questions import LaunchQuestion
from tui.views.runs.form_plan import FormPlan
from tui.views.runs.launch_choices import LaunchChoice, LaunchChoices, own_command

NOT_LAUNCHED = "typed, and not launched"
_WIDTHS = [(0, "-narrow"), (100, "-broad"), (160, "-vast")]
_TYPED_WITHIN_S = 0.1
"""Between two keys of somebody who types on: a plan waits for the last of them."""


class LaunchScreen(FormDialog):
    """Launches what was chosen on the machine that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = LAUNCH_KEYS
    HORIZONTAL_BREAKPOINTS = _WIDTHS

    def __init__(
        self,
        planners: Sequence[LaunchPlanner],
        planner: LaunchPlanner,
        snapshot: PanelSnapshot | None,
        kept: KeptDrafts,
        old: LaunchChoice | None = None,
    ) -> None:
        """`planner` is the machine shown first; `old` a run of it that stands first, filled in."""
        super().__init__()
        self.planners = planners
        self.planner = planner
        self.snapshot = snapshot and planner.snapshot(snapshot)
        self.choice: LaunchChoice | None = None
        self._plan_number = 0
        """How often a plan was asked for: only the newest is shown."""
        self._old = {} if old is None else {planner.name: old}
        self._draft = OpenDraft(kept)
        self._checks = FormChecks(self, self._launch, self._replan)
        self._is_filling = False
        self._after_filling: Callable[[], None] | None = None
        """What a key asked for while the fields were being filled: half of them say nothing."""
        self._is_read_anew = False
        """What is chosen is filled in again, although it may look the same."""
        self._moves = False
        """Another machine's presets are being read: what is typed until then goes along."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            with Horizontal():
                yield PresetList(self.snapshot, id="presets")
                yield LaunchForm(self.snapshot, id="form")
            yield Static(id="fieldhelp")
            yield OutcomeLines(id="outcome")
            yield from form_buttons("Launch", "launch")

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
        return [*filter(None, [self._old.get(self.planner.name)]), own_command()]

    def _show_machine(self) -> None:
        name, several = self.planner.name, len(self.planners) > 1
        dialog = self.query_one(".dialog", Vertical)
        dialog.border_title = Content(form_title(self.choice, name, several))
        dialog.border_subtitle = form_keys(name, several)
        self.form.machine = name
        self.form.describe_gpus()

    def action_choose_machine(self) -> None:
        """Choose another machine, or whichever suits; what was typed goes along."""
        from tui.panel.screens.machine_choice import choose_machine

        choose_machine(self.app, self.planners, self.planner, self._move_to)

    def _move_to(self, planner: LaunchPlanner) -> None:
        name = self.choice.entry.name if self.choice is not None else ""
        self.planner, self._moves, self.choice = planner, True, None
        self._checks.change()
        if (snapshot := getattr(self.app, "snapshot", None)) is not None:
            self.show(snapshot)
        self._show_machine()
        self._read_presets(name)

    @property
    def presets(self) -> PresetList:
        """The list of what can be launched."""
        return self.query_one(PresetList)

    @property
    def form(self) -> LaunchForm:
        """The fields."""
        return self.query_one(LaunchForm)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot: a first reading, a GPU that came free; what was typed stays."""
        if not is_open(self):
            return
        before, self.snapshot = self.snapshot, self.planner.snapshot(snapshot)
        self.presets.snapshot = self.snapshot
        self.form.take(self.snapshot)
        if holders_of(before) != holders_of(self.snapshot):
            self.form.describe_gpus()
            self._replan()

    # ---- what there is to launch

    def _read_presets(self, changed: str = "") -> None:
        listed = partial(self._list_presets, self.planner, changed)
        self.planner.ask(LaunchQuestion.CHOICES, None, listed, self._cannot_list)

    def _cannot_list(self, problem: str) -> None:
        if not is_open(self):
            return
        # A command can still be typed; keys do not wait for presets that will not come.
        self.presets.set_choices(self._own_choices)
        self.notify(problem, severity="error", timeout=10, markup=False)

    def _list_presets(self, planner: LaunchPlanner, changed: str, found: LaunchChoices) -> None:
        """List them; one that was `changed` is read anew, else what is being edited stays."""
        # F8 may have gone on to the next machine while these were read.
        if not is_open(self) or planner is not self.planner:
            return
        choices = [*self._own_choices, *found.choices]
        self._is_read_anew = bool(changed)
        chosen = self.choice.entry.name if self.choice is not None else ""
        if not chosen and not self._old:
            chosen = self._draft.newest(planner.name)
        self.presets.set_choices(choices, changed or chosen)

    @on(PresetList.ChoiceMoved)
    async def _choose(self, message: PresetList.ChoiceMoved) -> None:
        if not is_open(self) or (message.choice == self.choice and not self._is_read_anew):
            return
        if self.presets.has_left(message.choice):
            return
        keeps, self._moves = self._moves, False
        if not keeps and not self._is_read_anew and not self._is_filling:
            self._draft.keep(self.form.typed())
        self.choice, self._is_read_anew = message.choice, False
        self._show_machine()
        kept = self._draft.begin(self.planner.name, message.choice.entry.name)
        self.query_one("#about", Static).update(about_choice(message.choice, bool(kept)))
        self._plan_view.clear()
        self._is_filling = True
        await self.form.load(message.choice, kept, keeps)
        self._draft.filled({} if keeps else self.form.typed())
        self._is_filling = False
        self._replan()
        after, self._after_filling = self._after_filling, None
        if after is not None:
            after()

    @on(PresetList.ChoiceEntered)
    def _to_form(self, message: PresetList.ChoiceEntered) -> None:
        if not is_open(self):
            return
        if message.typed:
            self.form.type_command(message.typed)
        shown = self.focus_chain  # without those of the part that is folded
        if fields := [field for field in self.form.query(FormField) if field.input in shown]:
            # The list folds away meanwhile: scrolled to where it stood, the field would be gone.
            fields[0].input.focus(scroll_visible=False)
            self.form.scroll_home(animate=False)
        release_keys(self.app)

    # ---- the form

    @on(events.DescendantFocus)
    def _make_room(self, event: events.DescendantFocus) -> None:
        """While one types in the form, the list stands aside where the form needs its cells."""
        above = list(event.widget.ancestors)
        if self.form in above or self.presets in above:
            draft = self.form.single
            is_own = draft is not None and draft.has_command
            self.presets.stand_aside(self.form in above, is_own)

    @on(CommandInput.PathsFound)
    def _show_paths(self, message: CommandInput.PathsFound) -> None:
        """How a path may go on; as a shell lists it."""
        self.query_one("#fieldhelp", Static).update(Text("  ".join(message.names), style="bold"))

    @on(LaunchForm.FormChanged)
    def _changed(self) -> None:
        self._draft.goes_on()
        self._checks.change()
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
            raise WrongInput("no preset is chosen yet")
        if self.choice.entry.problem:
            raise WrongInput(self.choice.entry.problem)
        return self.form.specs()

    # ---- leaving, and beginning anew

    def action_leave(self) -> None:
        """Close the form; what was typed is kept, and Esc asks for it twice."""
        typed = None if self._is_filling else self.form.typed()
        if self._draft.may_leave(typed):
            self.dismiss()
        else:
            notice = f"{NOT_LAUNCHED}: Esc again closes, and keeps it for the next time"
            self.query_one("#fieldhelp", Static).update(Text(notice, style="yellow"))

    async def action_begin_anew(self) -> None:
        """Forget what was typed."""
        if self.choice is None or not self.form.typed():
            self.notify("nothing was typed yet", timeout=4)
            return
        self._draft.forget()
        self._is_read_anew = True
        await self._choose(PresetList.ChoiceMoved(self.choice))

    # ---- presets kept and edited

    def action_save(self) -> None:
        """Keep what stands in the form as a preset of one's own."""
        from tui.panel.screens.save_preset import presets_are_here, save_form

        if presets_are_here(self.app, self.planner.name):
            save_form(self, self.form, self._read_form, self._read_presets)

    def action_edit(self) -> None:
        """Open the preset's file in an editor; what is wrong with it then is said here."""
        from tui.panel.screens.save_preset import edit_choice, presets_are_here

        if presets_are_here(self.app, self.planner.name):
            edit_choice(self.app, self.choice, self._read_presets)

    # ---- the plan

    @on(Button.Pressed, "#launch")
    def action_launch(self) -> None:
        if self._is_filling:
            self._after_filling = self.action_launch
            return
        try:
            self._checks.launch(self.planner, self._request(), self._plan_number)
        except FresnelError as error:
            self._show_problem(str(error))
            self.notify(mask_text(error.message), severity="error", markup=False)

    def _launch(self, request: LaunchRequest) -> None:
        # What is refused stands there again the next time.
        self.planner.launch(request, self._draft.hold(self.form.typed()))
        self.dismiss()

    def _request(self) -> LaunchRequest:
        """What the form describes; FresnelError names the field that is wrong."""
        specs = self._read_form()
        assert self.choice is not None
        return LaunchRequest(specs, self.form.command_of(self.choice), self.form.judged_by)

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
        launch = if_answered(lambda _: self._checks.start(request.checked))
        self.app.push_screen(VerifyScreen(request, self.planner), launch)

    def _replan(self, wanted: int | None = None) -> None:
        if not is_open(self) or self._is_filling or wanted not in (None, self._plan_number):
            return
        self._plan_number += 1
        number = self._plan_number
        try:
            request = self._request()
        except FresnelError as error:
            self._show_problem(str(error))
            return
        show_batch(self.form)
        self._plan_view.begin()
        take = partial(self._take_plan, number, request)
        self.planner.plan(request, take, partial(self._take_problem, number))

    def _take_plan(self, number: int, request: LaunchRequest, plan: FormPlan) -> None:
        """Show a plan, unless what it was made for has changed since."""
        if number != self._plan_number or not is_open(self):
            return
        sweep, (summary, variables) = self.form.sweep, environment_lines(plan)
        lines = plan_lines(plan, sweep, self.form.changes())
        self._plan_view.show(outcome_text(plan, sweep), lines, summary, variables)
        if plan.checks:
            self._checks.check(self.planner, request, number, partial(outcome_text, plan, sweep))
        self.form.picker.show(plan.devices, plan.peaks, request.specs[0].gpus)

    def _take_problem(self, number: int, problem: str) -> None:
        if number == self._plan_number and is_open(self):
            self._show_problem(problem)
            self.form.picker.show({}, {}, None)

    def _show_problem(self, problem: str) -> None:
        if is_open(self):
            self._plan_view.show_problem(problem)

    @property
    def _plan_view(self) -> PlanView:
        return self.query_one(PlanView)
