"""One job as Slurm tells of it: how it ended, whether it waits again, what it is billed as."""

import re
from contextlib import suppress
from pathlib import Path
from pwd import getpwuid

from runners.host.files import read_tail
from runners.model.endings import JobEnd, job_end_of
from runners.model.pending import job_is_active, job_is_over, job_waits
from runners.slurm.client import SlurmRefused, SlurmSilent, ask, script_name

_WITHIN_S = 3.0
_REQUEUED_WITHIN_S = 10.0
_TAIL_BYTES = 16 << 10
# Source: Slurm's slurmd/slurmstepd/req.c.
_ENDED = re.compile(
    r"\*\*\* JOB (\d+) ON \S+ CANCELLED AT \S+(?: DUE (?:TO|to) ([A-Za-z0-9 ]+?))?(?:,.*)? \*\*\*"
)
_REASONS = {
    "": JobEnd.CANCELLED,
    "TIME LIMIT": JobEnd.TIME_LIMIT,
    "PREEMPTION": JobEnd.PREEMPTED,
    "NODE FAILURE": JobEnd.NODE_FAILED,
    "JOB REQUEUE": JobEnd.REQUEUED,
}
_STATE = re.compile(r"\bJobState=([A-Z_]{1,40}) Reason=")
_EXIT = re.compile(r"([0-9]{1,3}):[0-9]{1,3}")
_NODES = re.compile(r"[A-Za-z0-9][\w.,\[\]-]{0,199}")
_ENDED_WITH = re.compile(r" ExitCode=([0-9]{1,3}):[0-9]{1,3} ")
_HOST = re.compile(r" BatchHost=([A-Za-z0-9][\w.-]{0,63}) ")
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
            return end, _name_of(state.partition(" by ")[2].strip())
    except (SlurmRefused, SlurmSilent):
        pass  # accounting is off, or does not answer
    try:
        shown = ask("scontrol", "show", "job", "--oneliner", job, within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return None, ""
    script = script_name(path_of("Command", shown))
    if name not in ("", script) and not re.search(rf"\bJobName={re.escape(name)} \w+=", shown):
        return None, ""
    states = states_in(shown)
    end = job_end_of(states[0]) if states else None
    # Since 25.11 it is empty where it is the same as the other.
    output = path_of("StdErr", shown) or path_of("StdOut", shown)
    if end is None and output:
        # While its processes are ended, a job is COMPLETING and no more.
        end = end_in_output(read_tail(Path(output), _TAIL_BYTES).decode("utf-8", "replace"), job)
    return end, ""


def _name_of(user: str) -> str:
    """The name of the user whose number accounting has; the number where nobody here has it."""
    with suppress(KeyError, ValueError, OverflowError):
        return getpwuid(int(user)).pw_name
    return user


def exit_of_job(job: str, name: str = "") -> tuple[int | None, str]:
    """The exit code of a job's script, and the node it ran on, or its nodes; accounting first."""
    with suppress(SlurmRefused, SlurmSilent):
        columns = "--format=ExitCode,NodeList,JobName%200"
        output = ask(*_SACCT[:-1], columns, "--jobs", job, within_s=_WITHIN_S)
        for line in reversed(output.splitlines()):
            code, _, rest = line.partition("|")
            nodes, _, called = rest.partition("|")
            if name in ("", called) and (found := _EXIT.fullmatch(code)):
                return int(found[1]), nodes if _NODES.fullmatch(nodes) else ""
    with suppress(SlurmRefused, SlurmSilent):
        shown = ask("scontrol", "show", "job", "--oneliner", job, within_s=_WITHIN_S)
        begin = max(0, shown.find(" UserId="))
        ended, host = _ENDED_WITH.search(shown, begin), _HOST.search(shown, begin)
        if ended is not None:
            return int(ended[1]), host[1] if host else ""
    return None, ""


def states_in(shown: str) -> list[str]:
    """The states in what `scontrol show job --oneliner` prints, one for each of its jobs.

    A name or a comment may have any text: the state stands behind the job's user.
    """
    found = (_STATE.search(line, max(0, line.find(" UserId="))) for line in shown.splitlines())
    return [match[1] for match in found if match]


def path_of(name: str, shown: str) -> str:
    """The file that `scontrol show job` names so; empty for none."""
    found = re.search(rf"\b{name}=(/[^\n]*?)(?: [A-Z]\w*=|$)", shown, re.MULTILINE)
    return found[1] if found else ""


def is_in_queue(job: str, name: str = "") -> bool:
    """Whether Slurm says that a job waits or runs; False where it does not answer."""
    try:
        columns = "--format=%T\x1f%o\x1f%j"
        shown = ask("squeue", "--noheader", columns, f"--jobs={job}", within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return False
    state, _, rest = shown.strip().partition("\x1f")
    command, _, called = rest.partition("\x1f")
    alive = job_waits(state) or (job_is_active(state) and state != "COMPLETING")
    return alive and name in ("", called.strip(), script_name(command.strip()))


def end_in_output(text: str, job: str) -> JobEnd | None:
    """Why slurmstepd says, in the output of a job's script, that it ends the job; None: not."""
    found = [match for match in _ENDED.finditer(text) if match[1] == job]
    if not found:
        return None
    return _REASONS.get((found[-1][2] or "").strip(), JobEnd.UNKNOWN)


# A controller that was reset gives a number again: of its jobs, that of the name is meant.
_SACCT = (
    *("sacct", "--noheader", "--parsable2", "--allocations", "--duplicates"),
    "--format=State,JobID,JobName%200",
)


def kill_wait_s() -> float:
    """How long Slurm waits between SIGTERM and SIGKILL, in seconds; its default where unknown."""
    try:
        shown = ask("scontrol", "show", "config", within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return _KILL_WAIT_S
    found = re.search(r"^KillWait\s*=\s*([0-9]{1,6}) sec", shown, re.MULTILINE)
    return float(found[1]) if found else _KILL_WAIT_S


def billing_of(job: str) -> float:
    """How many units a job is billed as, by its partition's TRESBillingWeights; 0: not known."""
    try:
        shown = ask("scontrol", "show", "job", "--oneliner", job, within_s=_WITHIN_S)
    except (SlurmRefused, SlurmSilent):
        return 0.0
    return read_billing(shown)


_BILLING = re.compile(
    r" (?:Alloc)?TRES=(?:\S*,)?billing=([0-9]{1,12}(?:\.[0-9]{1,6})?)(?=[,\s]|$)", re.MULTILINE
)


def read_billing(shown: str) -> float:
    """The units in what `scontrol show job` prints; 0 where it names none, or shortens them."""
    found = _BILLING.search(shown, max(0, shown.find(" UserId=")))
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
    states = states_in(shown)
    return bool(states) and all(map(job_is_over, states))
