"""A plan as the launch form shows it: made where it would run, in words and numbers."""

from collections.abc import Mapping, Sequence

import msgspec

from runners.gpus.client import latest
from runners.lifecycle.launch.planner import PlannedRun, Planner
from runners.model.gpus import GpuUse
from runners.model.spec import CheckGroup, RunSpec
from runners.scheduling.allocation import Denied
from runners.scheduling.memory_warning import peak_memory_by_gpu
from runners.scheduling.queue_order import Granted
from runners.state.layout import StateDirectory
from runners.verify.verify import VerificationFailed, checks_at_launch, refuse_failing
from tui.views.runs.plan_text import describe_plan, plan_summary, starts_of

RUN_BY_LAUNCH: frozenset[CheckGroup] = frozenset({"own"})
"""Checks that a launch alone makes."""
Peaks = Mapping[str, tuple[str, GpuUse]]
"""By UUID: the run that used most of a GPU's memory, and its use."""


class FormRun(msgspec.Struct, frozen=True):
    """One run's plan as names and values; whether it starts now; its device numbers by UUID.

    `summary` is what it comes to in a line; empty from an older machine. `checks` are what the
    launch checks first, `free` says the summary as long as that is not known.
    """

    pairs: list[tuple[str, str]]
    starts: bool
    devices: dict[str, int] = {}
    summary: str = ""
    denied: bool = False
    """It will not start as it is asked for, however long it waits."""
    checks: list[CheckGroup] = []
    free: str = ""

    @property
    def notes(self) -> list[str]:
        """What should be known before it starts."""
        return [value for name, value in self.pairs if name == "note"]


class LaunchChecks(msgspec.Struct, frozen=True):
    """What the checks at the launch say: nothing where they pass.

    Else which run (`name`) is refused and why, and what mends it; or why that is `unknown`.
    """

    name: str = ""
    problem: str = ""
    advice: str = ""
    unknown: str = ""


class FormPlan(msgspec.Struct, frozen=True):
    """The plans of runs that start together; of a single one what such runs took of each GPU.

    `starts` says how many of several start now; empty from an older machine.
    """

    runs: list[FormRun]
    peaks: dict[str, tuple[str, GpuUse]] = {}
    starts: str = ""

    @property
    def checks(self) -> list[str]:
        """What the launch checks first, each once."""
        return list(dict.fromkeys(check for run in self.runs for check in run.checks))

    @property
    def devices(self) -> dict[str, int]:
        """The device numbers of all its runs, by the GPUs' UUIDs."""
        return {uuid: number for run in self.runs for uuid, number in run.devices.items()}

    def noting(self, note: str) -> "FormPlan":
        """The same with something more to be known before it starts, told first."""
        runs = [
            msgspec.structs.replace(run, pairs=[("note", note), *run.pairs]) for run in self.runs
        ]
        return msgspec.structs.replace(self, runs=runs)

    def for_example(self, machine: str) -> "FormPlan":
        """The same as one of several machines has it, of which one is chosen at the launch."""
        about = f"{machine}, for example: which one is chosen when it is launched"
        runs = [
            msgspec.structs.replace(
                run,
                pairs=[("machine", about), *run.pairs],
                summary=f"for example on {machine}: {run.summary}",
                free=f"for example on {machine}: {run.free}",
            )
            for run in self.runs
        ]
        return msgspec.structs.replace(self, runs=runs)


def form_plan(state: StateDirectory, specs: Sequence[RunSpec]) -> FormPlan:
    """What a launch of `specs` would come to now on this machine. Raises as the planner does.

    Of a sweep the first run is planned: the others differ from it only in what varies, and in
    whether they start.
    """
    launch = Planner(state, specs).plan(None if specs[0].parallel is None else 1)
    runs = [_run(planned) for planned in launch.runs]
    reading = latest(state)
    if len(specs) > 1:
        return FormPlan(runs, starts=starts_of(launch.own))
    if reading is None:
        return FormPlan(runs)
    spec = specs[0]
    return FormPlan(runs, peak_memory_by_gpu(state, spec.preset, spec.name, reading.gpus))


def _run(planned: PlannedRun) -> FormRun:
    pairs = describe_plan(planned.plan, planned.decision)
    devices = {gpu.uuid: gpu.logical for gpu in planned.plan.gpus}
    summary = plan_summary(planned.plan, planned.decision)
    starts, denied = (isinstance(planned.decision, kind) for kind in (Granted, Denied))
    checks = [] if denied else checks_at_launch(planned.spec)
    free = plan_summary(planned.plan, planned.decision, is_checked=False)
    return FormRun(pairs, starts, devices, summary, denied, checks, free)


def launch_checks(state: StateDirectory, specs: Sequence[RunSpec]) -> LaunchChecks:
    """What the launch will say of them, but for commands of the preset's own.

    The form asks whenever somebody stops typing: no program of theirs is run for that.
    """
    try:
        refuse_failing(state, specs, without=RUN_BY_LAUNCH)
    except VerificationFailed as refused:
        return LaunchChecks(refused.name, refused.problem, refused.advice)
    return LaunchChecks()
