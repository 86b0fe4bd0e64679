"""How a run ended: the cause with its parts, recorded by whoever ends it, and its words.

Standard library only: the supervisor imports it. Nothing reads the words back.

Source of the states of Slurm jobs: squeue's manual, "JOB STATE CODES".
"""

import signal
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypedDict

from runners.host.clock import local_time
from runners.model.closed import TextEnum, assert_never
from runners.model.states import State


class EndingCause(TextEnum):
    """Why a run ended: what its program did, who stopped it, or what became of its machine."""

    COMPLETED = "completed"
    FAILED = "failed"
    SIGNALLED = "signalled"
    """Its program was ended by a signal that nobody here sent."""
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    GUARD = "guard"
    PREEMPTED = "preempted"
    """Its machine was taken away by the provider, or shut down."""
    LOGOUT = "logout"
    """Systemd ended it with its user's login, as where lingering is off."""
    STALL = "stall"
    HOPELESS = "hopeless"
    """The median rule of its sweep."""
    PROBE = "probe"
    PEER = "peer"
    """Another machine's part of the same program failed."""
    REFUSED = "refused"
    """It waited, and can never start."""
    NOT_STARTED = "not_started"
    INTERRUPTED = "interrupted"
    """Its launch was, before its program started."""
    REBOOTED = "rebooted"
    UNSEEN = "unseen"
    """Its program ended by itself or by others; nobody saw its exit status."""
    SLURM = "slurm"
    """Slurm ended the job that it was part of."""
    UNKNOWN = "unknown"
    """It vanished, and left no trace."""


RestartReason = Literal["failure", "time_limit", "preempted", "node_fail"]
"""After which end a run may begin anew: of its program, or else of its Slurm job.

A run's own limits are no such end: they count from its first start.
"""

USUAL_RESTARTS: tuple[RestartReason, ...] = ("failure", "preempted", "node_fail")


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
        return _JOB_TRAITS[self].text

    @property
    def restart_reason(self) -> RestartReason | None:
        """As what a restart rule knows it; None where the job cannot begin anew."""
        return _RESTART_REASONS.get(self)

    @property
    def run_state(self) -> State:
        """How a run ends that nobody saw ending in such a job."""
        return _JOB_TRAITS[self].run_state


class _JobTraits(NamedTuple):
    slurm: str
    """What Slurm calls it."""
    text: str
    run_state: State


_JOB_TRAITS = {
    JobEnd.COMPLETED: _JobTraits("COMPLETED", "ended before the run", State.STOPPED),
    JobEnd.FAILED: _JobTraits("FAILED", "failed", State.FAILED),
    JobEnd.CANCELLED: _JobTraits("CANCELLED", "was cancelled", State.STOPPED),
    JobEnd.TIME_LIMIT: _JobTraits("TIMEOUT", "reached its time limit", State.STOPPED),
    JobEnd.PREEMPTED: _JobTraits("PREEMPTED", "was preempted by another job", State.STOPPED),
    JobEnd.OUT_OF_MEMORY: _JobTraits("OUT_OF_MEMORY", "used more memory than it has", State.FAILED),
    JobEnd.NODE_FAILED: _JobTraits("NODE_FAIL", "lost its node", State.FAILED),
    JobEnd.BOOT_FAILED: _JobTraits("BOOT_FAIL", "could not start: its node failed", State.FAILED),
    JobEnd.DEADLINE: _JobTraits("DEADLINE", "reached its deadline", State.STOPPED),
    JobEnd.REQUEUED: _JobTraits("REQUEUED", "was put back into the queue", State.STOPPED),
    JobEnd.REVOKED: _JobTraits("REVOKED", "was moved to another cluster", State.STOPPED),
    JobEnd.UNKNOWN: _JobTraits("", "was ended by Slurm", State.STOPPED),
}
_RESTART_REASONS: dict[JobEnd, RestartReason] = {
    JobEnd.TIME_LIMIT: "time_limit",
    JobEnd.PREEMPTED: "preempted",
    JobEnd.REQUEUED: "preempted",
    JobEnd.NODE_FAILED: "node_fail",
}
_BY_SLURM = {traits.slurm: end for end, traits in _JOB_TRAITS.items() if traits.slurm}


def job_end_of(state: str) -> JobEnd | None:
    """The end that Slurm's word for a job's state means; None while the job has not ended.

    `CANCELLED by 1000` and `TIMEOUT+` are understood too.
    """
    word = state.strip().partition(" ")[0].rstrip("+").upper()
    return _BY_SLURM.get(word)


