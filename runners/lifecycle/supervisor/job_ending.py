"""How a run ended that was part of a Slurm job, by what it left and what Slurm says of the job."""

import json
import time
from contextlib import suppress
from typing import Any

from runners.host.exit_status import read_exit_status
from runners.host.files import append_event, read_json, read_tail, write_json
from runners.host.slurm_job import SlurmJob
from runners.lifecycle.supervisor.exit_report import judge_ending, judge_unstarted
from runners.lifecycle.supervisor.job_folder import folder_problem_of
from runners.lifecycle.supervisor.record_keeper import RecordKeeper
from runners.model.endings import Ending, EndingCause, JobEnd, ending_text
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.records import (
    PlanFields,
    RecordFields,
    RestartFields,
    ending_fields,
    intent_fields,
)
from runners.state.vanished import vanished_ending

_TAIL_BYTES = 64 << 10
_ASKED_WITHIN_S = 15.0
_SUBMITTED_WITHIN_S = 45.0
_LONGEST_LINE = 200
_BEFORE_BODY = (JobEnd.FAILED, JobEnd.CANCELLED)
"""So Slurm calls what its node could not start, too."""
_OF_BODY = (JobEnd.COMPLETED, JobEnd.FAILED, JobEnd.UNKNOWN)
"""Of a job that was put back, these say what became of its new body, which had done nothing yet."""


class JobLives(Exception):
    """Slurm says now that the job has not ended: it was put back into the queue since."""


def is_of_another_job(run: RunDirectory, plan: PlanFields, inside: SlurmJob | None) -> bool:
    """Whether a run may be started only by a Slurm job that this process is no part of."""
    job = plan["origin"].get("job")
    return run.job.exists() or (bool(job) and (inside is None or inside.id != job))


def settled_ending(
    run: RunDirectory, plan: PlanFields, record: RecordFields
) -> tuple[State, Ending, int | None]:
    """How a run ended whose job is over, and took its supervisor with it: state, cause, code.

    Raises JobLives where the job is not over after all.
    """
    has_begun = bool(record.get("started"))
    # Of a run that waits once more, what is left there is of an attempt before.
    waits = record.get("state") is State.QUEUED
    status = None if waits else read_exit_status(run.exit)
    if status is not None:
        stop = read_json(run.stop)
        intent = intent_fields(stop) if stop is not None else None
        return *judge_ending(run, intent, status.code), status.code
    if has_begun and not waits:
        state, ending = vanished_ending(run)
        if ending["cause"] not in (EndingCause.UNSEEN, EndingCause.UNKNOWN):
            return state, ending, None
        found = _job_ending(run, plan)
        if found["job_end"] is JobEnd.UNKNOWN:
            return state, ending, None  # Slurm has forgotten it, or does not answer
        return found["job_end"].run_state, found, None
    if run.stop.exists():
        return *judge_unstarted(run, has_started=has_begun), None
    found = _job_ending(run, plan, waits)
    if has_begun:
        return _not_begun_anew(run, found)
    if found["job_end"] is JobEnd.UNKNOWN:
        known = f"knows no job {found['job']}" if found["job"] else "has taken no job of it"
        return State.FAILED, {"cause": EndingCause.NOT_STARTED, "detail": f"Slurm {known}"}, None
    has_failed = found["job_end"] is JobEnd.FAILED
    is_told = found["job_end"] not in _BEFORE_BODY or (has_failed and bool(found.get("detail")))
    if has_failed and not is_told and not has_output(run.home, found["job"]):
        # Its script could not even write: the folder is not there, on that node.
        found["detail"] = f"and left no output: {run.home.root} has to be on a disk its node shares"
    elif not is_told and (line := _last_said(run.home, found["job"])):
        text = f"{found.get('detail', '')} before it began; its log says: {line}"
        found["detail"] = text.strip()
    return _unstarted_state(found["job_end"]), found, None


def _unstarted_state(end: JobEnd) -> State:
    return State.CANCELLED if end is JobEnd.CANCELLED else end.run_state


def end_waiting(
    run: RunDirectory, plan: PlanFields, keeper: RecordKeeper, job: SlurmJob, number: int
) -> None:
    """Record how a run ended whose job was ended, by signal `number`, before an attempt began.

    Or that it waits once more, where Slurm puts its job back and its rule allows that.
    """
    from runners.lifecycle.supervisor.job_watch import ask_slurm, job_ending  # clusters only

    record = keeper.record
    ending, code = job_ending(job.id, ask_slurm(job.id), number), record.get("exit_code")
    if starts_anew(ending, record.get("attempt", 1), plan["restart"]):
        put_back(run, plan, keeper, ending, code)
        return
    has_begun = bool(record.get("started"))
    keeper.end(
        plan, State.STOPPED if has_begun else _unstarted_state(ending["job_end"]), ending, code
    )


def _last_said(state: StateDirectory, job: str) -> str:
    """The last line of the log of a job's script, but for Slurm's own that it is cancelled."""
    text = read_tail(state.slurm / f"{job}.log", _TAIL_BYTES).decode("utf-8", "replace")
    lines = (line.strip() for line in reversed(text.splitlines()))
    return next((line[:_LONGEST_LINE] for line in lines if line and "***" not in line), "")


