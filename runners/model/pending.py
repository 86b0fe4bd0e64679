"""What Slurm's words for a job mean: its state, and why it waits, with what can be done about it.

Sources: squeue's manual, "JOB STATE CODES" and "JOB REASON CODES", Slurm's page on job states, and
slurm_protocol_defs.c. A state that is in none of the sets is not understood, and nothing follows
from it; a reason that is not in the table is shown as Slurm writes it: nothing is guessed.
"""

import re

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


def job_is_suspended(state: str) -> bool:
    """Whether Slurm has stopped all of a job's processes, which hear no signal then."""
    return state in ("SUSPENDED", "STOPPED")


def job_is_over(state: str) -> bool:
    """Whether a job has ended for good; one that is being put back has not."""
    return job_end_of(state) not in (None, JobEnd.REQUEUED)


def is_understood(state: str) -> bool:
    """Whether the word means one of these."""
    return job_waits(state) or job_is_active(state) or job_is_over(state)


_REASONS = {
    "None": "not looked at yet",
    "Priority": "jobs with a higher priority come first; a shorter time limit may help",
    "Resources": "next in line: its nodes or GPUs are in use",
    "Dependency": "for the job that it depends on",
    "DependencyNeverSatisfied": (
        "the job that it depends on did not succeed: it never starts; stop it"
    ),
    "JobHeldUser": "held by you; `scontrol release JOB` lets it start",
    "JobHeldAdmin": "held by an administrator; ask them",
    "job_requeued_in_held_state": "held when it was put back; `scontrol release JOB` lets it start",
    "JobHoldMaxRequeue": "held: put back into the queue too often; `scontrol release JOB`",
    "launch_failed_requeued_held": (
        "held: its node could not start it; `scontrol release JOB` tries again"
    ),
    "BeginTime": "for the time at which it may begin",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "its nodes are down, drained, or kept for partitions that go first"
    ),
    "PartitionDown": "its partition takes no jobs; another one: `sinfo -s`",
    "PartitionInactive": "its partition is inactive; another one: `sinfo -s`",
    "PartitionNodeLimit": "more nodes than its partition allows; ask for fewer",
    "PartitionTimeLimit": "a longer time limit than its partition allows; a shorter one: --time",
    "Reservation": "for a reservation",
    "JobArrayTaskLimit": "as many of its sweep run as may at once",
    "BadConstraints": "no node has what it asks for; another constraint",
    "AccountNotAllowed": "its account may not use this partition; --account",
    "QOSNotAllowed": "its QOS may not be used here; another one: --qos",
    "InvalidAccount": "its account does not exist; another one: --account",
    "InvalidQOS": "its QOS does not exist; another one: --qos",
    "Licenses": "for a licence",
    "NodeDown": "a node that it needs is down",
    "Prolog": "its node is being prepared",
    "Cleaning": "being cleaned up after it was put back into the queue",
    "FedJobLock": "for the other clusters of its federation",
}
"""What its reasons mean, and what may be done; JOB stands for its number."""
_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc)?(?:Grp|Max)(?P<what>[A-Za-z]+?)(?P<time>(?:Run)?Minutes)?"
    r"(?:Limit)?(?:Per(?P<each>User|Account|Job|Node))?(?:Limit)?"
)
"""How the names of limits are made: `QOSMaxGRESPerUser`, `AssocGrpCPURunMinutesLimit`."""
_WHOSE = {"QOS": "its QOS", "Assoc": "its account"}
_WHAT = {
    "cpu": "CPUs", "gres": "GPUs and other devices", "node": "nodes", "nodes": "nodes",
    "mem": "memory", "memory": "memory", "job": "jobs", "jobs": "jobs",
    "submit": "jobs in the queue", "submitjob": "jobs in the queue",
    "submitjobs": "jobs in the queue", "wall": "time", "wallduration": "time",
    "billing": "billing units", "bb": "burst buffer", "energy": "energy", "license": "licences",
}  # fmt: skip
_OWN_LIMIT = (
    "it starts when others of these end, never if it asks for more alone; another --qos or "
    "--account may allow more"
)

_OF_ONE = "it asks for more and never starts; stop it, and ask for less, or for another --qos"


def pending_text(reason: str, number: str) -> str:
    """What Slurm's reason for the job `number` means, and what may be done.

    A list of nodes behind it is left away.
    """
    word = reason.strip().strip("()").partition("(")[0].strip().replace(" ", "_")
    found = _REASONS.get(word) or _REASONS.get(word.partition(",")[0])
    if found is not None:
        return found.replace("JOB", number)
    if limit := limit_text(word):
        return f"{limit}; {_OF_ONE if 'PerJob' in word or 'PerNode' in word else _OWN_LIMIT}"
    if word.startswith("QOSMin"):
        return "asks for less than its QOS requires; ask for more"
    return f"Slurm says {word}" if word else "Slurm gives no reason"


def limit_text(word: str) -> str:
    """The limit that Slurm names, in words; empty for a word that is none."""
    found = _LIMIT.fullmatch(word)
    what = _WHAT.get(found["what"].lower()) if found else None
    if found is None or what is None:
        return ""
    times = {"Minutes": f"minutes of {what}", "RunMinutes": f"minutes of {what} at once"}
    each = f" per {found['each'].lower()}" if found["each"] else ""
    whose = _WHOSE.get(found["whose"] or "", "the cluster")
    return f"the limit of {whose} for {times.get(found['time'] or '', what)}{each} is reached"