class _Cause(TypedDict):
    cause: EndingCause


class Ending(_Cause, total=False):
    """The cause, and of its parts those that apply.

    The supervisor writes it as JSON into state.json, who asks for a stop into stop.json.
    """

    signal: str
    """The signal that ended the program."""
    diagnosis: str
    """The class of the known cause, and that cause in a few words."""
    summary: str
    disk: str
    """Where the file system is mounted that was full as the run ended."""
    lasting: bool
    """The known cause stays: started again, the program fails the same way."""
    not_restarted: bool
    """For that reason it was not started again, although its restart rule has attempts left."""
    error: str
    """The line of the program's own output that says why."""
    rank: int
    """Which rank failed first: by the diagnosis, else by torchrun's report."""
    rank_code: int
    """With which exit code (128 + signal), where it is torchrun that says so."""
    memory_kills: int
    """Processes of the run that the kernel killed for want of memory, by its control group."""
    memory_limit: int
    """Over which limit they were, in bytes: that of a control group."""
    by: str
    """Who asked for the stop, and whether by force."""
    forced: bool
    rule: str
    """The id of the guard's rule."""
    detail: str
    """In the words of who ended it: what the guard or a stall's judge saw, the error of a start."""
    seconds: float
    """The time limit, or the silence at which the preset has a stalled run stopped."""
    usd: str
    """The cost limit, in dollars."""
    rebooted: float
    """When the host did, in unix seconds."""
    holding: list[tuple[int | None, int]]
    """What still holds its GPUs: the GPU's index, None where only the pid is known; the pid."""
    job: str
    """The Slurm job, and how that ended."""
    job_end: JobEnd
    announced: int
    """The exit code that its program announced in its last event, where nobody saw it exit."""
    line: str
    """The last line of its output, where nobody saw it exit, or no other says why it failed."""
    left: list[str]
    """The commands that a program left running when it exited; they were ended then."""
    damaged: bool
    """The record was damaged afterwards; the waiter's file still has the exit code."""


def ending_text(ending: Ending, code: int | None = None) -> str:
    """How a run ended that exited with `code`, in words; empty where all is well."""
    text = _cause_text(ending, code)
    if ending.get("damaged"):
        text = f"has ended; state.json is damaged, exit code {'unknown' if code is None else code}"
    again = "not started again: it would fail the same way" if ending.get("not_restarted") else ""
    holding = holding_text(ending.get("holding"))
    return "; ".join(part for part in (text, again, holding) if part)


def is_doubtful(ending: Ending | None) -> bool:
    """Whether a program that exited with 0 may not have done its work."""
    return ending is not None and bool(ending.get("left") or ending.get("error"))


def stop_text(ending: Ending) -> str:
    """Why a run is being stopped, in words; `ending` is what will be recorded."""
    if ending["cause"] in (EndingCause.STOPPED, EndingCause.CANCELLED):
        return f"stop asked{_by(ending)}"
    return ending_text(ending)


def asked_again(former: Ending, now: Ending | None = None) -> Ending:
    """How a run ends that is being stopped and is to be stopped once more, `now` for this reason.

    The first reason stands. But one whose machine is taken away would go on later: now it is wanted
    stopped, whatever becomes of the machine.
    """
    if former["cause"] is not EndingCause.PREEMPTED:
        return former
    return now or Ending(cause=EndingCause.STOPPED)


def holding_text(holding: Sequence[tuple[int | None, int]] | None) -> str:
    """What still holds GPUs of an ended run, in words."""
    found = [
        f"pid {pid} is still alive" if gpu is None else f"GPU {gpu}: pid {pid}"
        for gpu, pid in holding or ()
    ]
    return f"not freed: {', '.join(found)}" if found else ""


