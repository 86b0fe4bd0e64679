"""A stop of a run that is a Slurm job: Slurm's own signals reach it, wherever it runs."""

import os
from contextlib import suppress

from runners.lifecycle.supervisor.spawn import spawn_supervisor
from runners.model.errors import FresnelError
from runners.model.pending import job_is_suspended
from runners.model.run import Run
from runners.model.states import State
from runners.slurm.client import SlurmRefused, SlurmSilent, ask
from runners.slurm.queue import refresh
from runners.state.codec import read_record
from runners.state.job_status import is_put_back, job_number, row_of
from runners.state.jobs import read_job
from runners.state.layout import RunDirectory

_GONE = ("Invalid job id", "already completing or completed")


def signal_job(directory: RunDirectory, force: bool = False) -> None:
    """Have the run's supervisor look at the request to stop; one that only waits is cancelled.

    Raises SlurmSilent when Slurm does not answer: the request is kept, and acted on at the latest
    when the job begins. One that Slurm has suspended hears nothing, and ends by `force` only.
    """
    job = job_number(directory)
    if not job:
        refresh(directory.home, every_s=0.0)  # the answer to its submission was lost
        job = job_number(directory)
    if not job:
        raise FresnelError(f"{directory.id}: Slurm does not know a job of it", "try again later")
    record = read_record(directory)
    if record is None or record.state is State.QUEUED or is_put_back(directory):
        _cancel(job)
        # Nothing of it runs: what is left is to record that.
        with suppress(FresnelError, OSError):
            spawn_supervisor(directory, os.environ, [])
    else:
        # To the job's body only, which is the supervisor: SIGUSR1 makes it look at its folder.
        try:
            _tolerant("scancel", "--batch", "--signal=USR1", job)
        except SlurmSilent as silence:  # it tries for ever to signal a suspended job
            refresh(directory.home, every_s=0.0)
            row = row_of(directory, read_job(directory))
            if row is None or not job_is_suspended(row.state):
                silence.hint = "the stop is written down: the run acts on it when it looks there"
                raise
            if not force:
                now = f"`fresnel-tui stop --force {directory.id}` ends it now"
                raise FresnelError(
                    f"{directory.id}: Slurm has suspended its job",
                    f"it stops when Slurm resumes it; {now}",
                ) from None
            _cancel(job)


def cancel_job(run: Run, directory: RunDirectory) -> str:
    """End the whole job, which has not acted on a forced stop; why that is not done, or empty."""
    try:
        _cancel(job_number(directory))
    except FresnelError as error:
        return f"{error.message} (`scancel` of the job of {run.id})"
    return ""


def _cancel(job: str) -> None:
    _tolerant("scancel", job)


def _tolerant(*command: str) -> None:
    """Ask, and take it as done where the job has ended meanwhile."""
    try:
        ask(*command)
    except SlurmRefused as refusal:
        if not any(part in refusal.message for part in _GONE):
            raise
