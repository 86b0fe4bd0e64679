"""Whether a preset can run on this machine at all, told without launching it."""

from runners.lifecycle.launch.interpreter import interpreter_in
from runners.lifecycle.launch.planning import spell_command
from runners.lifecycle.launch.requirements import missing_packages
from runners.model.errors import FresnelError
from runners.model.gpus import GpuReading
from runners.model.spec import RunSpec
from runners.scheduling.allocation import Denied, allocate, idle


def why_not_here(spec: RunSpec, reading: GpuReading | None) -> str:
    """Why `spec` can never run here: program, file, packages or GPUs missing; empty when it can.

    GPUs that are busy now are no reason, nor are those not yet read (`reading` None).
    """
    try:
        argv, environment = spell_command(spec)
    except FresnelError as error:
        return error.message
    missing = missing_packages(spec, interpreter_in(argv, environment))
    if missing is not None:
        return f"missing: {', '.join(missing.packages)}"
    if reading is None:
        return ""
    answer = allocate(spec.gpus, idle(reading), {})
    return answer.reason if isinstance(answer, Denied) else ""
