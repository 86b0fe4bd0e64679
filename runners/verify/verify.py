"""Verify runs before they are launched, and refuse a launch that would fail."""

from collections.abc import Collection, Sequence

import msgspec

from runners.doctor.checks import Check
from runners.lifecycle.launch.planner import PlannedRun, plan_runs
from runners.model.closed import assert_never
from runners.model.errors import ExitCode, FresnelError
from runners.model.run_ids import by_names
from runners.model.spec import CheckGroup, RunSpec
from runners.scheduling.allocation import Denied
from runners.scheduling.queue_order import Granted, Waiting
from runners.state.layout import StateDirectory
from runners.verify.check_table import JudgedCheck, judge
from runners.verify.collect import collect

_MADE_BEFORE: tuple[CheckGroup, ...] = ("data", "checkpoint")
"""What the run that another one waits for may still make."""


class Verification(msgspec.Struct, frozen=True):
    """The checks of one run, in order."""

    preset: str
    name: str
    checks: tuple[JudgedCheck, ...]

    @property
    def failures(self) -> tuple[Check, ...]:
        """What would make the run fail, or spoil it."""
        return tuple(judged.check for judged in self.checks if judged.check.verdict == "FAIL")

    @property
    def warnings(self) -> tuple[Check, ...]:
        """What a person should look at."""
        return tuple(judged.check for judged in self.checks if judged.check.verdict == "WARN")


class VerificationFailed(FresnelError):
    """A launch was refused by the checks its preset asks for."""

    exit_code = ExitCode.RUN_FAILED

    def __init__(self, spec: RunSpec, failures: Sequence[Check]) -> None:
        first, more = failures[0], len(failures) - 1
        self.name = spec.name
        self.problem = f"{first.name}: {first.message}" + (f" (and {more} more)" if more else "")
        self.advice = first.advice
        """What mends the first of them."""
        by_command = (
            f"all of it: `fresnel-tui verify {spec.preset}`; launch all the same: --no-verify"
        )
        super().__init__(
            f"{spec.name} was not launched: {self.problem}",
            "; ".join(filter(None, (self.advice, by_command))),
        )


def verify(
    state: StateDirectory, specs: Sequence[RunSpec], groups: Collection[CheckGroup] = ()
) -> list[Verification]:
    """Check every run as it would be launched now; of `groups` only, where some are named."""
    try:
        planned = plan_runs(state, specs)
    except FresnelError as error:
        # One by one, so that the error is shown with the run that it belongs to.
        if len(specs) > 1:
            return [found for spec in specs for found in verify(state, [spec], groups)]
        check = Check("plan", "FAIL", error.message, error.hint)
        return [Verification(specs[0].preset, specs[0].name, (JudgedCheck("program", check),))]
    return [_verify_one(state, run, groups) for run in planned]


def _verify_one(
    state: StateDirectory, run: PlannedRun, groups: Collection[CheckGroup]
) -> Verification:
    found = [_place(run), *judge(collect(state, run, groups), groups)]
    return Verification(run.spec.preset, run.spec.name, tuple(found))


def _place(run: PlannedRun) -> JudgedCheck:
    """Whether the run would start now, and on what."""
    match run.decision:
        case Granted():
            check = Check("plan", "PASS", f"starts now on {_devices(run)}")
        case Waiting(reason=reason, hint=hint):
            check = Check("plan", "WARN", f"would wait: {by_names(reason)}", hint)
        case Denied(reason=reason, hint=hint):
            check = Check("plan", "FAIL", by_names(reason), hint)
        case _:
            assert_never(run.decision)
    return JudgedCheck("program", check)


def _devices(run: PlannedRun) -> str:
    gpus = run.plan.gpus
    names = ", ".join(str(gpu.index) for gpu in gpus)
    simulated = ", simulated" if any(gpu.simulated for gpu in gpus) else ""
    return f"GPU {names} ({gpus[0].name}{simulated})" if gpus else "the CPU"


def checks_at_launch(spec: RunSpec) -> list[CheckGroup]:
    """What its preset asks to be checked before every launch, as far as it can be yet."""
    return [group for group in spec.verify if spec.after is None or group not in _MADE_BEFORE]


def refuse_failing(
    state: StateDirectory, specs: Sequence[RunSpec], without: Collection[CheckGroup] = ()
) -> list[RunSpec]:
    """The specs, with what their checks warn of as notes; those without checks are unchanged.

    The one function that says whether a launch passes the checks that its presets ask for: asked
    by the launch, by `plan`, and by the launch form, which leaves some out (`without`). Raises
    VerificationFailed when one fails.
    """
    checked = []
    for spec in specs:
        groups = [group for group in checks_at_launch(spec) if group not in without]
        if not groups:
            checked.append(spec)
            continue
        found = verify(state, [spec], groups)[0]
        # Busy GPUs are not a failure of the run: the launch itself decides whether it may wait.
        failures = [check for check in found.failures if check.name != "plan"]
        if failures:
            raise VerificationFailed(spec, failures)
        notes = tuple(f"{check.name}: {check.message}" for check in found.warnings)
        checked.append(msgspec.structs.replace(spec, warnings=(*spec.warnings, *notes)))
    return checked
