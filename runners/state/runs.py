"""Runs as they are on disk: found, read, and their status derived from records, locks and boot."""

import os
from bisect import bisect_left
from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from runners.host.clock import time_of_day
from runners.host.files import status_of
from runners.host.identity import host_name, is_past, user_name
from runners.host.locks import is_held, is_held_beside
from runners.host.procfs import mark_of, process_state, switches_of
from runners.host.slurm_job import slurm_job
from runners.model.endings import Ending, EndingCause, ending_text, signal_of
from runners.model.errors import NotFound, WrongInput
from runners.model.plan import LaunchPlan, is_job
from runners.model.run import NO_LABELS, Labels, Pause, Run, RunRecord
from runners.model.states import State
from runners.state.boundary import ReadBoundary
from runners.state.codec import (
    PlanOutline,
    read_outline,
    read_pause,
    read_plan,
    read_record,
    read_waits,
)
from runners.state.labels_file import read_labels
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import boot_of, holds_gpus, home_at, live_run_ids, will_go_on
from runners.state.trust import run_permission_problem
from runners.state.vanished import vanished_ending


def read_run(state: StateDirectory, run_id: str) -> Run:
    """Return the run `run_id` with its status now; whatever its files raise is its `problem`.

    A damaged or half-made directory is a run with a reason.
    """
    directory = state.run(run_id)
    boundary = ReadBoundary(directory.path)
    plan = boundary.read("plan.json", lambda: read_plan(directory), None)
    labels = boundary.read("labels.json", lambda: read_labels(directory), NO_LABELS)
    record, (now, ending, reason) = _read_status(directory, boundary, plan)
    if not now.is_live and (record is None or record.state.is_live):
        # The record is older than the look at the locks: in between, its supervisor may have
        # recorded the ending and let go.
        record, (now, ending, reason) = _read_status(directory, boundary, plan)
    pause = boundary.read("pause.json", lambda: _pause_of(directory, now, plan, record), None)
    return Run(
        id=run_id,
        preset=plan.spec.preset if plan else "",
        name=labels.name or (plan.spec.name if plan else ""),
        state=now,
        reason=reason or pause_text(pause, run_id),
        pause=pause,
        directory=str(directory.path),
        created=plan.origin.created if plan else _created(directory.path),
        plan=plan,
        record=record,
        ending=ending,
        labels=labels,
        problem="; ".join(boundary.problems),
    )


def _read_status(
    directory: RunDirectory, boundary: ReadBoundary, plan: LaunchPlan | None
) -> "tuple[RunRecord | None, Status]":
    """What is recorded of a run, and its status by that and by the locks after it."""
    record = boundary.read("state.json", lambda: read_record(directory), None)
    status = boundary.read(
        "its locks",
        lambda: derive_state(directory, plan, record),
        Status(_recorded(directory, record)),
    )
    return record, status


class Status(NamedTuple):
    """A run's state now; how it ended, None while it lives; why it is so, in words."""

    state: State
    ending: Ending | None = None
    reason: str = ""


def derive_state(
    directory: RunDirectory, plan: LaunchPlan | None, record: RunRecord | None
) -> Status:
    """Return what is recorded, corrected by the locks of this host and boot.

    The reason says so when they differ.
    """
    # A recorded ending is final, whatever became of the locks since.
    if record is not None and not record.state.is_live:
        if record.ending is None:  # damaged, or with a cause that only a newer version knows
            return Status(record.state)
        return _ended(record.state, record.ending, record.exit_code)
    if is_job(plan):
        from runners.state.job_status import status_of_job  # clusters only

        now, reason = status_of_job(directory, record)
        return Status(now, None, reason)
    home = home_at(directory, plan, record)
    recorded = record.state if record else State.STARTING
    # Locks of another host cannot be seen from here, so its record is all there is.
    if home != host_name():
        return Status(recorded, None, f"runs on host {home}; as recorded there")
    if is_held(directory.supervisor_lock):
        return _with_supervisor(directory, plan, record)
    # An ending is recorded before the marker goes: then this record is not what was written.
    is_damaged = not _is_marked_live(directory) and directory.state.exists()
    # Nobody supervises it, and every process of an earlier boot is gone.
    boot = boot_of(plan, record)
    if is_past(boot):
        if is_held_beside(directory.run_lock, boot):
            return Status(recorded, None, "its program runs in another container")
        if is_damaged:
            return _judge_by_exit(directory)
        if _survives_reboot(plan, record) and _is_marked_live(directory):
            coming = _or_refused(directory, "will be queued again", "is not adopted")
            return Status(State.ORPHANED, None, f"host restarted; it {coming}")
        return _ended(State.LOST, {"cause": EndingCause.REBOOTED})
    if holds_gpus(directory):
        reason = run_permission_problem(directory)
        job, inside = plan.origin.job if plan else "", slurm_job()
        if not reason and job and (inside is None or inside.id != job):
            reason = f"that is done inside its Slurm job {job} only"
        adoption = f"is not adopted: {reason}" if reason else "will be adopted"
        reason = f"its supervisor is gone; the program goes on and {adoption}"
        return Status(State.ORPHANED, None, reason)
    if will_go_on(directory):
        adoption = "its supervisor is gone; it will be adopted and goes on"
        if plan is not None and plan.phase != "final":
            return Status(State.QUEUED, None, f"{adoption} waiting")
        where = "starting" if record is None else "where it was"
        return Status(recorded, None, f"{adoption} {where}")
    # The waiter wrote the exit code, and the supervisor that would record it died.
    if directory.exit.exists() and _is_marked_live(directory):
        coming = _or_refused(directory, "is about to be recorded", "is not recorded")
        return Status(recorded, None, f"has ended; its ending {coming}")
    if is_damaged:
        return _judge_by_exit(directory)
    if record is None or record.started is None:
        return _ended(State.FAILED, {"cause": EndingCause.INTERRUPTED})
    return _ended(*vanished_ending(directory))


