"""GPUs that a program would hold and be billed for without using them."""

from runners.model.errors import WrongInput
from runners.model.launchers import PROCESS_LAUNCHERS, traits_of
from runners.model.quantities import gpus_text
from runners.model.spec import RunSpec


def refuse_unused(spec: RunSpec, gpus: int, processes: int) -> None:
    """Raise WrongInput where `processes` use fewer than `gpus`, as the preset says."""
    if spec.gpus_per_process is None:
        return
    used = spec.gpus_per_process * processes
    if gpus <= used:
        return
    starts = "1 process" if processes == 1 else f"{processes} processes"
    raise WrongInput(
        f"`{spec.preset}` starts {starts}, using {gpus_text(used)} in all: of {gpus} asked for, "
        f"{gpus - used} would stay idle",
        f"--gpus {used}, or a preset that starts a process for each GPU "
        f"({' or '.join(PROCESS_LAUNCHERS)})",
    )


def unused_notes(spec: RunSpec, gpus: int) -> tuple[str, ...]:
    """A warning where somebody gives several GPUs to one process of which nothing is known."""
    traits = traits_of(spec.launcher)
    is_one = traits.runs_python and not traits.starts_processes
    if not is_one or gpus < 2 or spec.gpus_per_process is not None or not spec.gpus.explicit:
        return ()
    return (
        f"one process is started, and sees {gpus_text(gpus)}: many programs use only the first; "
        f"{' and '.join(PROCESS_LAUNCHERS)} start a process for each",
    )