def has_output(state: StateDirectory, job: str) -> bool:
    """Whether a job's script has written its own log."""
    return (state.slurm / f"{job}.log").exists() or "_" in job


def _not_begun_anew(run: RunDirectory, found: Ending) -> tuple[State, Ending, int | None]:
    """How a run ended that was put back and never begun anew: as Slurm had ended its last attempt.

    What became of its job afterwards is no failure of its program, which may have been done.
    """
    event = _last_restart(run)
    ending, code = ending_fields(event.get("ending")), event.get("exit_code")
    if found["job_end"] in _OF_BODY and ending is not None:
        gone = found["job_end"] is JobEnd.UNKNOWN
        text = "did not come back" if gone else f"{found['job_end'].text} before it began anew"
        text = f"{text} {found.get('detail', '')}".strip()
        found = {**ending, "detail": f"and {text}"}
    return State.STOPPED, found, code if type(code) is int else None


def _last_restart(run: RunDirectory) -> dict[str, Any]:
    """What was noted when the run was put back last; empty where that is not known."""
    for line in reversed(read_tail(run.supervisor_events, _TAIL_BYTES).splitlines()):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("type") == "restart":
            return event
    return {}


def starts_anew(ending: Ending, number: int, rule: RestartFields) -> bool:
    """Whether the job of attempt `number` begins anew, and the run may have another attempt."""
    end = ending.get("job_end")
    reason = None if end is None else end.restart_reason
    return reason is not None and reason in rule["on"] and number <= rule["times"]


def put_back(
    run: RunDirectory,
    plan: PlanFields,
    keeper: RecordKeeper,
    ending: Ending,
    code: int | None,
    is_over: bool = False,
) -> None:
    """Record that a run waits once more; where its job does not come back, it ends with that.

    Slurm puts jobs back by itself, but for one that has reached its time limit. One that `is_over`
    it has not put back: where it does not either when asked to, the run is submitted anew.
    """
    text = ending_text(ending)
    if keeper.record.get("state") is not State.QUEUED:
        keeper.check()
        append_event(run.supervisor_events, "restart", ending=ending, exit_code=code, seconds=0.0)
        keeper.write({"state": State.QUEUED, "reason": text, "stop": None})
    if (note := read_json(run.job)) is not None:
        with suppress(OSError):  # a full disk: its files say about when it was
            write_json(run.job, {**note, "left": time.time()})
    forget_stop(run)
    is_limit = ending.get("job_end") is JobEnd.TIME_LIMIT
    if not (is_limit or is_over):
        return
    refusal = ""
    if is_limit:
        # Recorded before: from now on Slurm ends this very process.
        job = ending.get("job", "") if note is not None else ""
        answer = _answer("ask-slurm", "requeue", job, within_s=_ASKED_WITHIN_S)
        refusal = str(answer.get("problem"))
        if not refusal:
            return
    where = () if is_over else ("inside",)
    times = str(plan["restart"]["times"])
    answer = _answer("submit-anew", str(run.path), times, *where, within_s=_SUBMITTED_WITHIN_S)
    problem = str(answer.get("problem"))
    if problem and not answer.get("later"):
        asked = f"and could not be put back: {refusal}; nor" if refusal else "and could not be"
        detail = f"{asked} submitted anew: {problem}"
        keeper.end(plan, State.STOPPED, {**ending, "detail": detail}, code)


def _answer(helper: str, *arguments: str, within_s: float) -> dict[str, Any]:
    from runners.lifecycle.supervisor.job_watch import answer_of  # clusters only

    return answer_of(helper, *arguments, within_s=within_s) or {"problem": "Slurm does not answer"}


def forget_stop(run: RunDirectory) -> None:
    """Withdraw a stop that was asked for by the job that ends or has ended, not by a person."""
    stop = read_json(run.stop)
    if stop is not None and intent_fields(stop)["ending"]["cause"] is EndingCause.SLURM:
        run.stop.unlink(missing_ok=True)


def _job_ending(run: RunDirectory, plan: PlanFields, waits: bool = False) -> Ending:
    from runners.lifecycle.supervisor.job_watch import ask_slurm, job_ending  # clusters only

    note = read_json(run.job) or {}
    job = str(plan["origin"].get("job") or note.get("id") or "")
    if waits and note.get("submissions", 1) > 1:
        job = str(note.get("id") or "")  # the plan still names the one before
    # A job that this run was launched inside of has a name that is not ours.
    answer = ask_slurm(job, str(note.get("name") or "")) if job else {}
    if answer.get("lives"):
        raise JobLives(job)
    ending = job_ending(job, answer)
    if ending["job_end"] is JobEnd.FAILED:
        code, node = answer.get("code"), str(answer.get("node") or "")
        if text := folder_problem_of(run, job, code if type(code) is int else None, node):
            ending["detail"] = text
    return ending