def _or_refused(directory: RunDirectory, coming: str, refused: str) -> str:
    problem = run_permission_problem(directory)
    return f"{refused}: {problem}" if problem else coming


def _recorded(directory: RunDirectory, record: RunRecord | None) -> State:
    """The state of a run whose locks cannot be looked at."""
    if record is not None:
        return record.state
    return State.STARTING if _is_marked_live(directory) else State.LOST


def _ended(state: State, ending: Ending, code: int | None = None) -> Status:
    return Status(state, ending, ending_text(ending, code))


def _with_supervisor(
    directory: RunDirectory, plan: LaunchPlan | None, record: RunRecord | None
) -> Status:
    pid = record.supervisor_pid if record and not is_past(record.boot_id) else None
    # It holds its lock, and so cannot be adopted, but it cannot act either.
    if pid is not None and process_state(pid) in ("T", "t"):
        state = record.state if record else State.STARTING
        reason = f"its supervisor is suspended: nothing is done until `kill -CONT {pid}`"
        return Status(state, None, reason)
    if plan is not None and plan.is_queued:
        waits = read_waits(directory)
        return Status(State.QUEUED, None, waits.reason if waits else "")
    if record is None:
        return Status(State.STARTING)
    return Status(record.state, None, record.reason)


def _pause_of(
    directory: RunDirectory, state: State, plan: LaunchPlan | None, record: RunRecord | None
) -> Pause | None:
    """Who has paused the program of a run that lives here, by SIGSTOP; None when nobody has."""
    if not state.has_program or home_at(directory, plan, record) != host_name():
        return None
    pid = (record.leader_pid if record is not None else None) or directory.leader_pid()
    if pid is None or process_state(pid) != "T" or mark_of(pid) != directory.id:
        return None
    noted = read_pause(directory) or Pause()
    # Continued by hand since, and stopped by somebody else.
    is_over = noted.switches is not None and noted.switches != switches_of(pid)
    return Pause() if is_over else noted


def pause_text(pause: Pause | None, run_id: str) -> str:
    """Who paused a run, when, and how it goes on; empty for one that is not paused."""
    if pause is None:
        return ""
    who = "by somebody (SIGSTOP)"
    if pause.by:
        who = "you" if pause.by == user_name() else pause.by
        who = f"by {who}, {time_of_day(pause.time)}"
    return f"paused ({who}): it keeps its GPUs; `fresnel-tui continue {run_id}`"


def _survives_reboot(plan: LaunchPlan | None, record: RunRecord | None) -> bool:
    """Whether a supervisor that adopts it will continue it: see `Supervisor.after_reboot`."""
    if plan is None:
        return False
    waited = record is None or (record.started is None and record.state is State.QUEUED)
    return waited or plan.spec.restart.boot


def job_of(run: Run) -> str:
    """The number of the Slurm job that a run is, or was launched in; empty where there is none."""
    if run.plan is None or run.plan.origin.job or not is_job(run.plan):
        return run.plan.origin.job if run.plan else ""
    from runners.state.job_status import job_number  # clusters only

    return job_number(RunDirectory.at(run.directory))


def _is_marked_live(directory: RunDirectory) -> bool:
    return directory.home.live_marker(directory.id).exists()


def _judge_by_exit(directory: RunDirectory) -> Status:
    """The ending of a run whose record was damaged afterwards; only the exit file still has it."""
    from runners.host.exit_status import read_exit_status  # a damaged record is rare

    status = read_exit_status(directory.exit)
    if status is None:
        return _ended(State.LOST, {"cause": EndingCause.UNKNOWN, "damaged": True})
    code = status.code
    if not code:
        return _ended(State.DONE, {"cause": EndingCause.COMPLETED, "damaged": True}, code)
    name = signal_of(code)
    ending = Ending(cause=EndingCause.FAILED, damaged=True)
    if name:
        ending = Ending(cause=EndingCause.SIGNALLED, signal=name, damaged=True)
    return _ended(State.FAILED, ending, code)


def list_run_ids(state: StateDirectory) -> list[str]:
    """Every run's id, oldest first."""
    try:
        names = sorted(os.listdir(state.runs))  # noqa: PTH208 (10 × faster)
    except FileNotFoundError:
        return []
    return names[bisect_left(names, "/") :]  # names that begin with a dot sort before


