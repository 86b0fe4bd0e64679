"""What Slurm's word for the state of a job means: it waits, it has its nodes, or it has ended.

Standard library only. Sources: squeue's manual, "JOB STATE CODES", and Slurm's page on job states.
A word that is in none of the sets is not understood: nothing follows from it.
"""

from runners.model.endings import JobEnd, job_end_of

_WAITS = frozenset(
    ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
)
_ACTIVE = frozenset(
    (
        *("RUNNING", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"),
        *("STOPPED", "SUSPENDED"),
    )
)


def job_waits(state: str) -> bool:
    """Whether a job is in the queue: it has not begun, or was put back."""
    return state in _WAITS


def job_is_active(state: str) -> bool:
    """Whether a job has its nodes: it starts, runs, is paused, or is being cleared away."""
    return state in _ACTIVE


def job_is_over(state: str) -> bool:
    """Whether a job has ended for good; one that is being put back has not."""
    return job_end_of(state) not in (None, JobEnd.REQUEUED)


def is_understood(state: str) -> bool:
    """Whether the word means one of these."""
    return job_waits(state) or job_is_active(state) or job_is_over(state)
