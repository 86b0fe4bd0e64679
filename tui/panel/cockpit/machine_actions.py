"""What is done about rented machines: launched there, reached again, added, set up, ended."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from runners.host.helpers import this_program
from tui.panel.cockpit.cockpit_parts import CockpitParts
from tui.panel.notifications import notify_error
from tui.panel.places import PlaceOfRuns
from tui.panel.screens.dialogs import LineScreen, if_answered
from tui.panel.screens.machines import MachineLine, MachinesScreen

if TYPE_CHECKING:
    from runners.places.place import WatchedPlace

_ADD = "NAME user@address, as for `fresnel-tui host add`; its flags may follow"


class Machines:
    """The machines' dialog, and what is chosen there or in the palette."""

    def __init__(self, parts: CockpitParts, places: PlaceOfRuns) -> None:
        self._parts = parts
        self._places = places

    def open(self) -> None:
        """Show every rented machine."""
        self._parts.remote.open()
        screen = MachinesScreen(self._lines, self._parts.read_only)
        self._parts.app.push_screen(screen, if_answered(lambda answer: self.act(*answer)))

    def act(self, what: str, machine: str = "") -> None:
        """Do this about a machine; about which, if not said: the one that is shown or selected."""
        if what == "add":
            self._add()
            return
        machine = machine or self._current()
        if not machine:
            self.open()
        elif what == "launch":
            from tui.panel.cockpit.launcher import Launcher

            Launcher(self._parts, self._places).open(machine)
        elif what == "retry":
            host = self._parts.remote.open().links.hosts.get(machine)
            if host is not None:
                host.place.reach()
        else:
            self._in_terminal(["host", what, machine])

    def _current(self) -> str:
        """The machine whose GPUs are shown, else that of the selected run, else the only one."""
        remote = self._parts.remote
        hosts = remote.open().links.machines
        machine = remote.chosen(self._parts.pane.selected_row)
        return next(iter(hosts)) if not machine and len(hosts) == 1 else machine

    def _lines(self) -> list[MachineLine]:
        hosts, snapshot = self._parts.remote.open(), self._parts.snapshot
        links = hosts.links
        links.refresh()
        fleet = hosts.fleet(snapshot) if snapshot is not None else ()
        about = {line.name: line.about for line in fleet if not line.problem}
        lines = [
            MachineLine(name, _summary(host, about.get(name, "")), host.is_reached)
            for name, host in links.machines.items()
        ]
        hint = "not set up: u sets it up"
        return lines + [MachineLine(name, hint, False) for name in links.not_set_up]

    # ---- in the terminal, as somebody may have to type there

    def _add(self) -> None:
        def add(text: str) -> None:
            try:
                self._in_terminal(["host", "add", *shlex.split(text)])
            except ValueError as error:
                notify_error(self._parts.app, str(error))

        self._parts.app.push_screen(LineScreen("Add a machine", _ADD), if_answered(add))

    def _in_terminal(self, arguments: Sequence[str]) -> None:
        """Run a headless command in this terminal, with the panel out of the way."""
        parts = self._parts
        parts.commands.log.note(arguments)
        argv = this_program(*arguments)
        try:
            with parts.app.suspend():
                print(f"\nfresnel-tui {shlex.join(arguments)}", flush=True)
                subprocess.run(argv, check=False)
                print("\nEnter: back to the panel", end="", flush=True)
                if sys.__stdin__ is not None:
                    sys.__stdin__.readline()
        except SuspendNotSupported:
            notify_error(parts.app, f"in a shell: fresnel-tui {shlex.join(arguments)}")
        parts.screen.call_later(parts.remote.open().links.refresh)


def _summary(host: WatchedPlace, about: str) -> str:
    """What is free there, where it is, and how it is reached."""
    return " · ".join(part for part in (about, host.place.address, host.status_text) if part)
