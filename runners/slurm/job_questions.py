"""What a supervisor asks of Slurm about its run's job, answered as JSON.

    python -m runners.slurm.job_questions end JOB [NAME]

Run as a helper: the supervisor itself stays too small for it.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from runners.model.endings import JobEnd
from runners.slurm.job_end import (
    billing_of,
    end_of_job,
    exit_of_job,
    is_in_queue,
    kill_wait_s,
    requeue,
)


def _end(job: str, name: str = "") -> dict[str, Any]:
    """How the job of that name ended, by whom, whether it lives, and how long it may take.

    Of one that failed, the exit code of its script too, and where that ran.
    """
    end, by = end_of_job(job, name)
    lives = end is None and is_in_queue(job, name)
    code, node = exit_of_job(job, name) if end is JobEnd.FAILED else (None, "")
    shown = {"end": end, "by": by, "lives": lives, "kill_wait_s": kill_wait_s()}
    return {**shown, "code": code, "node": node}


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "end": _end,
    "billing": lambda job: {"billing": billing_of(job)},  # as how many units
    "requeue": lambda job: {"problem": requeue(job)},  # what prevents it
}


def main() -> None:
    """Print the answer to the question on the command line."""
    question, *arguments = sys.argv[1:]
    json.dump(_ANSWERS[question](*arguments), sys.stdout)
