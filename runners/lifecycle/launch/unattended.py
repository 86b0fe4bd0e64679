"""What programs may do that call without a terminal, as the user's settings say.

A guard rail, no lock: a program that runs as the user could write the settings too.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from runners.cost.sessions import read_session
from runners.host.files import read_text
from runners.host.identity import is_attended
from runners.model.errors import DeniedError, WrongInput
from runners.model.gpus import GpuReading
from runners.model.plan import LaunchPlan
from runners.model.spec import RunSpec
from runners.presets.reading.user_settings import UnattendedKeys, read_settings
from runners.scheduling.allocation import Denied
from runners.state.layout import StateDirectory, settings_file
from runners.state.leases import live_run_ids
from runners.state.runs import read_run

_SETTINGS = "`unattended` in settings.yaml says so; whoever is at a terminal may"


def refuse_command(name: str) -> None:
    """Raise DeniedError where programs may not call the command `name`.

    Raises WrongInput where the settings have limits and cannot be read.
    """
    if is_attended():
        return
    allowed = _limits().commands
    if allowed is not None and name not in allowed:
        raise DeniedError(f"`{name}` is not for programs without a terminal", _SETTINGS)


def denied_unattended(
    state: StateDirectory, specs: Sequence[RunSpec], reading: GpuReading | None
) -> Denied | None:
    """Why a program may not launch `specs` together; None where it may, or a person asks.

    Its runs that live count with them: GPUs held or waited for, and limits of cost where the
    machine is paid for. Raises WrongInput as `refuse_command` does.
    """
    if is_attended():
        return None
    most = _limits()
    if most.gpus is None and most.cost is None:
        return None
    before = list(_launched(state))
    if most.gpus is not None:
        held = sum(len(plan.gpus) or _asked(plan.spec, None) for plan in before)
        asked = sum(_asked(spec, reading) for spec in specs)
        if held + asked > most.gpus:
            reason = f"{asked} GPUs asked for without a terminal"
            beside = f", beside {held} that such runs have" if held else ""
            return Denied(f"{reason}{beside}: at most {most.gpus}", _SETTINGS)
    if most.cost is None or read_session(state) is None:
        return None
    if any(spec.limits.usd is None for spec in specs):
        reason = "a launch without a terminal on a machine that is paid for needs a limit of cost"
        return Denied(reason, f"--set limits.cost=…, together at most ${most.cost}")
    everybody = [*specs, *(plan.spec for plan in before)]
    together = sum(Decimal(spec.limits.usd or 0) for spec in everybody)
    if together > Decimal(most.cost):
        reason = f"runs launched without a terminal may cost ${together} together"
        return Denied(f"{reason}, by their limits: at most ${most.cost}", _SETTINGS)
    return None


def _limits() -> UnattendedKeys:
    """What the settings say; nothing where they cannot be read and have no word of it."""
    try:
        return read_settings().unattended
    except WrongInput:
        if "unattended" in read_text(settings_file()):
            raise
        return UnattendedKeys()


def _launched(state: StateDirectory) -> Iterator[LaunchPlan]:
    """The plans of live runs that programs have launched."""
    for run_id in live_run_ids(state):
        plan = read_run(state, run_id).plan
        if plan is not None and not plan.origin.attended:
            yield plan


def _asked(spec: RunSpec, reading: GpuReading | None) -> int:
    """How many GPUs a run holds when it starts, on all nodes of its Slurm job."""
    if spec.gpus.all and reading is not None:
        return len(reading.gpus)
    asked = len(spec.gpus.ids) or (spec.gpus.number if spec.gpus.wants_gpus else 0)
    return asked * (spec.node.count if spec.node is not None and spec.node.by_slurm else 1)
