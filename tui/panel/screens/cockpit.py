"""The main screen: meter, GPUs, runs, and the live log of the selected run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.hotkeys import key_name, words_of_key
from tui.panel.notifications import notify_error
from tui.panel.run_commands import RunCommands
from tui.panel.screens.cockpit_base import Cockpit
from tui.panel.screens.cockpit_keys import KEYS, TOUCHING, palette_commands
from tui.panel.screens.cockpit_pages import OF_RUNS, PAGES
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.key_bar import KeyBar
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane
from tui.snapshot.feed import PanelSnapshot

if TYPE_CHECKING:
    from runners.diagnosis.remedy.case import Case
    from tui.panel.run_actions import RunActions


class CockpitScreen(Cockpit):
    """Everything at a glance: is it running, how far, how well, on what, for how much."""

    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, state: StateDirectory, runs: RunCommands, read_only: bool = False) -> None:
        super().__init__(state, runs, read_only)
        self.stands = asyncio.Event()
        """Set once every pane is there to take in snapshots."""
        self._wanted: str | None = None
        self._shown: str | None = None
        self._height = 0
        self._problem = ""

    def compose(self) -> ComposeResult:
        """Meter, two panes, log, search line, keys."""
        yield MeterBar(id="meter")
        with Horizontal(id="upper"):
            yield GpuPane(id="gpus")
            yield RunPane(self.state, id="runs")
        yield LogArea(id="area")
        yield KeyBar()

    def on_mount(self) -> None:
        """The run list has the keys first."""
        self.query_one(RunPane).retitle("Runs", "")
        self.query_one(RunPane).focus()
        first = self.commands.feed.first_snapshot()
        if first is not None:
            self.show(first)
        self.stands.set()
        # Once, when every pane has its size and the first snapshot.
        self.call_after_refresh(self.begin_to_paint)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Hand a new snapshot to every pane."""
        self.snapshot = snapshot
        self.query_one(MeterBar).show(snapshot)
        if snapshot.problem and snapshot.problem != self._problem:
            self.notify(snapshot.problem, severity="error", timeout=10, markup=False)
        self._problem = snapshot.problem
        runs = self.query_one(RunPane)
        shown = self.remote.show(snapshot)
        height = self._upper_height(shown)
        if height != self._height:
            self._height = height
            self.query_one("#upper").styles.height = height
        self.query_one(GpuPane).show(shown)
        runs.show(snapshot, select=self._wanted)
        self._wanted = None
        self._explain()

    def select_when_present(self, run_id: str) -> None:
        """Select this run as soon as a snapshot has it."""
        self._wanted = run_id

    def _upper_height(self, snapshot: PanelSnapshot) -> int:
        """Rows for GPUs and runs: what they need, and never more than half of the screen."""
        reading, height = snapshot.reading, self.app.size.height  # the screen's own comes later
        gpus = max(4, len(reading.gpus) if reading else 0) + (
            1 if reading and reading.problem else 0
        )
        runs = len(snapshot.runs) + self.remote.count
        wanted = max(gpus, min(runs + 1, 9 if height < 40 else 15)) + 2
        return max(6, min(wanted, height // 2))

    @on(RunPane.Selected)
    def _select(self, message: RunPane.Selected) -> None:
        row = message.row
        if self._shown != row.id:
            self._shown = row.id
            self.area.show(*self.remote.log_of(row))
            self._explain()

    def _explain(self) -> None:
        """In the log's place, as long as there is none: why the selected run waits."""
        snapshot = self.snapshot
        runs = snapshot.runs if snapshot else ()
        view = next((one for one in runs if one.run.id == self._shown), None)
        words: list[str] = []
        if snapshot is not None and view is not None and view.run.state is State.QUEUED:
            from tui.views.runs.queue_text import queue_lines

            live = [one for one in runs if one.run.is_live]
            words = queue_lines(view, live, snapshot.leases)
        self.area.explain(tuple(words))

    @on(RunPane.CostsWanted)
    def _look_up_costs(self) -> None:
        self.commands.feed.look_up_costs()

    @on(RunPane.OlderWanted)
    def _load_older(self) -> None:
        self.remote.load_older()

    @on(RunPane.Opened)
    def _open(self) -> None:
        if self.remote.takes("details"):
            return
        from tui.panel.screens.run_detail import RunDetailScreen

        row = self.query_one(RunPane).selected_row
        if row is not None:
            screen = RunDetailScreen(self.state, row.id, self.snapshot)
            self.app.push_screen(screen, lambda then: self._go_on(then))

    def _go_on(self, then: str | None) -> None:
        if then == "log":
            self.area.log_pane.focus()

    def action_focus_pane(self, name: str) -> None:
        """Give a pane the keys."""
        self._unzoom()
        self.set_focus(
            self.query_one(f"#{name}")
        )  # at once: the next key may be one for the focused pane

    def action_zoom(self) -> None:
        """The focused pane on the whole screen, and back."""
        if self.maximized is not None:
            self._unzoom()
        elif isinstance(self.focused, LogPane):
            # With the line to type in, which searching and filtering need there too.
            self.area.show_only(self.focused)
            self.maximize(self.area, container=False)
        elif self.focused is not None:
            self.maximize(self.focused, container=False)

    def _unzoom(self) -> None:
        if self.maximized is not None:
            self.area.show_only(None)
            self.minimize()

    def action_back(self) -> None:
        """Leave what is open: the line to type in, the zoom, then the log."""
        if self.area.asking:
            self.area.close_bar()
        elif self.maximized is not None:
            self._unzoom()
        else:
            self.query_one(RunPane).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Read-only: nothing that touches a run."""
        if self.read_only and action in TOUCHING:
            return False
        return super().check_action(action, parameters)

    def explain_key(self, key: str) -> str:
        """Where a key works that does nothing in the pane in focus; empty when it works nowhere."""
        if self.read_only and any(
            key in binding.key.split(",") and binding.action in TOUCHING
            for binding in self.BINDINGS
            if isinstance(binding, Binding)
        ):
            return "this panel only shows (--read-only): it launches, stops and changes nothing"
        places = ((LogPane, "log", "3"), (RunPane, "runs", "2"), (GpuPane, "GPUs", "1"))
        for pane, name, digit in places:
            if isinstance(self.focused, pane):
                continue
            words = words_of_key(pane.BINDINGS, key)
            if words:
                return f"{key_name(key)} works in the {name} pane (press {digit}): {words}"
        return ""

    # ---- what opens above the cockpit; imported when first opened: the first paint does not wait

    def action_launch(self) -> None:
        """Open the launch dialog."""
        self._open_launch(None)

    def action_again(self) -> None:
        """Open the launch dialog filled in as the selected run was launched."""
        if self.remote.takes("again"):
            return
        run = self.selected_run
        if run is None:
            self.notify("no run is selected", timeout=3)
        else:
            self._open_launch(run)

    def action_resume(self) -> None:
        """Open the launch dialog to go on from the selected run's newest checkpoint."""
        if self.remote.takes("resume"):
            return
        run = self.selected_run
        if run is None:
            self.notify("no run is selected", timeout=3)
        else:
            self._open_launch(run, resume=True)

    def _open_launch(self, again: Run | None, resume: bool = False) -> None:
        from tui.panel.screens.launch import LaunchRequest, LaunchScreen

        def answered(wanted: LaunchRequest | None) -> None:
            if wanted is not None:
                self.commands.log.note(wanted.words)
                self.commands.start(wanted.specs, self.select_when_present, wanted.judged_by)

        try:
            screen = LaunchScreen(self.state, self.snapshot, again, resume)
        except FresnelError as error:
            notify_error(self.app, str(error))
        else:
            self.app.push_screen(screen, answered)

    def action_stop(self) -> None:
        """Ask whether the chosen run, or runs, shall stop."""
        if self.remote.takes("stop"):
            return
        pane = self.query_one(RunPane)
        if len(pane.chosen) > 1:
            self.actions.stop(self.chosen_runs, pane.forget_marks)
            return
        view = pane.view_of(pane.chosen[0].id) if pane.chosen else None
        if view is None or not view.run.is_live:
            words = "the selected run has ended already" if view else "no run is selected"
            self.notify(words, timeout=3)
            return
        run = view.run

        def answered(how: str | None) -> None:
            if how:
                self.commands.stop(run, force=how == "kill")
                pane.forget_marks()

        from tui.panel.screens.stop import StopScreen

        self.app.push_screen(StopScreen(view), answered)

    @property
    def actions(self) -> RunActions:
        """What keys do to runs, asked for first."""
        from tui.panel.run_actions import RunActions

        return RunActions(self.app, self.commands, self.commands.labels)

    def action_runs(self, what: str) -> None:
        """Do something to the chosen runs, or to the first of them."""
        if what != "undo" and self.remote.takes(what):
            return
        runs, actions = self.chosen_runs, self.actions
        done = self.query_one(RunPane).forget_marks
        if what == "undo":
            actions.undo()
        elif not runs:
            self.notify("no run is selected", timeout=3)
        elif what == "delete":
            actions.delete(runs, done)
        elif what == "kill":
            actions.kill(runs)
        elif what == "rename":
            actions.rename(runs[0])
        elif what == "tag":
            actions.tag(runs)
        elif what == "note":
            actions.note(runs[0])
        elif what == "star":
            actions.star(runs)
        else:
            actions.priority(runs, 1 if what == "sooner" else -1)

    def action_stop_group(self) -> None:
        """Ask whether all runs of the selected run's group shall stop."""
        if self.remote.takes("stop_group"):
            return
        row, snapshot = self.query_one(RunPane).selected_row, self.snapshot
        if row is None or snapshot is None or not row.group:
            self.notify("the selected run is in no group", timeout=3)
            return
        runs = [view.run for view in snapshot.runs if view.run.plan is not None]
        mine = [run for run in runs if run.plan is not None and run.plan.spec.group == row.group]
        self.actions.stop(mine, self.query_one(RunPane).forget_marks)

    def action_stop_all(self) -> None:
        """Ask whether every live run shall stop."""
        runs = [view.run for view in self.snapshot.runs] if self.snapshot else []
        self.actions.stop(runs, self.query_one(RunPane).forget_marks)

    def action_remedy(self) -> None:
        """Say why the selected run ended, and offer what mends it."""
        if self.remote.takes("remedy"):
            return
        run = self.selected_run
        if run is None or run.is_live:
            words = "the selected run has not ended" if run else "no run is selected"
            self.notify(words, timeout=3)
            return
        from tui.panel.screens.remedy import RemedyScreen

        def answered(chosen: tuple[Case, str] | None) -> None:
            if chosen is not None:
                self.commands.apply_remedy(*chosen, self.select_when_present)

        self.app.push_screen(RemedyScreen(self.state, run), answered)

    def action_drain(self) -> None:
        """Ask whether the queue shall be drained, or go on."""
        from tui.panel.screens.dialogs import QuestionScreen

        snapshot = self.snapshot
        on = not (snapshot is not None and snapshot.drained)
        live = sum(view.run.is_live for view in snapshot.runs) if snapshot else 0
        if on:
            words = f"{live} live runs go on; no new run starts until drain is ended."
            question = QuestionScreen("Drain?", words, "Drain")
        else:
            words = f"Drained {snapshot.drained if snapshot else ''}. Waiting runs may start again."
            question = QuestionScreen("End the drain?", words, "Let the queue go on")
        self.app.push_screen(question, lambda yes: self.commands.drain(on) if yes else None)

    def action_postpone(self) -> None:
        """Ask for how long the guard shall hold back."""
        from tui.panel.screens.guard_form import ask_to_postpone

        ask_to_postpone(self.app, self.money, self.snapshot.guard if self.snapshot else None)

    @on(GpuPane.DetailsWanted)
    def _open_gpu(self, message: GpuPane.DetailsWanted) -> None:
        from tui.panel.screens.gpu_detail import GpuDetailScreen

        machine = self.query_one(GpuPane).machines.get(message.uuid, "")
        if machine:
            words = f"`fresnel-tui gpus --host {machine}` shows everything about its GPUs"
            self.notify(words, timeout=6, markup=False)
        elif self.snapshot is not None:
            self.app.push_screen(GpuDetailScreen(self.state, self.snapshot, message.uuid))

    def system_commands(self) -> Iterable[SystemCommand]:
        """What the palette offers of all this."""
        return palette_commands(self, self.read_only)

    def action_page(self, name: str) -> None:
        """Open a screen above this one."""
        if name not in OF_RUNS or not self.remote.takes(name):
            PAGES[name](self)

    def action_next_machine(self) -> None:
        """The GPUs of the next machine."""
        self.remote.next_machine()

    def on_screen_resume(self) -> None:
        """Another screen may have followed other logs."""
        self.remote.follow()

    def on_unmount(self) -> None:
        """The links of other machines end with the panel."""
        self.remote.stop()

    # ---- the log

    def action_search(self) -> None:
        """Open the search line."""
        self.area.ask("search")

    def action_filter(self) -> None:
        """Open the line to type a filter in."""
        self.area.ask("filter")

    async def action_split(self) -> None:
        """Pin the log beside the next one, or close it."""
        self._unzoom()
        await self.area.toggle_split()
