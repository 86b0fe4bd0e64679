"""How a Slurm job ended, in words, and what that makes of the run inside it.

Standard library only: the supervisor imports it. Source of the states: squeue's manual, "JOB STATE
CODES".
"""

from typing import NamedTuple

from runners.model.closed import TextEnum
from runners.model.states import State


class JobEnd(TextEnum):
    """Why Slurm ended a job, or what ended with it."""

    COMPLETED = "completed"
    """Its script came to its end; Slurm ends what is left of it then."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAILED = "node_failed"
    BOOT_FAILED = "boot_failed"
    DEADLINE = "deadline"
    REQUEUED = "requeued"
    REVOKED = "revoked"
    UNKNOWN = "unknown"
    """Slurm ended it and does not say why, or has forgotten it."""

    @property
    def text(self) -> str:
        """What became of the job; follows `Slurm job 12`."""
        return _TRAITS[self].text

    @property
    def run_state(self) -> State:
        """How a run ends that nobody saw ending in such a job."""
        return _TRAITS[self].run_state


class _Traits(NamedTuple):
    slurm: str
    """What Slurm calls it."""
    text: str
    run_state: State


_TRAITS = {
    JobEnd.COMPLETED: _Traits("COMPLETED", "ended before the run", State.STOPPED),
    JobEnd.FAILED: _Traits("FAILED", "failed", State.FAILED),
    JobEnd.CANCELLED: _Traits("CANCELLED", "was cancelled", State.STOPPED),
    JobEnd.TIME_LIMIT: _Traits("TIMEOUT", "reached its time limit", State.STOPPED),
    JobEnd.PREEMPTED: _Traits("PREEMPTED", "was preempted by another job", State.STOPPED),
    JobEnd.OUT_OF_MEMORY: _Traits("OUT_OF_MEMORY", "used more memory than it has", State.FAILED),
    JobEnd.NODE_FAILED: _Traits("NODE_FAIL", "lost its node", State.FAILED),
    JobEnd.BOOT_FAILED: _Traits("BOOT_FAIL", "could not start: its node failed", State.FAILED),
    JobEnd.DEADLINE: _Traits("DEADLINE", "reached its deadline", State.STOPPED),
    JobEnd.REQUEUED: _Traits("REQUEUED", "was put back into the queue", State.STOPPED),
    JobEnd.REVOKED: _Traits("REVOKED", "was moved to another cluster", State.STOPPED),
    JobEnd.UNKNOWN: _Traits("", "was ended by Slurm", State.STOPPED),
}
_BY_SLURM = {traits.slurm: end for end, traits in _TRAITS.items() if traits.slurm}


def job_end_of(state: str) -> JobEnd | None:
    """The end that Slurm's word for a job's state means; None while the job has not ended.

    `CANCELLED by 1000` and `TIMEOUT+` are understood too.
    """
    word = state.strip().partition(" ")[0].rstrip("+").upper()
    return _BY_SLURM.get(word)
