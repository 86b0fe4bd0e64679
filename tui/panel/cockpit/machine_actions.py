"""What is done about rented machines: launched there, reached again, added, set up, ended."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from runners.host.helpers import ROOT
from runners.places.actions import Outcome
from runners.places.run_row import RunRow
from tui.panel.cockpit.cockpit_parts import CockpitParts
from tui.panel.notifications import notify_error
from tui.panel.screens.dialogs import LineScreen
from tui.panel.screens.machines import MachineLine, MachinesScreen

if TYPE_CHECKING:
    from runners.places.place import WatchedPlace

_COMMAND = "import sys; sys.path[0] = {0!r}; from tui.__main__ import main; main()"
_ADD = "NAME user@address, as for `fresnel-tui host add`; its flags may follow"


class Machines:
    """The machines' dialog, and what is chosen there or in the palette."""

    def __init__(self, parts: CockpitParts) -> None:
        self._parts = parts

    def open(self) -> None:
        """Show every rented machine."""
        self._parts.remote.open()

        def chosen(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                self.act(*answer)

        screen = MachinesScreen(self._lines, self._parts.read_only)
        self._parts.app.push_screen(screen, chosen)

    def act(self, what: str, machine: str = "") -> None:
        """Do this about a machine; about which, if not said: the one that is shown or selected."""
        if what == "add":
            self._add()
            return
        machine = machine or self._current()
        if not machine:
            self.open()
        elif what == "launch":
            self.launch(machine)
        elif what == "retry":
            host = self._parts.remote.open().links.hosts.get(machine)
            if host is not None:
                host.place.reach()
        else:
            self._in_terminal(["host", what, machine])

    def _current(self) -> str:
        """The machine whose GPUs are shown, else that of the selected run, else the only one."""
        remote = self._parts.remote
        hosts = remote.open().links.hosts
        machine = remote.chosen(self._parts.pane.selected_row)
        return next(iter(hosts)) if not machine and len(hosts) == 1 else machine

    def _lines(self) -> list[MachineLine]:
        links = self._parts.remote.open().links
        links.refresh()
        lines = [
            MachineLine(name, _summary(host), host.is_reached) for name, host in links.hosts.items()
        ]
        hint = "not set up: u sets it up"
        return lines + [MachineLine(name, hint, False) for name in links.not_set_up]

    # ---- launching there

    def launch(self, machine: str, flag: str = "", row: RunRow | None = None) -> None:
        """Choose a preset there, or launch a run of it with this flag; its plan is made there."""
        host = self._parts.remote.open().links.hosts.get(machine)
        if host is None or host.place.obstacle:
            obstacle = host.place.obstacle if host is not None else f"{machine} is not set up"
            notify_error(self._parts.app, obstacle)
        elif row is not None:
            verb = "Resume" if flag == "--resume" else "Launch again:"
            self._open_launch(host, f"{verb} {row.name} on {machine}", again=[flag, row.run_id])
        else:
            app = self._parts.app

            def read(outcome: Outcome) -> None:  # in the link's thread
                if app.is_running:
                    app.call_later(self._take_presets, host, outcome)

            host.place.command(["presets", "--json"], read)

    def _take_presets(self, host: WatchedPlace, outcome: Outcome) -> None:
        try:
            presets = [str(preset["name"]) for preset in json.loads(outcome.output)]
        except (ValueError, KeyError, TypeError):
            notify_error(self._parts.app, outcome.problem or "it has no presets")
            return
        self._open_launch(host, f"Launch on {host.name}", presets)

    def _open_launch(
        self,
        host: WatchedPlace,
        title: str,
        presets: Sequence[str] = (),
        again: Sequence[str] = (),
    ) -> None:
        from tui.panel.screens.place_launch import PlaceLaunchScreen

        def answered(arguments: list[str] | None) -> None:
            if arguments is not None:
                self._parts.commands.launch(host.place, arguments)

        screen = PlaceLaunchScreen(host.place, title, presets, again, host.place.preset_flags)
        self._parts.app.push_screen(screen, answered)

    # ---- in the terminal, as somebody may have to type there

    def _add(self) -> None:
        def answered(text: str | None) -> None:
            if text:
                try:
                    self._in_terminal(["host", "add", *shlex.split(text)])
                except ValueError as error:
                    notify_error(self._parts.app, str(error))

        self._parts.app.push_screen(LineScreen("Add a machine", _ADD), answered)

    def _in_terminal(self, arguments: Sequence[str]) -> None:
        """Run a headless command in this terminal, with the panel out of the way."""
        parts = self._parts
        parts.commands.log.note(arguments)
        argv = [sys.executable, "-c", _COMMAND.format(str(ROOT)), *arguments]
        try:
            with parts.app.suspend():
                print(f"\nfresnel-tui {shlex.join(arguments)}", flush=True)
                subprocess.run(argv, check=False)
                print("\nEnter: back to the panel", end="", flush=True)
                if sys.__stdin__ is not None:
                    sys.__stdin__.readline()
        except SuspendNotSupported:
            notify_error(parts.app, f"in a shell: fresnel-tui {shlex.join(arguments)}")
        parts.screen.call_later(partial(parts.remote.open().links.refresh))


def _summary(host: WatchedPlace) -> str:
    """Where it is, and how it is reached."""
    return " · ".join(part for part in (host.place.address, host.status_text) if part)
