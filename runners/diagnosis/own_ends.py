"""Ends that need no search: what this panel did or saw itself, and a command's own time limit."""

import shlex
from itertools import pairwise
from pathlib import PurePath

from runners.diagnosis.evidence import Evidence
from runners.diagnosis.verdict import Diagnosis
from runners.model.closed import assert_never
from runners.model.endings import EndingCause, JobEnd, ending_text
from runners.model.states import State
from runners.model.wrappers import started_in_the_end

OWN_TIME_LIMIT = "own_time_limit"
"""The class of a run that the `timeout` of its own command ended."""


def done_on_purpose(evidence: Evidence, looked: tuple[str, ...]) -> Diagnosis | None:
    """Why a run ended, where that was meant or is plain; None where it has to be found out."""
    for explain in (_left_running, _own_doing, _own_time_limit):
        found = explain(evidence, looked)
        if found is not None:
            return found
    return None


def _left_running(evidence: Evidence, looked: tuple[str, ...]) -> Diagnosis | None:
    ending = evidence.ending
    if ending is None or not ending.get("left") or ending.get("error"):
        return None
    remedy = "A run lasts as long as its first process: leave out the `&`, or end with `wait`."
    rests = ("its first process exited with 0; its other processes were still running",)
    return Diagnosis("left_running", "", ending_text(ending), remedy, rests, looked)


def _own_doing(evidence: Evidence, looked: tuple[str, ...]) -> Diagnosis | None:
    """What this panel did or saw itself: a stop, a limit, the guard, a start that failed."""
    ending = evidence.ending
    if ending is None:
        return None
    cause = ending_text(ending, evidence.exit_code)
    if evidence.state is State.CANCELLED:
        return Diagnosis("cancelled", "", cause, "", ("the queue it was taken out of",), looked)
    remedy, rests = "", "the stop that fresnel-tui carried out"
    match ending["cause"]:
        case (
            EndingCause.COMPLETED
            | EndingCause.FAILED
            | EndingCause.SIGNALLED
            | EndingCause.UNSEEN
            | EndingCause.UNKNOWN
        ):
            return None
        case (
            EndingCause.STOPPED
            | EndingCause.CANCELLED
            | EndingCause.HOPELESS
            | EndingCause.PROBE
            | EndingCause.PEER
        ):
            kind = "stopped"
        case EndingCause.GUARD:
            kind = "stopped_by_guard"
        case EndingCause.PREEMPTED:
            kind = "machine_taken_away"
            remedy = "Resume from its last checkpoint, here when it is back or, fetched, elsewhere."
        case EndingCause.LOGOUT:
            kind, rests = "ended_at_logout", "what systemd said of the login"
            remedy = "`loginctl enable-linger` lets runs outlive a logout; then resume this one."
        case EndingCause.STALL:
            kind = "stopped_at_stall"
        case EndingCause.LIMIT:
            kind = "stopped_at_limit"
        case EndingCause.SLURM:
            kind, rests = "ended_by_slurm", "what Slurm says of its job"
            remedy = "Resume from its last checkpoint: `fresnel-tui launch --resume`."
            if ending.get("job_end") is JobEnd.OUT_OF_MEMORY:
                remedy = "Ask for more (--mem), or use fewer workers; then resume it."
        case EndingCause.REBOOTED:
            kind, rests = "host_rebooted", "the boot's own id"
            remedy = "Resume from its last checkpoint; `fresnel-tui service` brings runs back."
        case EndingCause.REFUSED | EndingCause.NOT_STARTED | EndingCause.INTERRUPTED:
            kind, rests = "not_started", "the supervisor"
            remedy = "`fresnel-tui plan` shows the command, its folder and environment."
            if evidence.awaited is not None:
                rests, remedy = evidence.awaited.rests, evidence.awaited.remedy
        case never:
            assert_never(never)
    return Diagnosis(kind, "", cause, remedy, (rests,), looked)


def _own_time_limit(evidence: Evidence, looked: tuple[str, ...]) -> Diagnosis | None:
    """The `timeout` that the command itself begins with (timeout(1): its exit status is 124)."""
    layers = started_in_the_end(evidence.argv).layers
    limit = next(
        (outer[: len(outer) - len(inner)] for outer, inner in pairwise(layers)
         if PurePath(outer[0]).name == "timeout"),
        None,
    )  # fmt: skip
    if limit is None or evidence.exit_code != 124:
        return None
    spelled = shlex.join(["timeout", *limit[1:]])
    return Diagnosis(
        OWN_TIME_LIMIT,
        "",
        f"Its own `{spelled}` ended it.",
        "Give it longer, or leave it out: `--set limits.time=3h` ends a run by its stop ladder.",
        ("the exit status 124, which is timeout's",),
        looked,
        title=f"ended by its own `{spelled}`",
    )
