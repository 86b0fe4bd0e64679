"""Runs that are Slurm jobs: their scheduler asked now and then, and recorded what ended unseen."""

import os
from collections.abc import Sequence
from contextlib import suppress

from runners.host.locks import is_held
from runners.host.slurm_job import slurm_job
from runners.lifecycle.supervisor.spawn import spawn_supervisor
from runners.model.errors import FresnelError
from runners.slurm.queue import refresh
from runners.state.job_status import is_over
from runners.state.layout import StateDirectory
from runners.state.trust import run_permission_problem


def settle_jobs(state: StateDirectory, live: Sequence[str]) -> list[str]:
    """Ask Slurm, where a live run is a job; have the ending recorded of those whose job is over.

    Returns their ids. Not from inside of a job: that is done on the machine that submits.
    """
    jobs = [run_id for run_id in live if state.run(run_id).job.exists()]
    if not jobs or slurm_job() is not None:
        return []
    refresh(state)
    settled = []
    for run_id in jobs:
        run = state.run(run_id)
        # Of a node that Slurm has lost sight of, the supervisor may live: it records the ending.
        if is_over(run) and not is_held(run.supervisor_lock) and not run_permission_problem(run):
            with suppress(FresnelError, OSError):
                spawn_supervisor(run, os.environ, [])
                settled.append(run_id)
    return settled
