"""The panel: wires the feed to the screens and the keys to the use cases. Quitting never touches a run.

Dialogs and what only they need are imported when first opened: the first paint does not wait for them.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from runners.lifecycle import control
from runners.model.errors import ExitCode, FresnelError
from runners.model.paths import StateDirectory
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.model.states import State
from tui.feed import Feed, Picture
from tui.format import duration
from tui.panes.runs import RunPane
from tui.screens.cockpit import CockpitScreen

if TYPE_CHECKING:
    from runners.presets.catalogue import PresetEntry

_LAST_WORDS_S = 1.0


class PanelApp(App[None]):
    """The Textual application."""

    TITLE = "fresnel-tui"
    CSS_PATH = "panel.tcss"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("ctrl+c", "help_quit", show=False, system=True),
    ]

    def __init__(self, state: StateDirectory, launch: Sequence[RunSpec] = ()) -> None:
        super().__init__()
        self.state = state
        self.feed = Feed(state)
        self.picture: Picture | None = None
        self.cockpit = CockpitScreen()
        self._launch_first = launch

    def on_mount(self) -> None:
        """Show the cockpit, start the feed, leave when the terminal does."""
        self.push_screen(self.cockpit)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._terminal_gone)
        self._watch()
        if self._launch_first:
            self._start(self._launch_first)

    def _terminal_gone(self) -> None:
        """Exit at once: nobody is looking, and writing to a dead terminal can block for ever."""
        timer = threading.Timer(_LAST_WORDS_S, os._exit, (129,))
        timer.daemon = True
        timer.start()
        self.exit(return_code=129)

    @work(exclusive=True)
    async def _watch(self) -> None:
        pictures: asyncio.Queue[Picture] = asyncio.Queue(1)
        reader = asyncio.create_task(self.feed.pictures(pictures))
        try:
            while True:
                taking = asyncio.create_task(pictures.get())
                await asyncio.wait({taking, reader}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    taking.cancel()
                    reader.result()  # raises what ended the feed
                    return
                self.picture = taking.result()
                self.cockpit.show(self.picture)
                if self.screen is not self.cockpit and hasattr(self.screen, "show"):
                    self.screen.show(self.picture)
        finally:
            reader.cancel()

    # ── what keys do ──────────────────────────────────────────────────────────────────────────────────────

    def action_launch(self) -> None:
        """Open the launch dialog."""
        self._open_launch(None)

    def action_again(self) -> None:
        """Open the launch dialog filled in as the selected run was: launch it again, or a variation of it."""
        run = self.cockpit.selected_run
        if run is None:
            self.notify("no run is selected", timeout=3)
            return
        from runners.presets.catalogue import PresetEntry

        try:
            spec = control.spec_again(self.state, run)
        except FresnelError as error:
            self._complain(str(error))
            return
        self._open_launch(PresetEntry(f"{run.name} again", spec.source, (spec,), f"as {run.id} was launched"))

    def _open_launch(self, again: "PresetEntry | None") -> None:
        def answered(specs: list[RunSpec] | None) -> None:
            if specs:
                self._start(specs)

        from tui.screens.launch import LaunchScreen

        self.push_screen(LaunchScreen(self.state, self.picture, again), answered)

    def action_stop(self) -> None:
        """Ask whether the selected run shall stop."""
        view = self.cockpit.query_one(RunPane).selected
        if view is None or not view.run.is_live:
            self.notify("the selected run has ended already" if view else "no run is selected", timeout=3)
            return
        run = view.run

        def answered(answer: str | None) -> None:
            if answer is not None:
                self._stop(run)

        from tui.screens.stop import StopScreen

        self.push_screen(StopScreen(view), answered)

    def action_help(self) -> None:
        """Show every key."""
        from tui.screens.help import HelpScreen

        self.push_screen(HelpScreen())

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: our actions first, then Textual's own."""
        yield SystemCommand("Launch a run", "choose a preset, edit it, launch (n)", self.action_launch)
        yield SystemCommand("Launch again", "the selected run, or a variation of it (a)", self.action_again)
        yield SystemCommand("Stop the selected run", "by its stop ladder (s)", self.action_stop)
        yield SystemCommand("Search in the log", "text or /regex/ (/)", self.cockpit.action_search)
        yield SystemCommand("Filter the log", "only lines that match (&)", self.cockpit.action_filter)
        yield SystemCommand("Two logs", "pin this log beside the next one (|)", self.cockpit.action_split)
        yield SystemCommand("Zoom the focused pane", "and back (z)", self.cockpit.action_zoom)
        yield SystemCommand("Keys and signs", "help (?)", self.action_help)
        yield from (c for c in super().get_system_commands(screen) if c.title in ("Theme", "Quit", "Screenshot"))

    @work(thread=True, group="action")
    def _start(self, specs: Sequence[RunSpec]) -> None:
        try:
            runs = control.start_together(self.state, specs)
        except (FresnelError, OSError) as error:
            self.call_from_thread(self._complain, str(error))
            return
        self.call_from_thread(self._started, runs)

    def _started(self, runs: list[Run]) -> None:
        for run in runs:
            self.notify(_describe_launch(run), timeout=4, markup=False)
            for note in run.plan.notes if run.plan else ():
                self.notify(note, timeout=6, markup=False)
        self.cockpit.want(runs[0].id)
        self.feed.hurry()

    @work(thread=True, group="action")
    def _stop(self, run: Run) -> None:
        try:
            control.request_stop(self.state, run)
        except (FresnelError, OSError) as error:
            self.call_from_thread(self._complain, str(error))
        self.call_from_thread(self.feed.hurry)

    def _complain(self, words: str) -> None:
        self.notify(words, title="not done", severity="error", timeout=10, markup=False)


def _describe_launch(run: Run) -> str:
    if run.state is State.QUEUED:
        return f"{run.name} {run.reason}"
    seconds = run.plan.estimate.seconds if run.plan else None
    return f"launched {run.name}" + (f", about {duration(seconds)}" if seconds else "")


def _resolve(preset: str, overrides: Sequence[str]) -> list[RunSpec]:
    from runners.presets.catalogue import resolve_runs

    return resolve_runs(preset, overrides)


def run_panel(preset: str | None = None, overrides: Sequence[str] = ()) -> int:
    """Open the panel, with a preset launched and selected when one is named; return the exit code."""
    try:
        specs = _resolve(preset, overrides) if preset else []
        state = StateDirectory().create()
    except FresnelError as error:
        print(f"fresnel-tui: {error}", file=sys.stderr)
        return error.exit_code
    app = PanelApp(state, specs)
    app.run()
    return app.return_code or ExitCode.DONE