def _cause_text(ending: Ending, code: int | None) -> str:
    detail = ending.get("detail", "")
    match ending["cause"]:
        case EndingCause.COMPLETED:
            if "announced" in ending:
                return "announced that it is done; nobody saw it exit"
            return _doubts_text(ending.get("error", ""), ending.get("left", []))
        case EndingCause.FAILED | EndingCause.SIGNALLED:
            return _program_text(ending, code)
        case EndingCause.STOPPED:
            killed = ending.get("forced") and ending.get("signal") == "SIGKILL"
            return f"{'killed' if killed else 'stopped'}{_by(ending)}"
        case EndingCause.CANCELLED:
            return f"cancelled{_by(ending)} before it started"
        case EndingCause.LIMIT:
            usd, seconds = ending.get("usd"), ending.get("seconds") or 0.0
            return f"{f'cost limit of ${usd}' if usd else f'time limit of {seconds:g} s'} reached"
        case EndingCause.GUARD:
            return f"guard: {detail}"
        case EndingCause.STALL:
            return f"on_stall: {detail}"
        case EndingCause.PROBE:
            return (
                f"the probe {'was interrupted' if ending.get('forced') else 'has measured enough'}"
            )
        case (
            EndingCause.HOPELESS
            | EndingCause.PEER
            | EndingCause.REFUSED
            | EndingCause.PREEMPTED
            | EndingCause.LOGOUT
        ):
            return detail
        case EndingCause.NOT_STARTED:
            return f"could not start: {detail}"
        case EndingCause.INTERRUPTED:
            return "the launch was interrupted before the program started"
        case EndingCause.REBOOTED:
            moment = ending.get("rebooted")
            when = local_time(moment, " %Y-%m-%d %H:%M") if moment else ""
            return f"host restarted{when}" + (f"; not queued again: {detail}" if detail else "")
        case EndingCause.SLURM:
            end = ending.get("job_end", JobEnd.UNKNOWN)
            return " ".join(filter(None, ("Slurm job", ending.get("job"), end.text, detail)))
        case EndingCause.UNSEEN:
            return f"ended, exit code unknown; its last line: {ending.get('line', '')}"
        case EndingCause.UNKNOWN:
            return "ended, exit code unknown"
        case never:
            return assert_never(never)  # type: ignore[unreachable]


def _doubts_text(error: str, left: Sequence[str]) -> str:
    """What makes it doubtful that a program did its work that exited with 0."""
    hidden = f"exit code 0, though its output shows {error}" if error else ""
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    ended = f"what it left running was ended: {left[0]}{more}" if left else ""
    return "; ".join(filter(None, (hidden, ended)))


def _by(ending: Ending) -> str:
    by = ending.get("by")
    return f" by {by}" if by else ""


def _program_text(ending: Ending, code: int | None) -> str:
    rank, summary, announced = ending.get("rank"), ending.get("summary"), ending.get("announced")
    if announced is not None:
        return f"announced {code_text(announced)}; nobody saw it exit"
    if summary:
        return summary if rank is None else f"rank {rank}: {summary}"
    error = ending.get("error", "")
    if rank is None:
        how = code_text(code, ending.get("memory_kills"), ending.get("memory_limit"))
    elif "rank_code" in ending or not error:
        # Not the launcher's own code besides, which only says that a rank failed.
        how = f"rank {rank} failed first: {code_text(ending.get('rank_code'))}"
    else:
        return f"rank {rank}: {error}"
    # First, as an error is: a row has little room.
    last = f"last line: {ending['line']}" if ending.get("line") else ""
    return "; ".join(part for part in (error, last, how) if part)


def code_text(
    code: int | None, memory_kills: int | None = None, memory_limit: int | None = None
) -> str:
    """An exit code (128 + signal) in words."""
    name = signal_of(code)
    if name:
        # The kernel's out-of-memory killer uses SIGKILL, which no program can report.
        unsure = "" if name != "SIGKILL" else " (out of memory, or killed by somebody)"
        return f"killed by {name}" + (f" ({over_text(memory_limit)})" if memory_kills else unsure)
    if code is None:
        return "exit code unknown"
    hints = {126: " (not executable)", 127: " (command not found)"}
    if memory_kills:
        killed = f"the kernel killed {memory_kills} of its processes"
        return f"exit code {code} ({killed}: {over_text(memory_limit)})"
    return f"exit code {code}{hints.get(code, '')}"


def over_text(memory_limit: int | None) -> str:
    """What the kernel kills for want of memory for, in words."""
    if memory_limit is None:
        return "out of host memory"
    from runners.model.units import gib_text  # most ends need no number

    return f"over its memory limit of {gib_text(memory_limit)}"


def signal_of(code: int | None) -> str:
    """The name of the signal an exit code tells of (negative, or 128 + number); empty for none."""
    number = -code if code is not None and code < 0 else (code or 0) - 128
    try:
        return signal.Signals(number).name if number > 0 else ""
    except ValueError:
        return ""
