"""What the launch form asks of a machine: its presets, a plan, the checks, and to launch.

This one, another one, or whichever of several suits: shown by the one that would be chosen now.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runners.host.files import current_folder
from runners.model.errors import FresnelError, sentence_of
from runners.model.placeholders import secrets_in
from runners.model.spec import RunSpec
from runners.model.trailing_command import with_flags
from runners.model.units import counted
from runners.places.place import WatchedPlace
from runners.scheduling.allocation import free_gpus, usable_gpus
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.questions import LaunchQuestion, answer_launch
from tui.views.health.verification_text import Verifications
from tui.views.runs.form_plan import FormPlan, LaunchChecks
from tui.views.runs.launch_choices import LaunchChoice, LaunchChoices

if TYPE_CHECKING:
    from runners.places.actions import Outcome
    from tui.panel.cockpit.cockpit_parts import CockpitParts
    from tui.panel.places import PlaceOfRuns
    from tui.views.machines.fleet_text import FleetLine

Then = Callable[[Any], None]
"""Takes the answer, of the kind that the question has."""
Failed = Callable[[str], None]
_KINDS: dict[LaunchQuestion, type[msgspec.Struct]] = {
    LaunchQuestion.CHOICES: LaunchChoices,
    LaunchQuestion.PLAN: FormPlan,
    LaunchQuestion.CHECKS: LaunchChecks,
    LaunchQuestion.VERIFY: Verifications,
}


class LaunchRequest(NamedTuple):
    """What shall be launched: several specs for a group or sweep.

    `arguments` are the command line that does the same, `judged_by` is the metric that the median
    rule judges a sweep by (None: no rule).
    """

    specs: list[RunSpec]
    arguments: list[str]
    judged_by: str | None = None

    @property
    def checked(self) -> LaunchRequest:
        """The same without the checks that its presets ask for: they were made."""
        once = ["--no-verify"] if any(spec.verify for spec in self.specs) else []
        specs = [msgspec.structs.replace(spec, verify=()) for spec in self.specs]
        return LaunchRequest(specs, with_flags(self.arguments, *once), self.judged_by)


class LaunchPlanner(ABC):
    """One machine, for the form. What takes a moment is done beside the app's own thread."""

    is_example = False
    """What its checks say holds for one of several machines that it may be launched on."""

    def __init__(self, name: str, parts: CockpitParts) -> None:
        """`name`: what the machine is called; empty for this one."""
        self.name = name
        self._parts = parts

    @property
    @abstractmethod
    def obstacle(self) -> str:
        """Why nothing can be launched there now; empty when something can."""

    @property
    @abstractmethod
    def about(self) -> str:
        """How it stands: its free GPUs and what it costs."""

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """The GPUs that can be chosen there, in place of this machine's."""
        return snapshot

    @abstractmethod
    def launch(self, request: LaunchRequest, launched: Callable[[], object]) -> None:
        """Launch it there; `launched` is called when it was."""

    @abstractmethod
    def ask(
        self, question: LaunchQuestion, request: LaunchRequest | None, then: Then, failed: Failed
    ) -> None:
        """Ask the machine; of a request, what it would come to there."""

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """What the request would come to there now."""
        self.ask(LaunchQuestion.PLAN, request, then, failed)


