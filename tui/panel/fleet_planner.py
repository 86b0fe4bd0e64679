"""One of several machines, for the launch form: shown by the one that would be chosen now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from runners.verify.verify import Verification
from tui.panel.launch_planner import Failed, LaunchRequest, PlannerThere
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.form_plan import FormPlan
from tui.views.runs.launch_choices import LaunchChoice

if TYPE_CHECKING:
    from tui.panel.cockpit.cockpit_parts import CockpitParts
    from tui.views.machines.fleet_text import FleetLine


class PlannerAny:
    """Any machine, or any with a label. Its plan is that of the one with the most free GPUs; where
    it starts is decided when it is launched, by `launch --host any`.
    """

    def __init__(
        self, name: str, machines: Mapping[str, PlannerThere], parts: CockpitParts
    ) -> None:
        """`name` is how `--host` says it: `any`, or a label with its @."""
        self.name = name
        self._machines = machines
        self._parts = parts

    @property
    def obstacle(self) -> str:
        """Why nothing can be launched: none of them is reached."""
        if any(not machine.obstacle for machine in self._machines.values()):
            return ""
        return f"{', '.join(self._machines)}: not reached" if self._machines else "no machine"

    @property
    def about(self) -> str:
        """How many GPUs are free on all of them."""
        lines = self._lines()
        free, total = sum(line.free for line in lines), sum(line.total for line in lines)
        return f"the cheapest of {len(lines)} machines · {free} of {total} GPUs free"

    def _lines(self) -> Sequence[FleetLine]:
        hosts, snapshot = self._parts.remote.hosts, self._parts.snapshot
        if hosts is None or snapshot is None:
            return ()
        return [line for line in hosts.fleet(snapshot) if line.name in self._machines]

    @property
    def _shown(self) -> PlannerThere:
        """The machine whose presets and plan are shown."""
        names = [line.name for line in self._lines() if not line.problem]
        return self._machines[names[0] if names else next(iter(self._machines))]

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """The GPUs of that machine."""
        return self._shown.snapshot(snapshot)

    def choices(self, then: Callable[[Sequence[LaunchChoice]], None], failed: Failed) -> None:
        """Its presets."""
        self._shown.choices(then, failed)

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """Its plan."""
        self._shown.plan(request, then, failed)

    def verify(
        self, request: LaunchRequest, then: Callable[[list[Verification]], None], failed: Failed
    ) -> None:
        """Its checks."""
        self._shown.verify(request, then, failed)

    def launch(self, request: LaunchRequest) -> None:
        """Launch it where it suits, or have it wait for a machine."""
        commands, arguments = self._parts.commands, request.arguments
        at = arguments.index("--") if "--" in arguments else len(arguments)
        given = [*arguments[:at], "--host", self.name, *arguments[at:]]
        commands.command(commands.local_place, given)
