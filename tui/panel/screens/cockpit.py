"""The main screen: meter, GPUs, runs, and the live log of the selected run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer

from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.feed import PanelSnapshot
from tui.panel.hotkeys import hotkey, key_name, words_of_key
from tui.panel.notifications import notify_error
from tui.panel.run_commands import RunCommands
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane
from tui.views.run_view import RunView

if TYPE_CHECKING:
    from runners.lifecycle.remedy.case import Case
    from tui.panel.money_commands import MoneyCommands
    from tui.panel.run_actions import RunActions

_TOUCHING = frozenset(
    {
        *("launch", "again", "resume", "stop", "stop_group", "stop_all", "drain", "postpone"),
        *("remedy", "runs"),
    }
)
"""Actions that change something: a panel that only shows has none of them."""
_MOST_CURVES = 32


class CockpitScreen(Screen[None]):
    """Everything at a glance: is it running, how far, how well, on what, for how much."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("n", "launch", "launch a run", "Launch"),
        hotkey("a", "again", "launch the selected run again, or a variation of it"),
        hotkey("r", "resume", "go on from the newest checkpoint of the selected run"),
        hotkey("s", "stop", "stop the selected run; again: its next step, now", "Stop"),
        hotkey("d", "remedy", "why the selected run ended, and what to do about it"),
        hotkey("T", "stacks", "where every rank of the selected run is, or was when it hung"),
        hotkey("slash", "search", "search in the log; text, or /regex/", "Search", display="/"),
        hotkey("ampersand", "filter", "only the lines that match; Esc: all again", display="&"),
        hotkey("vertical_line", "split", "pin this log beside another; again: unpin", display="|"),
        hotkey("1", "focus_pane('gpus')", "GPUs, runs, log"),
        hotkey("2", "focus_pane('runs')", "GPUs, runs, log"),
        hotkey("3,l", "focus_pane('log')", "GPUs, runs, log"),
        hotkey("z", "zoom", "zoom the focused pane; again or Esc: back"),
        hotkey("m", "metrics", "metrics: curves of one run or several"),
        hotkey("I", "pictures", "pictures that the selected run wrote, by epoch"),
        hotkey(
            "equals_sign",
            "compare",
            "compare the marked runs: what differs, and which is best",
            display="=",
        ),
        hotkey("escape", "back", "leave what is open: the zoom, then the log"),
        hotkey("dollar_sign", "money", "money and guard: costs, session, budget", display="$"),
        hotkey("p", "postpone", "postpone the guard; asks for how long"),
        hotkey("D", "drain", "drain: running jobs finish, no new ones start; asks"),
        hotkey("H", "hosts", "rented machines: their GPUs, runs and logs"),
        hotkey("c", "commands", "what was done here, as commands to copy into a script"),
        hotkey("comma", "app.settings", "settings: theme, mouse, notices", display=","),
        hotkey("M", "app.mouse", "give the mouse back to the terminal, or take it"),
        hotkey("question_mark", "app.help", "this page", "Help", display="?"),
        hotkey("q", "app.quit", "quit; runs go on", "Quit"),
    ]

    def __init__(self, state: StateDirectory, runs: RunCommands, read_only: bool = False) -> None:
        super().__init__()
        self.state = state
        self.commands = runs
        self._money: MoneyCommands | None = None
        self.read_only = read_only
        self.picture: PanelSnapshot | None = None
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
        yield Footer(show_command_palette=True)

    def on_mount(self) -> None:
        """The run list has the keys first."""
        self.query_one("#runs").border_title = "Runs"
        self.query_one(RunPane).focus()

    def show(self, picture: PanelSnapshot) -> None:
        """Hand a new picture to every pane."""
        self.picture = picture
        self.query_one(MeterBar).show(picture)
        if picture.problem and picture.problem != self._problem:
            self.notify(picture.problem, severity="error", timeout=10, markup=False)
        self._problem = picture.problem
        runs = self.query_one(RunPane)
        height = self._upper_height(picture)
        if height != self._height:
            self._height = height
            self.query_one("#upper").styles.height = height
        self.query_one(GpuPane).show(picture)
        runs.show(picture, select=self._wanted)
        self._wanted = None
        self._explain()

    def select_when_present(self, run_id: str) -> None:
        """Select this run as soon as a picture has it."""
        self._wanted = run_id

    @property
    def selected_run(self) -> Run | None:
        """The run under the cursor."""
        view = self.query_one(RunPane).selected
        return view.run if view else None

    def _upper_height(self, picture: PanelSnapshot) -> int:
        """Rows for GPUs and runs: what they need, and never more than half of the screen."""
        reading = picture.reading
        gpus = max(4, len(reading.gpus) if reading else 0) + (
            1 if reading and reading.problem else 0
        )
        wanted = max(gpus, min(len(picture.runs) + 1, 9 if self.size.height < 40 else 15)) + 2
        return max(6, min(wanted, self.size.height // 2))

    @on(RunPane.Selected)
    def _select(self, message: RunPane.Selected) -> None:
        row = message.row
        if self._shown != row.id:
            self._shown = row.id
            self.area.show(self.state.run(row.id).output, f"{row.name} · output.log")
            self._explain()

    def _explain(self) -> None:
        """In the log's place, as long as there is none: why the selected run waits."""
        picture = self.picture
        runs = picture.runs if picture else ()
        view = next((one for one in runs if one.run.id == self._shown), None)
        words: list[str] = []
        if picture is not None and view is not None and view.run.state is State.QUEUED:
            from tui.views.queue_text import queue_lines

            live = [one for one in runs if one.run.is_live]
            words = queue_lines(view, live, picture.leases)
        self.area.explain(tuple(words))

    @on(RunPane.CostsWanted)
    def _look_up_costs(self) -> None:
        self.commands.feed.look_up_costs()

    @on(RunPane.Opened)
    def _open(self) -> None:
        from tui.panel.screens.run_detail import RunDetailScreen

        row = self.query_one(RunPane).selected_row
        if row is not None:
            screen = RunDetailScreen(self.state, row.id, self.picture)
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

    @property
    def area(self) -> LogArea:
        """The logs."""
        return self.query_one(LogArea)

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
        if self.read_only and action in _TOUCHING:
            return False
        return super().check_action(action, parameters)

    def explain_key(self, key: str) -> str:
        """Where a key works that does nothing in the pane in focus; empty when it works nowhere."""
        if self.read_only and any(
            key in binding.key.split(",") and binding.action in _TOUCHING
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
        run = self.selected_run
        if run is None:
            self.notify("no run is selected", timeout=3)
        else:
            self._open_launch(run)

    def action_resume(self) -> None:
        """Open the launch dialog to go on from the selected run's newest checkpoint."""
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
                self.commands.start(wanted.specs, self.select_when_present)

        try:
            screen = LaunchScreen(self.state, self.picture, again, resume)
        except FresnelError as error:
            notify_error(self.app, str(error))
        else:
            self.app.push_screen(screen, answered)

    def action_stop(self) -> None:
        """Ask whether the chosen run, or runs, shall stop."""
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
    def chosen_runs(self) -> list[Run]:
        """The marked runs, else those of the folded group, else the one under the cursor."""
        pane = self.query_one(RunPane)
        views = [pane.view_of(row.id) for row in pane.chosen]
        return [view.run for view in views if view is not None]

    @property
    def actions(self) -> RunActions:
        """What keys do to runs, asked for first."""
        from tui.panel.run_actions import RunActions

        return RunActions(self.app, self.commands, self.commands.labels)

    def action_runs(self, what: str) -> None:
        """Do something to the chosen runs, or to the first of them."""
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
        row, picture = self.query_one(RunPane).selected_row, self.picture
        if row is None or picture is None or not row.group:
            self.notify("the selected run is in no group", timeout=3)
            return
        runs = [view.run for view in picture.runs if view.run.plan is not None]
        mine = [run for run in runs if run.plan is not None and run.plan.group == row.group]
        self.actions.stop(mine, self.query_one(RunPane).forget_marks)

    def action_stop_all(self) -> None:
        """Ask whether every live run shall stop."""
        runs = [view.run for view in self.picture.runs] if self.picture else []
        self.actions.stop(runs, self.query_one(RunPane).forget_marks)

    def action_remedy(self) -> None:
        """Say why the selected run ended, and offer what mends it."""
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

    def action_stacks(self) -> None:
        """Show where every rank is instead of the output, and back."""
        from tui.panel.stack_log import show_stacks

        run = self.selected_run
        if run is None:
            self.notify("no run is selected", timeout=3)
            return
        tell = partial(self.notify, timeout=8, markup=False)
        self.run_worker(show_stacks(self.area, self.state, run, tell), group="stacks")

    def action_copy_command(self) -> None:
        """Hand the selected run's command to the terminal's clipboard."""
        from tui.panel.terminal.osc import describe_copied, osc52, send
        from tui.views.run_text import command_of

        view = self.query_one(RunPane).selected
        if view is None or view.run.plan is None:
            self.notify("no run is selected" if view is None else "its plan is lost", timeout=3)
            return
        command = command_of(view.run.plan)
        send(self.app, osc52(command.encode(), os.environ))
        self.notify(describe_copied(command, os.environ), timeout=6, markup=False)

    def action_drain(self) -> None:
        """Ask whether the queue shall be drained, or go on."""
        from tui.panel.screens.dialogs import QuestionScreen

        picture = self.picture
        on = not (picture is not None and picture.drained)
        live = sum(view.run.is_live for view in picture.runs) if picture else 0
        if on:
            words = f"{live} live runs go on; no new run starts until drain is ended."
            question = QuestionScreen("Drain?", words, "Drain")
        else:
            words = f"Drained {picture.drained if picture else ''}. Waiting runs may start again."
            question = QuestionScreen("End the drain?", words, "Let the queue go on")
        self.app.push_screen(question, lambda yes: self.commands.drain(on) if yes else None)

    @property
    def money(self) -> MoneyCommands:
        """What may be done about session and guard; imported when first asked for."""
        if self._money is None:
            from tui.panel.money_commands import MoneyCommands

            runs = self.commands
            self._money = MoneyCommands(self.app, self.state, runs.feed, runs.log)
        return self._money

    def action_money(self) -> None:
        """What everything costs; session and guard."""
        from tui.panel.screens.money import MoneyScreen

        self.app.push_screen(MoneyScreen(self.state, self.money, self.picture, self.read_only))

    def action_postpone(self) -> None:
        """Ask for how long the guard shall hold back."""
        from tui.panel.screens.guard_form import ask_to_postpone

        ask_to_postpone(self.app, self.money, self.picture.guard if self.picture else None)

    def action_metrics(self) -> None:
        """The curves of the marked runs, else of the selected one, on a page of their own."""
        from tui.panel.screens.metrics import MetricsScreen

        marked = self._chosen_views(_MOST_CURVES)
        self.app.push_screen(MetricsScreen(self.state, self.picture, marked))

    def _chosen_views(self, most: int) -> list[RunView]:
        """The marked runs, else the selected one, in full; at most so many."""
        pane = self.query_one(RunPane)
        views = (pane.view_of(row.id) for row in pane.chosen[:most])
        return [view for view in views if view is not None]

    def action_pictures(self) -> None:
        """The pictures of the selected run, or of two marked ones, on a page of their own."""
        from tui.views.picture_file import MISSING, has_pillow

        views = self._chosen_views(2)
        if not views or self.picture is None:
            self.notify("no run is selected", timeout=3)
        elif not has_pillow():
            self.notify(MISSING, timeout=8, markup=False)
        else:
            from tui.panel.screens.pictures import PicturesScreen

            self.app.push_screen(PicturesScreen(self.picture, views))

    def action_hosts(self) -> None:
        """Every rented machine on a screen of its own."""
        from tui.panel.screens.hosts import HostsScreen

        self.app.push_screen(
            HostsScreen(self.state, self.picture, self.commands.log, self.read_only)
        )

    def action_compare(self) -> None:
        """What differs between the marked runs, or those of the group, and which is best."""
        from tui.panel.screens.compare import open_compare

        ids = [row.id for row in self.query_one(RunPane).chosen]
        if not open_compare(self.app, self.state, ids):
            self.notify("mark the runs to compare with Space, two at least", timeout=4)

    def action_commands(self) -> None:
        """Show what was done here, as commands."""
        from tui.panel.screens.commands import CommandScreen

        self.app.push_screen(CommandScreen(self.commands.log))

    @on(GpuPane.DetailsWanted)
    def _open_gpu(self, message: GpuPane.DetailsWanted) -> None:
        from tui.panel.screens.gpu_detail import GpuDetailScreen

        if self.picture is not None:
            self.app.push_screen(GpuDetailScreen(self.state, self.picture, message.uuid))

    def system_commands(self) -> Iterable[SystemCommand]:
        """What the palette offers of all this."""
        touching = (
            ("Launch a run", "choose a preset, edit it, launch (n)", self.action_launch),
            ("Launch again", "the selected run, or a variation of it (a)", self.action_again),
            ("Resume", "the selected run, from its newest checkpoint (r)", self.action_resume),
            ("Remedies", "why the selected run ended, what to do (d)", self.action_remedy),
            ("Stop the selected run", "by its stop ladder (s)", self.action_stop),
            ("Stop its group", "every live run of the selected run's (S)", self.action_stop_group),
            ("Stop all runs", "every live run", self.action_stop_all),
            ("Kill now", "the chosen runs, by SIGKILL (K)", lambda: self.action_runs("kill")),
            ("Delete", "the chosen runs, to the trash (x)", lambda: self.action_runs("delete")),
            ("Bring back", "what was deleted last (u)", lambda: self.action_runs("undo")),
            ("Rename", "the selected run (R)", lambda: self.action_runs("rename")),
            ("Tags", "of the chosen runs (t)", lambda: self.action_runs("tag")),
            ("Note", "on the selected run (N)", lambda: self.action_runs("note")),
            ("Star", "the chosen runs, or no longer (*)", lambda: self.action_runs("star")),
            ("Drain", "running jobs finish, no new ones start; asks (D)", self.action_drain),
            ("Postpone the guard", "asks for how long (p)", self.action_postpone),
        )
        looking = (
            ("Money and guard", "costs, session, budget, guard ($)", self.action_money),
            ("Metrics", "curves of one run or several (m)", self.action_metrics),
            ("Pictures", "images of the selected run by epoch (I)", self.action_pictures),
            ("Search in the log", "text or /regex/ (/)", self.action_search),
            ("Filter the log", "only lines that match (&)", self.action_filter),
            ("Stacks", "where every rank is, or was when it hung (T)", self.action_stacks),
            ("Two logs", "pin this log beside the next one (|)", self.action_split),
            ("Zoom the focused pane", "and back (z)", self.action_zoom),
            ("Rented machines", "their GPUs, runs and logs (H)", self.action_hosts),
            ("Command log", "what was done here, as commands (c)", self.action_commands),
        )
        for title, words, action in looking if self.read_only else touching + looking:
            yield SystemCommand(title, words, action)

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