class PlannerHere(LaunchPlanner):
    """This machine: by the specs themselves, whose secrets go nowhere."""

    obstacle = ""

    def __init__(self, parts: CockpitParts) -> None:
        super().__init__("", parts)

    @property
    def about(self) -> str:
        """Its free GPUs."""
        snapshot = self._parts.snapshot
        gpus = usable_gpus(snapshot.gpus) if snapshot else []
        if snapshot is None or not gpus:
            return "no GPU"
        return f"{len(free_gpus(snapshot.gpus, snapshot.leases))} of {len(gpus)} GPUs free"

    def launch(self, request: LaunchRequest, launched: Callable[[], object]) -> None:
        """Start the runs, and select the first."""
        commands = self._parts.commands
        noted = commands.log.note(request.arguments)

        def started(run: str) -> None:
            launched()
            commands.started(run)

        commands.start(request.specs, started, request.judged_by, noted)

    def ask(
        self, question: LaunchQuestion, request: LaunchRequest | None, then: Then, failed: Failed
    ) -> None:
        """In a thread: presets are many files, and importing torch takes seconds."""
        app, state, snapshot = self._parts.app, self._parts.state, self._parts.snapshot
        reading = snapshot.reading if snapshot else None
        runs = snapshot.runs if snapshot else ()
        if request is not None and (problem := self._parts.commands.feed.missing()):
            failed(problem)
            return

        def work() -> None:
            try:
                specs = [] if request is None else request.specs
                found = answer_launch(state, question, specs, reading, runs)
            except (FresnelError, OSError, ValueError) as error:
                app.call_later(failed, sentence_of(error))
            else:
                app.call_later(then, found)

        # Exclusive: a question still waiting for a thread gives way to a newer one of its kind.
        app.run_worker(work, thread=True, exclusive=True, group=question.value)


class PlannerThere(LaunchPlanner):
    """Another machine: by the words of the command, so that nothing is decided here."""

    def __init__(self, host: WatchedPlace, parts: CockpitParts, places: PlaceOfRuns) -> None:
        super().__init__(host.name, parts)
        self._host = host
        self._places = places

    @property
    def obstacle(self) -> str:
        """Why it is not reached."""
        return self._host.place.obstacle

    @property
    def about(self) -> str:
        """Its free GPUs, its runs, its rate."""
        return next((line.about for line in _fleet(self._parts) if line.name == self.name), "")

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """Its GPUs and leases under their own names there."""
        hosts = self._parts.remote.hosts
        return snapshot if hosts is None else hosts.own_snapshot(snapshot, self.name)

    def old_choice(self, run: str, resume: bool, then: Callable[[LaunchChoice], None]) -> None:
        """A run there to launch again or to resume; a problem is told."""
        question = LaunchQuestion.RESUME if resume else LaunchQuestion.AGAIN
        take = self._places.while_waiting(then)
        self._places.ask(
            self._host.place, question, (run,), LaunchChoices, lambda found: take(found.choices[0])
        )

    def launch(self, request: LaunchRequest, launched: Callable[[], object]) -> None:
        """Launch it by its command, once, whatever the line does; and select it."""
        commands, place = self._parts.commands, self._host.place

        def select(outcome: Outcome) -> None:
            if not outcome.problem:
                launched()
                if outcome.output.strip():
                    commands.started(f"{place.name}/{outcome.output.split()[0]}")

        commands.command(place, self._arguments(request), select)

    def ask(
        self, question: LaunchQuestion, request: LaunchRequest | None, then: Then, failed: Failed
    ) -> None:
        """Its agent answers, from the words that launch it."""
        arguments = []
        if request is not None:
            arguments, failed = self._arguments(request), self._about_secrets(request, failed)
        self._places.ask(self._host.place, question, arguments, _KINDS[question], then, failed)

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """What the request would come to there; that files which it names here are not sent."""

        def take(found: FormPlan) -> None:
            if is_about_this_folder(request):
                given = shlex.join(with_flags(request.arguments, "--host", self.name))
                note = f"the form sends no files: `fresnel-tui {given}` sends this folder first"
                found = found.noting(note)
            then(found)

        super().plan(request, take, failed)

    def _about_secrets(self, request: LaunchRequest, failed: Failed) -> Failed:
        """Says of a secret that is not there what takes it there: a question carries none."""

        def explain(problem: str) -> None:
            if names := secrets_in(problem):
                given = with_flags(request.arguments, "--host", self.name)
                problem = (
                    f"{', '.join(names)}: no such secret is kept on {self.name}. One that is kept "
                    f"here goes along when it is launched by `fresnel-tui {shlex.join(given)}`"
                )
            failed(problem)

        return explain

    def _arguments(self, request: LaunchRequest) -> list[str]:
        """Those of the request, and where a pushed preset finds its things there."""
        found = request.arguments
        # A command, or a run launched again: no preset whose files were pushed.
        if "--" in found or found[1].startswith("--"):
            return found
        overrides = [found[i + 1] for i, argument in enumerate(found) if argument == "--set"]
        return [*found, *self._host.place.preset_flags(found[1], overrides)]


