"""The main screen: meter, GPUs, runs, and the live log of the selected run."""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.cockpit.cockpit_parts import WIDE, CockpitParts
from tui.panel.cockpit.keys import KEYS, TOUCHING
from tui.panel.cockpit.upper_part import ReasonLine, Split
from tui.panel.hotkeys import acts_itself, key_meaning, key_name
from tui.panel.run_commands import RunCommands
from tui.panel.terminal.repainting import PaintedOnce
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.key_bar import KeyBar
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.run_messages import (
    CostsWanted,
    OlderRunsWanted,
    RunOpened,
    RunSelected,
    TableShown,
)
from tui.panel.widgets.runs import RunPane
from tui.snapshot.feed import PanelSnapshot

if TYPE_CHECKING:
    from tui.panel.cockpit.machine_actions import Machines
    from tui.panel.cockpit.place_pages import PlacePages
    from tui.panel.cockpit.run_actions import RunActions
    from tui.panel.cockpit.run_pages import RunPages
    from tui.panel.places import PlaceOfRuns


READ_ONLY = "this panel only shows (--read-only): it launches, stops and changes nothing"
ONLY_HERE = "only processes of this machine are ended from here"
NO_HOLDER = "no run holds this GPU: there is none to stop"


class CockpitScreen(PaintedOnce[None]):
    """Everything at a glance: is it running, how far, how well, on what, for how much."""

    AUTO_FOCUS = "RunPane"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, state: StateDirectory, runs: RunCommands, read_only: bool = False) -> None:
        super().__init__()
        self.parts = CockpitParts(self, state, runs, read_only)
        self.commands, self.read_only, self.remote = runs, read_only, self.parts.remote
        runs.started = self.select_when_present
        self.stands = asyncio.Event()
        """Set once every pane is there to take in snapshots."""
        self._wanted: str | None = None
        self._shown: str | None = None
        self._named = ""
        self._height = 0
        self._split = Split(state, is_kept=not read_only)
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield MeterBar(id="meter")
        with Horizontal(id="upper"):
            yield GpuPane(id="gpus")
            yield RunPane(id="runs")
        yield ReasonLine(id="reason")
        yield LogArea(id="area")
        yield KeyBar()

    def on_mount(self) -> None:
        """The run list has the keys first."""
        self.query_one(RunPane).retitle("Runs", "")
        # Also where the terminal has not got the focus yet, as in a browser.
        self.query_one(RunPane).focus()
        if (first := self.commands.feed.first_snapshot()) is not None:
            self.show(first)
        self.stands.set()
        # Once, when every pane has its size and the first snapshot.
        self.call_after_refresh(self.begin_to_paint)
        self.call_after_refresh(self._explain)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Hand a new snapshot to every pane."""
        self.parts.snapshot = snapshot
        self.query_one(MeterBar).show(snapshot)
        # Once: the same problem comes with every snapshot until it is mended.
        if snapshot.problem and snapshot.problem != self._problem:
            self.notify(snapshot.problem, severity="error", timeout=10, markup=False)
        self._problem = snapshot.problem
        runs = self.query_one(RunPane)
        shown = self.remote.show(snapshot)
        self._lay_out(shown)
        self.query_one(GpuPane).show(shown)
        runs.show(snapshot, select=self._wanted)
        self._wanted = None
        self._explain()

    def _lay_out(self, snapshot: PanelSnapshot) -> None:
        """Give the upper part its rows, and the GPUs their share of it."""
        # The application's size: the screen's own comes later.
        height = self._split.height(snapshot, self.remote.count, self.app.size.height)
        if height != self._height:
            self._height = height
            self.query_one("#upper").styles.height = height
        self._split.widen(self.query_one(GpuPane), self.app.size.width)

    def action_move_split(self, down: int, right: int) -> None:
        """Move the border above the log, or the one between GPUs and runs."""
        if not self._split.move(down, right, self._height, self.query_one(GpuPane)):
            self.notify("the border goes no further", timeout=3)
        if self.snapshot is not None:
            self._lay_out(self.snapshot)

    def select_when_present(self, run_id: str) -> None:
        """Select this run as soon as a snapshot has it."""
        self._wanted = run_id

    @on(RunSelected)
    @on(TableShown)
    def _show_selected(self) -> None:
        pane = self.query_one(RunPane)
        self.query_one(ReasonLine).show(pane)
        row = pane.selected_row
        # Both are said anew with each snapshot that changes the row.
        if row is not None and (self._shown, self._named) != (row.id, row.name):
            self._shown, self._named = row.id, row.name
            self.area.show(*self.remote.log_of(row))
            self._explain()
        elif self._shown and not (self.remote.count or (self.snapshot and self.snapshot.runs)):
            self._shown = None  # the last run was deleted, or taken out of the queue
            self.area.show(None, "")
            self._explain()

    def _explain(self) -> None:
        """In the log's place, while there is none: why the run waits; beside it: its chart."""
        snapshot = self.snapshot
        runs = snapshot.runs if snapshot else ()
        view = next((run_view for run_view in runs if run_view.run.id == self._shown), None)
        lines: list[str] = []
        if snapshot is not None and snapshot.problem and not runs:
            lines = [snapshot.problem]
        elif snapshot is not None and not self.read_only and not (runs or self.remote.count):
            from tui.panel.cockpit.first_steps import first_steps

            lines = first_steps(snapshot)
        if snapshot is not None and view is not None and view.run.state is State.QUEUED:
            from tui.views.runs.queue_text import queue_lines

            live = [run_view for run_view in runs if run_view.run.is_live]
            lines = queue_lines(view, live, snapshot.leases)
        self.area.explain(tuple(lines))
        if self.stands.is_set() and ("pages" in vars(self) or self.app.size.width >= WIDE):
            self.pages.chart.show()

    @on(CostsWanted)
    def _look_up_costs(self) -> None:
        self.commands.feed.look_up_costs()

    @on(OlderRunsWanted)
    def _load_older(self) -> None:
        self.remote.load_older()

    @on(RunOpened)
    def _open(self) -> None:
        self.pages.open("details")

    def action_focus_pane(self, name: str) -> None:
        """Give a pane the keys."""
        self._unzoom()
        # At once: the next key may be one for the focused pane.
        self.set_focus(self.query_one(f"#{name}"))

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
            self.minimize()

    def minimize(self) -> None:
        """Every pane again: Textual asks for it at Esc, too."""
        self.area.show_only(None)
        super().minimize()

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

    def on_key(self, event: events.Key) -> None:
        """Say where a key works that does nothing where it was pressed."""
        if acts_itself(self.focused, event.key):
            return  # told soon: the active bindings are worked out from the whole screen
        explanation = self.explain_key(event.key)
        if explanation and event.key not in self.active_bindings:
            self.notify(explanation, timeout=4, markup=False)

    def explain_key(self, key: str) -> str:
        """Where a key works that does nothing in the pane in focus; empty when it works nowhere."""
        if self.read_only and any(
            key in binding.key.split(",") and binding.action.partition("(")[0] in TOUCHING
            for binding in self.BINDINGS
            if isinstance(binding, Binding)
        ):
            return READ_ONLY
        places = ((LogPane, "log", "3"), (RunPane, "runs", "2"), (GpuPane, "GPUs", "1"))
        for pane, name, digit in places:
            if isinstance(self.focused, pane):
                continue
            explanation = key_meaning(pane.BINDINGS, key)
            if explanation:
                return f"{key_name(key)} works in the {name} pane (press {digit}): {explanation}"
        return ""

    # ---- who carries out what is asked for; imported when first needed

    @property
    def area(self) -> LogArea:
        """The logs."""
        return self.parts.area

    @property
    def snapshot(self) -> PanelSnapshot | None:
        """The newest."""
        return self.parts.snapshot

    @cached_property
    def pages(self) -> RunPages:
        """What opens for the chosen runs."""
        from tui.panel.cockpit.run_pages import RunPages

        return RunPages(self.parts, self.places)

    @cached_property
    def places(self) -> PlaceOfRuns:
        """Where the runs live, to be asked."""
        from tui.panel.places import PlaceOfRuns

        view_of, find = self.parts.view_of, self.remote.place
        return PlaceOfRuns(self.app, self.commands.local_place, find, view_of)

    @cached_property
    def actions(self) -> RunActions:
        """What keys do to runs, asked for first."""
        from tui.panel.cockpit.run_actions import RunActions

        pane, again = self.query_one(RunPane), partial(self.pages.launch, "again")
        return RunActions(self.app, self.commands, self.places, pane, again)

    @cached_property
    def machines(self) -> Machines:
        """What is done about rented machines."""
        from tui.panel.cockpit.machine_actions import Machines

        return Machines(self.parts, self.places)

    @cached_property
    def place_pages(self) -> PlacePages:
        """What opens for a machine."""
        from tui.panel.cockpit.place_pages import PlacePages

        return PlacePages(self.parts, self.places)

    # ---- keys

    def action_launch(self, how: str) -> None:
        """Open the launch form: `new`, `again` for the selected run, or to `resume` it."""
        self.pages.launch(how)

    def action_runs(self, what: str) -> None:
        """Do something to the chosen runs, or to the first of them."""
        self.actions.act(what)

    def action_page(self, name: str) -> None:
        """Open a page for the chosen runs."""
        self.pages.open(name)

    def action_machine(self, what: str) -> None:
        """Do something about the machine that is shown, or that the selected run is on."""
        self.machines.act(what)

    def action_machines(self) -> None:
        """Every rented machine, and what can be done about it."""
        self.machines.open()

    def action_money(self) -> None:
        """What everything costs; session and guard."""
        self.place_pages.money()

    def action_commands(self) -> None:
        """What was done here, as commands."""
        from tui.panel.screens.commands import CommandScreen

        self.app.push_screen(CommandScreen(self.commands.log))

    def action_drain(self) -> None:
        """Ask whether the queue shall be drained, or go on."""
        self.place_pages.drain()

    def action_postpone(self) -> None:
        """Ask for how long the guard shall hold back."""
        self.place_pages.postpone()

    @on(GpuPane.DetailsWanted)
    def _open_gpu(self, message: GpuPane.DetailsWanted) -> None:
        from tui.panel.screens.gpu_detail import GpuDetailScreen

        machine = self.query_one(GpuPane).machines.get(message.uuid, "")
        hosts = self.remote.hosts
        of = partial(hosts.gpu_snapshot, where=machine) if machine and hosts else None
        if self.snapshot is not None:
            self.app.push_screen(GpuDetailScreen(self.parts.state, self.snapshot, message.uuid, of))

    @on(GpuPane.StopWanted)
    def _stop_holders(self, message: GpuPane.StopWanted) -> None:
        if self.read_only:
            self.notify(READ_ONLY, markup=False)
            return
        self.actions.stop_of(message.machine, message.runs, NO_HOLDER)

    @on(GpuPane.EndWanted)
    def _end_strangers(self, message: GpuPane.EndWanted) -> None:
        if self.read_only or message.machine:
            self.notify(READ_ONLY if self.read_only else ONLY_HERE, markup=False)
        else:
            self.actions.end_strangers(message.processes)

    def action_next_machine(self) -> None:
        """The GPUs of the next machine."""
        self.remote.next_machine()

    def on_screen_resume(self) -> None:
        """Another screen may have followed other logs, or lain over this one's."""
        self.remote.follow()
        for pane in self.area.query(LogPane):
            pane.paint()

    def on_unmount(self) -> None:
        """The links of other machines end with the panel."""
        self.remote.stop()

    def action_ask(self, purpose: str) -> None:
        """Open the line to type in, for a `search` or a `filter` of the log."""
        self.area.ask(purpose)

    async def action_split(self) -> None:
        """Pin the log beside the next one, or close it."""
        self._unzoom()
        await self.area.toggle_split()
