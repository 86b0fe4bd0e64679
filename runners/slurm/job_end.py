"""One job as Slurm tells of it: how it ended, whether it waits again, what it is billed as."""

import re
from pathlib import Path

from runners.host.files import read_tail
from runners.model.endings import JobEnd, job_end_of
from runners.slurm.client import SlurmRefused, SlurmSilent, ask

_WITHIN_S = 3.0
_REQUEUED_WITHIN_S = 10.0
_TAIL_BYTES = 16 << 10
# Source: Slurm's slurmd/slurmstepd/req.c.
_ENDED = re.compile(
    r"\*\*\* JOB (\d+) ON \S+ CANCELLED AT \S+(?: DUE TO ([A-Z ]+?))?(?:,.*)? \*\*\*"
)
_REASONS = {
    "": JobEnd.CANCELLED,
    "TIME LIMIT": JobEnd.TIME_LIMIT,
    "PREEMPTION": JobEnd.PREEMPTED,
    "NODE FAILURE": JobEnd.NODE_FAILED,
    "JOB REQUEUE": JobEnd.REQUEUED,
}
_FORGOTTEN = "Invalid job id"
_KILL_WAIT_S = 30.0
"""Slurm's default of KillWait."""


def end_of_job(job: str, name: str = "") -> tuple[JobEnd | None, str]:
    """How a job ended, and who cancelled it where that is known: accounting first.

    None while it has not ended, and where Slurm does not answer or has forgotten it. One of another
    `name` is another job: a controller that crashed gives its last numbers again.
    """
    try:
        lines = ask(*_SACCT, "--jobs", job, within_s=_WITHIN_S).splitlines()
        rows = [line.split("|", 2) for line in lines]
        state = next((row[0] for row in reversed(rows) if name in ("", row[-1])), "")
        if (end := job_end_of(state)) is not None:
            return end, state.partition(" by ")[2].strip()
    except (SlurmRefused, SlurmSilent):
        pass  # accounting is off, or does not answer
    try:
        shown = ask("scontrol", "show", "job", "--oneliner", job, within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return None, ""
    if name and not re.search(rf"\bJobName={re.escape(name)} \w+=", shown):
        return None, ""
    found = re.search(r"\bJobState=(\S+)", shown)
    end = job_end_of(found[1]) if found else None
    output = re.search(r"\bStdErr=(.+?)(?: [A-Z]\w*=|$)", shown, re.MULTILINE)
    if end is None and output is not None:
        # While its processes are ended, a job is COMPLETING and no more.
        end = end_in_output(read_tail(Path(output[1]), _TAIL_BYTES).decode("utf-8", "replace"), job)
    return end, ""


def is_in_queue(job: str, name: str = "") -> bool:
    """Whether Slurm says that a job waits or runs; False where it does not answer."""
    try:
        shown = ask("squeue", "--noheader", "--format=%T %j", f"--jobs={job}", within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return False
    state, _, called = shown.strip().partition(" ")
    alive = state in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED")
    return alive and name in ("", called.strip())


def end_in_output(text: str, job: str) -> JobEnd | None:
    """Why slurmstepd says, in the output of a job's script, that it ends the job; None: not."""
    found = [match for match in _ENDED.finditer(text) if match[1] == job]
    if not found:
        return None
    return _REASONS.get((found[-1][2] or "").strip(), JobEnd.UNKNOWN)


_SACCT = ("sacct", "--noheader", "--parsable2", "--allocations", "--format=State,JobID,JobName%200")


def kill_wait_s() -> float:
    """How long Slurm waits between SIGTERM and SIGKILL, in seconds; its default where unknown."""
    try:
        shown = ask("scontrol", "show", "config", within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return _KILL_WAIT_S
    found = re.search(r"^KillWait\s*=\s*(\d+)", shown, re.MULTILINE)
    return float(found[1]) if found else _KILL_WAIT_S


def billing_of(job: str) -> float:
    """How many units a job is billed as, by its partition's TRESBillingWeights; 0: not known."""
    try:
        shown = ask("scontrol", "show", "job", "--oneliner", job, within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return 0.0
    found = re.search(r"\b(?:Alloc)?TRES=\S*\bbilling=(\d{1,12}(?:\.\d{1,6})?)", shown)
    return float(found[1]) if found else 0.0


def requeue(job: str) -> str:
    """Have Slurm put a job back into its queue; why it does not, or nothing."""
    try:
        ask("scontrol", "requeue", job, within_s=_REQUEUED_WITHIN_S)
    except (SlurmRefused, SlurmSilent) as problem:
        return problem.message
    return ""


def is_settled(job: str) -> bool:
    """Whether the controller itself has done with a job, or has forgotten it.

    Not while it clears what is left of it: then it may still put it back into its queue.
    """
    try:
        shown = ask("scontrol", "show", "job", "--oneliner", job, within_s=_WITHIN_S)
    except SlurmRefused as refusal:
        return _FORGOTTEN in refusal.message
    except SlurmSilent:
        return False
    states = re.findall(r"\bJobState=(\S+)", shown)
    return bool(states) and all(job_end_of(state) is not None for state in states)
