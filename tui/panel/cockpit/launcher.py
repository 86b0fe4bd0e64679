"""Opening the launch form, on this machine or another one."""

from __future__ import annotations

from functools import partial

from runners.model.errors import FresnelError
from runners.places.run_row import RunRow
from tui.panel.cockpit.cockpit_parts import CockpitParts
from tui.panel.launch_planner import LaunchPlanner, PlannerAny, PlannerHere, PlannerThere
from tui.panel.notifications import notify_error
from tui.panel.places import PlaceOfRuns
from tui.panel.screens.launch import LaunchScreen
from tui.views.runs.launch_choices import LaunchChoice, old_choice
from tui.views.runs.run_view import RunView


class Launcher:
    """Opens the form with the machines that there are to choose from."""

    def __init__(self, parts: CockpitParts, places: PlaceOfRuns) -> None:
        self._parts, self._places = parts, places
        self._here = PlannerHere(parts)
        hosts = parts.remote.hosts.links.machines if parts.remote.hosts is not None else {}
        self._others = {name: PlannerThere(host, parts, places) for name, host in hosts.items()}

    def open(self, machine: str = "") -> None:
        """The form for anything, on this machine or another."""
        planner = self._reached(machine) if machine else self._here
        if planner is not None:
            self._push(planner)

    def open_again(self, row: RunRow, resume: bool) -> None:
        """The form filled in to launch a run again, or to go on from it, on its machine."""
        if row.machine:
            planner = self._reached(row.machine)
            if planner is not None:
                planner.old_choice(row.run_id, resume, lambda old: self._push(planner, old))
            return
        self._places.view(row, partial(self._open_old, resume))

    def _open_old(self, resume: bool, view: RunView) -> None:
        try:
            old = old_choice(self._parts.state, view.run, resume)
        except FresnelError as error:
            notify_error(self._parts.app, str(error))
        else:
            self._push(self._here, old)

    def _groups(self) -> list[LaunchPlanner]:
        """Any machine, and any of those with a label, where there are several."""
        if len(self._others) < 2:
            return []
        from runners.places.ssh.groups import labelled
        from runners.places.ssh.registry import ANY, RemoteRegistry

        groups = {
            f"@{label}": names
            for label, names in labelled(RemoteRegistry(self._parts.state)).items()
        }
        found = {ANY: list(self._others), **groups}
        planners = {
            name: {each: self._others[each] for each in names if each in self._others}
            for name, names in found.items()
        }
        return [PlannerAny(name, each, self._parts) for name, each in planners.items() if each]

    def _reached(self, machine: str) -> PlannerThere | None:
        """Another machine, or None once it was told why nothing can be launched there."""
        planner = self._others.get(machine)
        obstacle = f"{machine} is not set up" if planner is None else planner.obstacle
        if obstacle:
            notify_error(self._parts.app, obstacle)
        return None if obstacle else planner

    def _push(self, planner: LaunchPlanner, old: LaunchChoice | None = None) -> None:
        every: list[LaunchPlanner] = [self._here, *self._groups(), *self._others.values()]
        self._parts.app.push_screen(
            LaunchScreen(every, planner, self._parts.snapshot, self._parts.commands.drafts, old)
        )
