"""The panel: wires the feed to the screens. Quitting never touches a run."""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import ClassVar

from textual import work
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from runners.host.mounts import silent_server
from runners.host.replaced_code import REPLACED, is_replaced
from runners.model.errors import ExitCode, FresnelError
from runners.model.spec import RunSpec
from runners.presets.reading.user_settings import Settings, read_settings
from runners.state.layout import StateDirectory
from tui.panel.cockpit.keys import palette_commands
from tui.panel.cockpit.screen import CockpitScreen
from tui.panel.hotkeys import hotkey
from tui.panel.notifications import (
    MOST_NOTICES,
    changes_between,
    limit_notices,
    show_notification,
)
from tui.panel.panel_memory import remember
from tui.panel.run_commands import RunCommands
from tui.panel.terminal.driver import TerminalDriver
from tui.panel.terminal.osc import desktop_notice, send
from tui.panel.terminal.terminal_app import TerminalApp
from tui.panel.theme.themes import (
    apply_theme,
    default_theme,
    register_themes,
    remembered_theme,
    theme_problem,
)
from tui.snapshot.feed import PanelSnapshot, ShowsSnapshots, SnapshotFeed
from tui.views.format import go_on_text

_EXIT_AFTER_S = 1.0
_PAINTED_S = 1.0
_SWITCH_S = 0.005  # Python's own
# Python's own (700, 10, 10) goes through all that is open a dozen times a minute, 0.1 s each.
_COLLECTED_AFTER = (2000, 10, 10)
_OWN_HELP = {
    "Theme": "colours; remembered for the next time",
    "Quit": "leave the panel; runs go on (q)",
    "Screenshot": "the screen as an SVG file",
}
"""Textual's own commands that stay in the palette, in our words."""


