"""Whoever waits for runs inside a Slurm job passes on that the job is being ended."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from runners.host.slurm_job import slurm_job
from runners.lifecycle.control.stop import request_stop
from runners.model.endings import Ending, EndingCause, JobEnd
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import read_run


@contextmanager
def ending_with_job(state: StateDirectory, runs: Sequence[Run]) -> Iterator[None]:
    """Inside a Slurm job, turn Slurm's SIGTERM into a stop of `runs`, and go on waiting.

    As a job's script this process is what Slurm waits for: when it ends, everything else in the
    job is killed, so their stop ladders have Slurm's patience (KillWait) only while it lives.
    """
    job = slurm_job()
    if job is None:
        yield
        return

    def stop(*_: Any) -> None:
        from runners.slurm.job_end import end_of_job  # only when a job is ended

        end, by = end_of_job(job.id)
        ending = Ending(cause=EndingCause.SLURM, job=job.id, job_end=end or JobEnd.UNKNOWN)
        if by:
            ending["detail"] = f"by {by}"
        for run in runs:
            # Their supervisors may have got the signal too, and a second request takes a rung.
            if read_run(state, run.id).is_live and not state.run(run.id).stop.exists():
                with suppress(FresnelError, OSError):
                    request_stop(state, run, ending=ending)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
