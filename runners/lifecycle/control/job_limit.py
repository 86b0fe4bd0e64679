"""The time limit of the Slurm job that a run is: raised, where Slurm allows that."""

import math

from runners.model.errors import DeniedError, WrongInput
from runners.model.plan import is_job
from runners.model.run import Run
from runners.slurm.client import SlurmRefused, SlurmSilent, ask
from runners.slurm.queue import refresh
from runners.state.job_status import job_number, row_of
from runners.state.jobs import read_job
from runners.state.layout import StateDirectory

_MOST_S = 365 * 86_400.0


def raise_limit(state: StateDirectory, run: Run, seconds: float) -> float | None:
    """Let the job of a live `run` take so much longer, in whole minutes; its limit then, seconds.

    None where that is not known yet. Raises WrongInput for a run that is no live job, DeniedError
    where Slurm refuses, or does not answer.
    """
    directory = state.run(run.id)
    number = job_number(directory)
    if not is_job(run.plan):
        raise WrongInput(f"{run.id} is no Slurm job: only those have a time limit to raise")
    if not (run.is_live and number):
        raise WrongInput(
            f"{run.id} is no Slurm job that waits or runs: {run.state}",
            "`fresnel-tui launch --resume RUN` continues an ended one",
        )
    if not 0 < seconds <= _MOST_S:
        raise WrongInput("expected a length of time from 1m to 365d, such as 90m or 2h")
    minutes = math.ceil(seconds / 60)
    try:
        ask("scontrol", "update", f"JobId={number}", f"TimeLimit+={minutes}")
    except SlurmRefused as refusal:
        raise DeniedError(
            f"Slurm refuses it: {refusal.message}",
            f"administrators mostly may: `scontrol update jobid={number} timelimit+={minutes}`",
        ) from None
    except SlurmSilent as problem:
        raise DeniedError(f"Slurm does not answer: {problem.message}", "try again later") from None
    refresh(state, every_s=0.0)
    row = row_of(directory, read_job(directory))
    return None if row is None else row.limit_s
