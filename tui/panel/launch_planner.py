"""What the launch form asks of a machine: its presets, a plan, the checks, and to launch."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from runners.model.errors import FresnelError
from runners.model.placeholders import secrets_in
from runners.model.spec import RunSpec
from runners.places.place import Place, WatchedPlace
from runners.scheduling.allocation import free_gpus, usable_gpus
from runners.verify.verify import Verification
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.questions import LaunchQuestion
from tui.views.runs.form_plan import FormPlan, form_plan
from tui.views.runs.launch_choices import LaunchChoice, LaunchChoices, read_choices

if TYPE_CHECKING:
    from tui.panel.cockpit.cockpit_parts import CockpitParts
    from tui.panel.places import PlaceOfRuns

Failed = Callable[[str], None]
Answer = TypeVar("Answer")


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
        return LaunchRequest(specs, _before_command(self.arguments, once), self.judged_by)

    @property
    def shown(self) -> list[RunSpec]:
        """Of a sweep the first run: the others differ from it only in what varies."""
        return self.specs if self.specs[0].parallel is None else self.specs[:1]


def _before_command(arguments: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The arguments with `flags` before the command that may stand after `--`."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:at], *flags, *arguments[at:]]


class Verifications(msgspec.Struct, frozen=True):
    """What the checks of some runs found."""

    runs: list[Verification]


class LaunchPlanner(Protocol):
    """One machine, for the form. What takes a moment is done beside the app's own thread."""

    @property
    def name(self) -> str:
        """What the machine is called; empty for this one."""

    @property
    def obstacle(self) -> str:
        """Why nothing can be launched there now; empty when something can."""

    @property
    def about(self) -> str:
        """How it stands: its free GPUs and what it costs."""

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """The GPUs that can be chosen there, in place of this machine's."""

    def choices(self, then: Callable[[Sequence[LaunchChoice]], None], failed: Failed) -> None:
        """Its presets."""

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """What the request would come to there now."""

    def verify(
        self, request: LaunchRequest, then: Callable[[list[Verification]], None], failed: Failed
    ) -> None:
        """What the checks there say of it."""

    def launch(self, request: LaunchRequest) -> None:
        """Launch it there."""


class PlannerHere:
    """This machine: by the specs themselves, whose secrets go nowhere."""

    name = obstacle = ""

    def __init__(self, parts: CockpitParts) -> None:
        self._parts = parts

    @property
    def about(self) -> str:
        """Its free GPUs."""
        snapshot = self._parts.snapshot
        gpus = usable_gpus(snapshot.gpus) if snapshot else []
        if snapshot is None or not gpus:
            return "no GPU"
        return f"{len(free_gpus(snapshot.gpus, snapshot.leases))} of {len(gpus)} GPUs free"

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """As it is."""
        return snapshot

    def choices(self, then: Callable[[Sequence[LaunchChoice]], None], failed: Failed) -> None:
        """The presets that are found here."""
        snapshot = self._parts.snapshot
        reading = snapshot.reading if snapshot else None
        runs = snapshot.runs if snapshot else ()
        self._in_thread("presets", lambda: read_choices(reading, runs), then, failed)

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """Planned by the planner that a launch asks."""
        state = self._parts.state
        self._in_thread("plan", lambda: form_plan(state, request.shown), then, failed)

    def verify(
        self, request: LaunchRequest, then: Callable[[list[Verification]], None], failed: Failed
    ) -> None:
        """Importing torch takes seconds."""
        from runners.verify.verify import verify

        state = self._parts.state
        self._in_thread("verify", lambda: verify(state, request.specs), then, failed)

    def launch(self, request: LaunchRequest) -> None:
        """Start the runs, and select the first."""
        commands = self._parts.commands
        noted = commands.log.note(request.arguments)
        commands.start(request.specs, commands.started, request.judged_by, noted)

    def _in_thread(
        self, group: str, do: Callable[[], Answer], then: Callable[[Answer], None], failed: Failed
    ) -> None:
        app = self._parts.app

        def work() -> None:
            try:
                found = do()
            except (FresnelError, OSError) as error:
                app.call_later(failed, str(error))
            else:
                app.call_later(then, found)

        # Exclusive: a question still waiting for a thread gives way to a newer one of its kind.
        app.run_worker(work, thread=True, exclusive=True, group=group)


class PlannerThere:
    """Another machine: by the words of the command, so that nothing is decided here."""

    def __init__(self, host: WatchedPlace, parts: CockpitParts, places: PlaceOfRuns) -> None:
        self._host = host
        self._parts = parts
        self._places = places

    @property
    def name(self) -> str:
        """What the machine is called."""
        return self._host.name

    @property
    def _place(self) -> Place:
        return self._host.place

    @property
    def obstacle(self) -> str:
        """Why it is not reached."""
        return self._place.obstacle

    @property
    def about(self) -> str:
        """Its free GPUs, its runs, its rate."""
        hosts, snapshot = self._parts.remote.hosts, self._parts.snapshot
        lines = [] if hosts is None or snapshot is None else hosts.fleet(snapshot)
        return next((line.about for line in lines if line.name == self.name), "")

    def snapshot(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """Its GPUs and leases under their own names there."""
        hosts = self._parts.remote.hosts
        return snapshot if hosts is None else hosts.own_snapshot(snapshot, self.name)

    def choices(self, then: Callable[[Sequence[LaunchChoice]], None], failed: Failed) -> None:
        """The presets that are found there."""
        self._places.ask(
            self._place,
            LaunchQuestion.CHOICES,
            (),
            LaunchChoices,
            lambda found: then(found.choices),
            failed,
        )

    def old_choice(self, run: str, resume: bool, then: Callable[[LaunchChoice], None]) -> None:
        """A run there to launch again or to resume; a problem is told."""
        question = LaunchQuestion.RESUME if resume else LaunchQuestion.AGAIN
        self._places.ask(
            self._place, question, (run,), LaunchChoices, lambda found: then(found.choices[0])
        )

    def plan(
        self, request: LaunchRequest, then: Callable[[FormPlan], None], failed: Failed
    ) -> None:
        """Planned by its agent, from the words that launch it."""
        arguments = self._arguments(request)
        failed = self._about_secrets(request, failed)
        self._places.ask(self._place, LaunchQuestion.PLAN, arguments, FormPlan, then, failed)

    def verify(
        self, request: LaunchRequest, then: Callable[[list[Verification]], None], failed: Failed
    ) -> None:
        """Checked by its agent."""
        self._places.ask(
            self._place,
            LaunchQuestion.VERIFY,
            self._arguments(request),
            Verifications,
            lambda found: then(found.runs),
            self._about_secrets(request, failed),
        )

    def launch(self, request: LaunchRequest) -> None:
        """Launch it by its command, once, whatever the line does; and select it."""
        self._parts.commands.launch(self._place, self._arguments(request))

    def _about_secrets(self, request: LaunchRequest, failed: Failed) -> Failed:
        """Says of a secret that is not there what takes it there: a question carries none."""

        def explain(problem: str) -> None:
            if names := secrets_in(problem):
                given = _before_command(request.arguments, ["--host", self.name])
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
        return [*found, *self._place.preset_flags(found[1], overrides)]
