"""A job that was not launched here as a row of the run table, and in full for its dialogs."""

import time

from runners.host.identity import user_name
from runners.model.job_states import is_understood, job_is_active, job_waits
from runners.model.pending import pending_text
from runners.model.states import State
from runners.places.run_row import RunRow
from runners.slurm.foreign_jobs import shown_number
from runners.state.jobs import JobRow

_LONGEST_NAME = 120
HOW_IT_ENDS = "scancel: Slurm sends SIGTERM, and SIGKILL when its KillWait is over"


def row_of_job(job: JobRow, seen: float) -> RunRow:
    """Its row; `seen`: when it was first seen here (unix s), for a job that waits."""
    state = State.RUNNING if job_is_active(job.state) else State.QUEUED
    if job.state == "CONFIGURING":
        state = State.STARTING
    started = None
    if state is State.RUNNING and job.ends and job.limit_s:
        started = min(job.ends - job.limit_s, time.time())
    waits = f"waits: {pending_text(job.reason).replace('JOB', shown_number(job))}"
    runs = f"on {job.nodes or 'its node'}, partition {job.partition}"
    if not is_understood(job.state):
        runs = f"Slurm says {job.state}"
    return RunRow(
        id=shown_number(job),
        stamp=0,
        name=job.name[:_LONGEST_NAME],
        preset="",
        group="",
        state=state,
        remark=f"{waits if job_waits(job.state) else runs}; not launched here",
        host="",
        user=user_name(),
        created=started or seen,
        started=started,
        ended=None,
        seconds=None,
        exit_code=None,
        gpus=(),
        fraction=None,
        step=None,
        steps=None,
        epoch=None,
        epochs=None,
        headline=None,
        last=None,
        best=None,
        is_live=True,
    )