def list_runs(
    state: StateDirectory,
    finished: int | None = None,
    known: Mapping[str, Run] | None = None,
    ids: list[str] | None = None,
    later: Collection[str] = (),
) -> list[Run]:
    """Live runs and the newest `finished` of the others (all when None), oldest first.

    Ended runs found in `known` are taken from there: an ending never changes. With `ids`,
    they are not listed again; live ones that are read `later` are left out.
    """
    ids = list_run_ids(state) if ids is None else ids
    known = known or {}
    live = set(live_run_ids(state))
    ended = (run_id for run_id in reversed(ids) if run_id not in live)
    chosen = live.difference(later)
    chosen |= set(ended if finished is None else islice(ended, finished))
    return [known.get(run_id) or read_run(state, run_id) for run_id in sorted(chosen)]


def find_run(state: StateDirectory, name: str) -> Run:
    """The run named by its id, a unique prefix or the last part of it, `last`, or a name.

    The name is a preset's or a run's and means its newest run; a name that a run had before it was
    renamed counts when no run has it now. Raises WrongInput for an empty or ambiguous name,
    NotFound when there is none.
    """
    ids = list_run_ids(state)
    if not name:
        raise WrongInput("a run's name is empty", "`fresnel-tui list` shows the runs")
    if name in ids:
        return read_run(state, name)
    if name == "last" and ids:
        return read_run(state, ids[-1])
    # Ids begin with the time: a date or an hour may be enough to name a run.
    matching = [run_id for run_id in ids if run_id.startswith(name)]
    if len(matching) == 1:
        return read_run(state, matching[0])
    if len(matching) > 1:
        newest = ", ".join(matching[-3:])
        raise WrongInput(f"`{name}` is the beginning of {len(matching)} runs", f"newest: {newest}")
    former = ""
    known: dict[str, None] = {}  # in this order, each once
    # Newest first, so an old run costs a look at all later ones: names are not indexed.
    for run_id in reversed(ids):
        names, launched = _names(state.run(run_id))
        known.update(dict.fromkeys(names))
        if name in names:
            return read_run(state, run_id)
        former = former or (run_id if name == launched else "")
    if former:
        return read_run(state, former)
    from runners.model.suggestions import did_you_mean  # only mistakes need it

    newest = ids[-1] if ids else "none yet"
    hint = f"`fresnel-tui list` shows them; newest: {newest}"
    raise NotFound(f"no run `{name}`", f"{did_you_mean(name, known, 1)} {hint}".lstrip())


class NamedRuns(list[Run]):
    """The runs that were asked for; `is_one` where that was a single run by its name."""

    is_one = False


def find_runs(state: StateDirectory, names: Collection[str]) -> NamedRuns:
    """The runs with these names, each once.

    The name of a group, or its preset, means all runs of its newest launch. Raises WrongInput
    and NotFound as `find_run` does.
    """
    found: dict[str, Run] = {}
    has_group = False
    for name in names:
        members = _group_members(state, name)
        has_group = has_group or bool(members)
        for run in members or [find_run(state, name)]:
            found[run.id] = run
    runs = NamedRuns(found.values())
    runs.is_one = len(names) == 1 and not has_group
    return runs


def _group_members(state: StateDirectory, name: str) -> list[Run]:
    group, members = "", []
    for run_id in reversed(list_run_ids(state)):
        outline, labels = _outlined(state.run(run_id))
        mine = outline.spec.group if outline else ""
        # A group is called `name-token`; without the token the newest of that name is meant.
        if mine and (mine == group or (not group and name in (mine, mine.rpartition("-")[0]))):
            group = mine
            members.append(read_run(state, run_id))
        elif (name == "last" and not group) or name in (run_id, _called(outline, labels)):
            # A single run of that name is newer than any group: then the name means that run.
            break
    return list(reversed(members))


def _names(directory: RunDirectory) -> tuple[tuple[str, ...], str]:
    """What a run is called besides its id, and the name of its launch if it has another now.

    A run without a plan goes by what its id says.
    """
    _, _, rest = directory.id.partition("-")
    label, _, token = rest.partition("-")[2].rpartition("-")
    outline, labels = _outlined(directory)
    launched = label if outline is None else outline.spec.name
    names = (token, labels.name or launched, outline.spec.preset if outline else launched)
    return names, launched if labels.name else ""


def _called(outline: PlanOutline | None, labels: Labels) -> str:
    return labels.name or (outline.spec.name if outline else "")


def _outlined(directory: RunDirectory) -> tuple[PlanOutline | None, Labels]:
    """By what a run is found; whatever its files raise, the others are found all the same."""
    boundary = ReadBoundary(directory.path)
    outline = boundary.read("plan.json", lambda: read_outline(directory), None)
    return outline, boundary.read("labels.json", lambda: read_labels(directory), NO_LABELS)


def _created(path: Path) -> float:
    found = status_of(path)
    return 0.0 if found is None else found.st_ctime