class PanelApp(TerminalApp):
    """The Textual application."""

    TITLE = "fresnel-tui"
    CSS_PATH = "panel.tcss"
    ENABLE_COMMAND_PALETTE = True
    # The line of keys stays under a pane that fills the screen.
    ALLOW_IN_MAXIMIZED_VIEW = "Footer, KeyBar"
    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: a field that has the keys would take it.
        hotkey("ctrl+q", "quit", "quit; runs go on", priority=True),
        Binding("ctrl+c", "help_quit", show=False, system=True),
        hotkey("ctrl+z", "suspend_process", "suspend; fg in the shell comes back", priority=True),
    ]

    def __init__(
        self,
        state: StateDirectory,
        launch: Sequence[RunSpec] = (),
        settings: Settings | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__()
        self.state = state
        self.read_only = read_only
        self.feed = SnapshotFeed(state, read_only)
        self.snapshot: PanelSnapshot | None = None
        self.runs = RunCommands(self, state, self.feed)
        self.cockpit = CockpitScreen(state, self.runs, read_only)
        self.settings = settings or Settings()
        self._launch_first = launch
        limit_notices(self)
        register_themes(self)
        wanted = remembered_theme(state) or self.settings.panel.theme
        self.theme = wanted if wanted in self.available_themes else default_theme(self)
        apply_theme(self, self.theme)

    def get_default_screen(self) -> Screen[None]:
        """The cockpit: no other screen is ever below it."""
        return self.cockpit

    async def on_mount(self) -> None:
        """Start the feed, leave when the terminal does."""
        # A snapshot needs the panes that show it.
        await self.cockpit.stands.wait()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._terminal_gone)
        # While the panel was stopped, the shell wrote where it had painted.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.theme_changed_signal.subscribe(self, lambda theme: self._keep_theme(theme.name))
        self._watch()
        if isinstance(self.terminal, TerminalDriver):
            self.terminal.held_up.server = partial(silent_server, str(self.state.root))
        self.set_timer(_PAINTED_S, self._collect_again)
        if problem := theme_problem(self, self.settings.panel.theme):
            self.notify(problem, severity="warning", timeout=10, markup=False)
        if self._launch_first:
            self.runs.start(self._launch_first, self.cockpit.select_when_present)

    def _handle_exception(self, error: Exception) -> None:
        """Leave without a traceback where what was just imported is of another version than we."""
        if is_replaced():
            self._return_code = ExitCode.RUN_FAILED
            self.panic(f"fresnel-tui: {REPLACED}. Open the panel again. ({error!r})")
        else:
            super()._handle_exception(error)

    def _keep_theme(self, name: str) -> None:
        apply_theme(self, name)
        if not self.read_only:
            remember(self.state, theme=name)
        if self.snapshot is not None:
            self.cockpit.show(self.snapshot)

    def _terminal_gone(self) -> None:
        """Exit at once: nobody is looking, and writing to a dead terminal can block for ever."""
        # The orderly exit below gives the terminal back: on a dead one that may never return.
        timer = threading.Timer(_EXIT_AFTER_S, os._exit, (129,))
        timer.daemon = True
        timer.start()
        self.exit(return_code=129)

    def action_help(self) -> None:
        """Show every key, those of the pane in focus first."""
        from tui.panel.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.screen, self.focused))

    def action_settings(self) -> None:
        """Show the settings, to be changed."""
        from tui.panel.screens.settings import SettingsScreen

        if self.read_only:
            self.notify("this panel only shows (--read-only)", timeout=4)
        else:
            self.push_screen(SettingsScreen(self.settings, self.theme))

    def on_settings_screen_settings_changed(self, message: Message) -> None:
        """Take in settings that were changed."""
        # By name: the type's module is that of a screen, which the first paint does not load.
        settings = getattr(message, "settings", None)
        if not isinstance(settings, Settings):
            return
        self.settings = settings
        self.painter.wants_slow = settings.panel.slow
        theme = settings.panel.theme
        if theme and theme != self.theme and theme in self.available_themes:
            self.theme = theme
        if settings.panel.mouse != self.has_mouse:
            self.action_mouse()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: our actions first, then Textual's own."""
        yield from palette_commands(self.cockpit, self.read_only)
        for command in super().get_system_commands(screen):
            if command.title in _OWN_HELP:
                yield command._replace(help=_OWN_HELP[command.title])

    def action_command_palette(self) -> None:
        """Everything by its name."""
        from tui.panel.screens.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def search_themes(self) -> None:
        """The palette with the themes alone."""
        from textual.theme import ThemeProvider

        from tui.panel.screens.palette import Palette

        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    @work(exclusive=True)
    async def _watch(self) -> None:
        async with aclosing(self.feed.snapshots()) as snapshots:
            async for snapshot in snapshots:
                self._take_in(snapshot)

    def _collect_again(self) -> None:
        # `opening.py` changed both for the first paint; what is loaded by now stays for good.
        gc.freeze()
        gc.set_threshold(*_COLLECTED_AFTER)
        gc.enable()
        sys.setswitchinterval(_SWITCH_S)

    def _take_in(self, snapshot: PanelSnapshot) -> None:
        """Hand a new snapshot to the cockpit and to the screen above it; tell what is new."""
        before, self.snapshot = self.snapshot, snapshot
        if not self.is_running:
            return  # the panel closes: its panes are going
        # The first one it has taken itself, before anything was painted.
        if snapshot is not self.cockpit.snapshot:
            self.cockpit.show(snapshot)
        above = self.screen
        # One that is not mounted yet has nothing to show it in; it was opened with the last one.
        if above is not self.cockpit and above.is_mounted and isinstance(above, ShowsSnapshots):
            above.show(snapshot)
        self._take_news(before, snapshot)

    def _take_news(self, before: PanelSnapshot | None, after: PanelSnapshot) -> None:
        """Tell what is new: on the screen, by the bell, on the desktop."""
        wanted = self.settings.notices
        found = changes_between(before, after, wanted.on)
        for notice in found:
            show_notification(self, notice)
        urgent = after.guard is not None and after.guard.is_urgent
        was = before is not None and before.guard is not None and before.guard.is_urgent
        # Once when it becomes urgent: a countdown would ring with every snapshot.
        if wanted.bell and (found or (urgent and not was)):
            self.bell()
        if wanted.desktop != "off":
            for notice in found[:MOST_NOTICES]:
                send(self, desktop_notice(notice.name, notice.text, wanted.desktop, os.environ))


def run_panel(
    launch: str | None, overrides: Sequence[str], read_only: bool, no_mouse: bool, slow: bool
) -> int:
    """Open the panel until it is left; return the exit code.
    A named preset is launched and selected.
    """
    try:
        settings = read_settings()
        specs: list[RunSpec] = []
        if launch:
            from runners.presets.catalogue import resolve_runs

            specs = resolve_runs(launch, overrides)
        # One that only shows makes no folder either.
        state = StateDirectory() if read_only else StateDirectory().create()
    except FresnelError as error:
        print(f"fresnel-tui: {error}", file=sys.stderr)
        return error.exit_code
    app = PanelApp(state, specs, settings, read_only)
    if launch:
        flags = [word for override in overrides for word in ("--set", override)]
        app.runs.log.note(["launch", launch, *flags])
    app.has_mouse = settings.panel.mouse and not no_mouse
    app.painter.wants_slow = slow or settings.panel.slow
    app.run(mouse=app.has_mouse)
    # With a code the terminal is gone, or something broke: nobody asks what goes on.
    if not app.return_code:
        _print_live_runs(app.snapshot)
    return app.return_code or ExitCode.DONE


def _print_live_runs(snapshot: PanelSnapshot | None) -> None:
    live = sum(view.run.is_live for view in snapshot.runs) if snapshot is not None else 0
    if live:
        shows = "it" if live == 1 else "them"
        print(f"{go_on_text(live)}; `fresnel-tui` shows {shows}", file=sys.stderr)
