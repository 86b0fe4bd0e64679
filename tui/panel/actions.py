"""What the panel's keys do: dialogs opened, use cases called, and each noted as the command that
does the same.

Dialogs and what only they need are imported when first opened: the first paint does not wait for
them.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual import work
from textual.app import App, SystemCommand
from textual.screen import Screen

from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.command_log import CommandLog
from tui.panel.feed import PanelSnapshot, SnapshotFeed
from tui.panel.screens.cockpit import CockpitScreen
from tui.panel.widgets.runs import RunPane
from tui.views.format import duration

if TYPE_CHECKING:
    from tui.panel.screens.launch import LaunchRequest

TOUCHING = frozenset({"launch", "again", "stop", "drain", "postpone"})
"""Actions that change something: a panel that only shows has none of them."""
_POSTPONED_S = 3600.0
_SLOW_S = 1.0  # a launch that takes longer waits for the sampler


class PanelActions(App[None]):
    """The actions of the panel, over what `PanelApp` wires together."""

    def __init__(self, state: StateDirectory, read_only: bool) -> None:
        super().__init__()
        self.state = state
        self.read_only = read_only
        self.feed = SnapshotFeed(state, read_only)
        self.picture: PanelSnapshot | None = None
        self.cockpit = CockpitScreen()
        self.commands = CommandLog()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Read-only: nothing that touches a run."""
        return (
            False
            if self.read_only and action in TOUCHING
            else super().check_action(action, parameters)
        )

    # ── launching ─────────────────────────────────────────────────────────────────────────────────

    def action_launch(self) -> None:
        """Open the launch dialog."""
        self._open_launch(None)

    def action_again(self) -> None:
        """Open the launch dialog filled in as the selected run was: launch it again, or a
        variation of it.
        """
        run = self.cockpit.selected_run
        if run is None:
            self.notify("no run is selected", timeout=3)
        else:
            self._open_launch(run)

    def _open_launch(self, again: Run | None) -> None:
        def answered(wish: "LaunchRequest | None") -> None:
            if wish is not None:
                self.commands.note(wish.words)
                self.start_runs(wish.specs)

        from tui.panel.screens.launch import LaunchScreen

        try:
            screen = LaunchScreen(self.state, self.picture, again)
        except FresnelError as error:
            self.notify_error(str(error))
        else:
            self.push_screen(screen, answered)

    @work(thread=True, group="action")
    def start_runs(self, specs: Sequence[RunSpec]) -> None:
        """Start runs, and say what became of it."""
        slow = threading.Timer(
            _SLOW_S, self.call_from_thread, (self.notify, "waiting for a reading of the GPUs…")
        )
        slow.start()
        try:
            from runners.lifecycle.control.start import start_together

            runs = start_together(self.state, specs)
        except (FresnelError, OSError) as error:
            self.call_from_thread(self.notify_error, str(error))
            return
        finally:
            slow.cancel()
        self.call_from_thread(self._started, runs)

    def _started(self, runs: list[Run]) -> None:
        for run in runs:
            self.notify(_describe_launch(run), timeout=4, markup=False)
            for note in run.plan.notes if run.plan else ():
                self.notify(note, timeout=6, markup=False)
        self.cockpit.select_when_present(runs[0].id)
        self.feed.refresh_now()

    # ── stopping ──────────────────────────────────────────────────────────────────────────────────

    def action_stop(self) -> None:
        """Ask whether the selected run shall stop."""
        view = self.cockpit.query_one(RunPane).selected
        if view is None or not view.run.is_live:
            self.notify(
                "the selected run has ended already" if view else "no run is selected", timeout=3
            )
            return
        run = view.run

        def answered(answer: str | None) -> None:
            if answer is not None:
                self.commands.note(["stop", run.id])
                self._stop(run)

        from tui.panel.screens.stop import StopScreen

        self.push_screen(StopScreen(view), answered)

    @work(thread=True, group="action")
    def _stop(self, run: Run) -> None:
        try:
            from runners.lifecycle.control.stop import request_stop

            request_stop(self.state, run)
        except (FresnelError, OSError) as error:
            self.call_from_thread(self.notify_error, str(error))
        self.call_from_thread(self.feed.refresh_now)

    def action_drain(self) -> None:
        """Let what runs finish and nothing start, or let the queue go on."""
        from runners.lifecycle.launch.dispatch import drained_since

        on = not drained_since(self.state)
        self.commands.note(["drain", "on" if on else "off"])
        self._drain(on)

    @work(thread=True, group="action")
    def _drain(self, on: bool) -> None:
        from runners.lifecycle.launch.dispatch import set_drain

        try:
            set_drain(self.state, on)
        except OSError as error:
            self.call_from_thread(self.notify_error, str(error))
            return
        words = "what runs finishes, nothing starts" if on else "the queue goes on"
        self.call_from_thread(self.notify, f"drain {'on' if on else 'off'}: {words}", timeout=6)

    def action_postpone(self) -> None:
        """Let the guard hold back for an hour."""
        from runners.guard.rule import postpone

        try:
            postpone(self.state, _POSTPONED_S)
        except (FresnelError, OSError, ValueError) as error:
            self.notify_error(str(error))
            return
        self.commands.note(["guard", "postpone", "1h"])
        self.notify("the guard holds back for an hour", timeout=4)
        self.feed.refresh_now()

    # ── the panel itself ──────────────────────────────────────────────────────────────────────────

    def action_help(self) -> None:
        """Show every key."""
        from tui.panel.screens.help import HelpScreen

        self.push_screen(HelpScreen())

    def action_commands(self) -> None:
        """Show what was done here, as commands."""
        from tui.panel.screens.commands import CommandScreen

        self.push_screen(CommandScreen(self.commands))

    def action_mouse(self) -> None:
        """Give the mouse back to the terminal, whose own selection then works, or take it again."""
        driver = self._driver
        release, take = (
            getattr(driver, f"_{verb}_mouse_support", None) for verb in ("disable", "enable")
        )
        if driver is None or release is None or take is None:
            return
        driver._mouse = True  # a panel opened without the mouse may take it later
        self.has_mouse = not self.has_mouse
        (take if self.has_mouse else release)()
        self.notify(
            "the panel has the mouse"
            if self.has_mouse
            else "the terminal has the mouse: M takes it",
            timeout=4,
        )

    has_mouse = True

    def notify_error(self, words: str) -> None:
        """Say that something was not done, and why."""
        self.notify(words, title="not done", severity="error", timeout=10, markup=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: our actions first, then Textual's own."""
        if not self.read_only:
            yield SystemCommand(
                "Launch a run", "choose a preset, edit it, launch (n)", self.action_launch
            )
            yield SystemCommand(
                "Launch again", "the selected run, or a variation of it (a)", self.action_again
            )
            yield SystemCommand("Stop the selected run", "by its stop ladder (s)", self.action_stop)
            yield SystemCommand(
                "Drain", "what runs finishes, nothing starts; again: go on", self.action_drain
            )
            yield SystemCommand("Postpone the guard", "by an hour (p)", self.action_postpone)
        yield SystemCommand(
            "Metrics", "curves of one run or several (m)", self.cockpit.action_metrics
        )
        yield SystemCommand("Search in the log", "text or /regex/ (/)", self.cockpit.action_search)
        yield SystemCommand(
            "Filter the log", "only lines that match (&)", self.cockpit.action_filter
        )
        yield SystemCommand(
            "Two logs", "pin this log beside the next one (|)", self.cockpit.action_split
        )
        yield SystemCommand("Zoom the focused pane", "and back (z)", self.cockpit.action_zoom)
        yield SystemCommand(
            "Command log", "what was done here, as commands (c)", self.action_commands
        )
        yield SystemCommand(
            "Mouse", "give it back to the terminal, or take it (M)", self.action_mouse
        )
        yield SystemCommand("Keys and signs", "help (?)", self.action_help)
        yield from (
            c
            for c in super().get_system_commands(screen)
            if c.title in ("Theme", "Quit", "Screenshot")
        )


def _describe_launch(run: Run) -> str:
    if run.state is State.QUEUED:
        return f"{run.name} {run.reason}"
    seconds = run.plan.estimate.seconds if run.plan else None
    return f"launched {run.name}" + (f", about {duration(seconds)}" if seconds else "")
