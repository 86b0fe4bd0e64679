"""A run inside a Slurm job ends with it: it stops when Slurm says so, and is done in time."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runners.host import helpers
from runners.host.procfs import start_ticks
from runners.host.slurm_job import SlurmJob, job_task
from runners.lifecycle.supervisor.job_owner import LOOKS_EVERY_S
from runners.lifecycle.supervisor.pollers import NEVER
from runners.lifecycle.supervisor.stop_escalation import StopEscalation
from runners.lifecycle.supervisor.wakeup import LIMIT_NEAR, WakeupLoop
from runners.model.endings import Ending, EndingCause, JobEnd
from runners.state.records import intent_fields

_LOOKS_EVERY_S = 1.0
_ASKED_WITHIN_S = 8.0
_KILL_WAIT_S = 30.0
_PART = 0.75
"""So much of Slurm's patience is the program's; the rest is for recording how it ended."""


class JobWatch:
    """Begins the stop of an attempt when the job is ended, or its task is gone.

    `check` raises once the run is another body's.
    """

    def __init__(
        self,
        job: SlurmJob,
        wakeups: WakeupLoop,
        stop: StopEscalation,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._job = job
        self._check, self._checks_at = check, 0.0
        self._wakeups = wakeups
        self._stop = stop
        self._task = job_task()
        self._has_begun = self._is_over = False

    def poll(self, now: float) -> float:
        """Look whose the run is, for a signal of Slurm's, and for the task."""
        if self._check is not None and now >= self._checks_at:
            self._check()
            self._checks_at = now + LOOKS_EVERY_S
        return min(self._poll(), LOOKS_EVERY_S)

    def _poll(self) -> float:
        if self._is_over:
            return NEVER
        number = self._wakeups.job_signal
        gone = self._task is not None and start_ticks(self._task[0]) != self._task[1]
        if not (number or gone):
            return _LOOKS_EVERY_S if self._task is not None else NEVER
        if not self._has_begun:
            # The ladder first: Slurm's patience is short, and its answers may take a while.
            self._has_begun = True
            if self._stop.read() is None:
                asked = intent_fields({"time": time.time(), "by": "Slurm", "force": gone})
                self._stop.request({**asked, "ending": job_ending(self._job.id, {}, number)})
            return 0.0
        self._is_over = True
        answer = ask_slurm(self._job.id)
        intent = self._stop.read()
        is_ours = intent is not None and intent["ending"]["cause"] is EndingCause.SLURM
        if intent is not None and is_ours and (number == LIMIT_NEAR or answer.get("end")):
            self._stop.request({**intent, "ending": job_ending(self._job.id, answer, number)})
        # Slurm kills all that is left when its patience is over; of a job that is gone already,
        # the GPUs may be another's.
        if gone:
            self._stop.ladder.clip(time.monotonic(), 0.0)
        elif number != LIMIT_NEAR:
            self._stop.ladder.clip(time.monotonic(), _PART * _seconds(answer))
        return 0.0


def ask_slurm(job: str, name: str = "") -> dict[str, Any]:
    """What Slurm says of the end of the job of that name, if any; empty when nothing comes."""
    return answer_of("ask-slurm", "end", job, name, within_s=_ASKED_WITHIN_S)


def answer_of(helper: str, *arguments: str, within_s: float) -> dict[str, Any]:
    """The JSON object that a helper prints; empty when nothing comes."""
    with suppress(OSError, ValueError):
        answer = json.loads(helpers.run(helper, *arguments, within_s=within_s)[1])
        return answer if isinstance(answer, dict) else {}
    return {}


def job_ending(job: str, answer: dict[str, Any], number: int = 0) -> Ending:
    """What is recorded of a run whose job ended so."""
    end = JobEnd.UNKNOWN
    with suppress(ValueError):
        end = JobEnd(answer.get("end", JobEnd.UNKNOWN))
    ending = Ending(
        cause=EndingCause.SLURM, job=job, job_end=JobEnd.TIME_LIMIT if number == LIMIT_NEAR else end
    )
    if answer.get("by"):
        ending["detail"] = f"by {answer['by']}"
    return ending


def _seconds(answer: dict[str, Any]) -> float:
    value = answer.get("kill_wait_s")
    return float(value) if isinstance(value, (int, float)) else _KILL_WAIT_S
