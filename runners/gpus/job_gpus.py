"""Inside a Slurm job only its own GPUs exist, whatever else the driver shows."""

import shutil
import time
from collections.abc import Sequence

from runners.host.locks import is_held
from runners.host.slurm_job import SlurmJob
from runners.model.gpus import GpuSnapshot
from runners.state.layout import JOB_READINGS, StateDirectory

_KEPT_S = 86_400.0


def gpus_of_job(gpus: Sequence[GpuSnapshot], job: SlurmJob) -> tuple[GpuSnapshot, ...]:
    """Those of `gpus` that `job` was given.

    Where Slurm hides the others by control groups (`ConstrainDevices`), the driver numbers those
    that are left from 0, while the job's numbers are the node's: then all that it shows are meant.
    """
    cards = [gpu for gpu in gpus if gpu.mig_parent is None]
    if all(word.isdecimal() for word in job.gpus):
        if len(cards) == len(job.gpus):
            return tuple(gpus)
        return tuple(gpu for gpu in gpus if str(gpu.index) in job.gpus)
    found = {gpu.uuid for gpu in gpus if gpu.uuid.startswith(job.gpus)}
    # A card stays beside its instances: front ends show these under it.
    parents = {gpu.mig_parent for gpu in gpus if gpu.uuid in found}
    return tuple(gpu for gpu in gpus if gpu.uuid in found or gpu.uuid in parents)


def problem_of_job(gpus: Sequence[GpuSnapshot], job: SlurmJob) -> str | None:
    """Why a job has not got the GPUs it should have; None when it has."""
    if not job.node:
        return (
            f"this shell is on no node of Slurm job {job.id}, its GPUs are there: start it by srun"
        )
    if not job.gpus:
        return f"Slurm job {job.id} was given no GPU: submit it with --gres=gpu:N"
    if not gpus:
        return f"Slurm job {job.id} has GPU {','.join(job.gpus)}, which the driver does not show"
    return None


def forget_jobs(state: StateDirectory) -> None:
    """Remove what samplers of jobs that ended a day ago have left."""
    for folder in state.host.glob(f"{JOB_READINGS}*"):
        try:
            is_old = time.time() - folder.stat().st_mtime > _KEPT_S
        except OSError:
            continue
        if is_old and folder != state.readings and not is_held(folder / "sampler.lock"):
            shutil.rmtree(folder, ignore_errors=True)