class PlannerAny(LaunchPlanner):
    """Any machine, or any with a label. Its plan is that of the cheapest free GPUs; where it starts
    is decided when it is launched, by `launch --host any`.
    """

    is_example = True

    def __init__(
        self, name: str, machines: Mapping[str, PlannerThere], parts: CockpitParts
    ) -> None:
        """`name` is how `--host` says it: `any`, or a label with its @."""
        super().__init__(name, parts)
        self._machines = machines

    @property
    def obstacle(self) -> str:
        """Why nothing can be launched: none of them is reached."""
        if any(not machine.obstacle for machine in self._machines.values()):
            return ""
        return f"{', '.join(self._machines)}: not reached" if self._machines else "no machine"

    @property
    def about(self) -> str:
        """How many GPUs are free on all of them."""
        lines = self._lines
        free, total = sum(line.free for line in lines), sum(line.total for line in lines)
        machines = counted(len(lines), "machine")
        return f"the cheapest of {machines} · {free} of {total} GPUs free"

    @property
    def _lines(self) -> Sequence[FleetLine]:
        return [line for line in _fleet(self._parts) if line.name in self._machines]

    @property
    def _shown(self) -> PlannerThere:
        """The machine whose presets and plan are shown."""
        lines = [line for line in self._lines if not line.problem]
        names = [line.name for line in sorted(lines, key=_dearness)] or list(self._machines)
        return self._machines[names[0]]

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """The GPUs of that machine."""
        return self._shown.snapshot(snapshot)

    def launch(self, request: LaunchRequest, launched: Callable[[], object]) -> None:
        """Launch it where it suits, or have it wait for a machine."""
        from runners.places.fleet.waiting import read_launches
        from runners.places.ssh.registry import ANY

        given, commands = with_flags(request.arguments, "--host", self.name), self._parts.commands

        def done(outcome: Outcome) -> None:
            if not outcome.problem:
                launched()
                first = outcome.output.partition("\n")[0]
                for made in read_launches(self._parts.state):
                    if first in (made.id, *made.runs):
                        commands.started(f"{made.machine or ANY}/{first}")

        commands.command(commands.local_place, given, done)

    def ask(
        self, question: LaunchQuestion, request: LaunchRequest | None, then: Then, failed: Failed
    ) -> None:
        """That machine answers."""
        self._shown.ask(question, request, then, failed)

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """What it would come to on that machine, which is said."""
        name = self._shown.name

        def take(found: FormPlan) -> None:
            if is_about_this_folder(request):
                found = found.noting("this folder is sent there first")
            then(found.for_example(name))

        super().plan(request, take, failed)


def is_about_this_folder(request: LaunchRequest) -> bool:
    """Whether a new command names something of the panel's folder: its program, data."""
    from runners.places.ssh.push import names_file_of

    given = request.arguments
    if "--" not in given or not {"--again", "--resume"}.isdisjoint(given):
        return False
    return names_file_of(current_folder(), given[given.index("--") + 1 :])


def _dearness(line: FleetLine) -> tuple[bool, bool, Decimal]:
    """Machines with free GPUs first, then the cheapest GPUs; one without a price is not free."""
    return not line.free, line.rate is None, (line.rate or Decimal(0)) / (line.total or 1)


def _fleet(parts: CockpitParts) -> Sequence[FleetLine]:
    """Every machine in a line; none before they are known."""
    hosts, snapshot = parts.remote.hosts, parts.snapshot
    return () if hosts is None or snapshot is None else hosts.fleet(snapshot)


def holders_of(snapshot: PanelSnapshot | None) -> tuple[object, ...]:
    """What a plan depends on: which GPUs there are, and who holds them."""
    if snapshot is None or snapshot.reading is None:
        return ()
    return tuple(
        (gpu.uuid, snapshot.leases.get(gpu.uuid), gpu.error) for gpu in snapshot.reading.gpus
    )
