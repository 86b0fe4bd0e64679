"""The status of a run that is a Slurm job: by what its supervisor records, then by what Slurm says.

Its node's locks and processes mean nothing here, and its own record comes before any answer of the
scheduler: that is asked for what waits, and for what ended without a record.
"""

import time

from runners.host.clock import time_of_day
from runners.host.files import modified_at, stamp_of
from runners.host.mounts import is_network_folder
from runners.model.pending import (
    job_is_active,
    job_is_over,
    job_is_suspended,
    job_waits,
    pending_text,
)
from runners.model.plan import is_job
from runners.model.run import Run, RunRecord
from runners.model.states import State
from runners.state.codec import read_waits
from runners.state.jobs import JobNote, JobRow, called, read_job, read_table
from runners.state.layout import RunDirectory, StateDirectory

_SETTLED_S = 2.0
"""A folder that changed so lately may change once more without another modification time."""
SEEN_WITHIN_S = 60.0
"""So long a job that was just submitted, or has just ended, may be missing from what Slurm says."""


def row_of(directory: RunDirectory, note: JobNote | None) -> JobRow | None:
    """What Slurm said last of a run's job; None when it does not name it."""
    if note is None:
        return None
    rows = read_table(directory.home)[1]
    row = rows.get(note.id or called(note.name, note.task))
    # A controller that crashed gives numbers again to jobs that it does not remember.
    return row if row is not None and row.name == note.name else None


def job_number(directory: RunDirectory) -> str:
    """The number of a run's job, as `12` or `12_3`; empty where nobody knows it."""
    note = read_job(directory)
    if note is None or note.id:
        return note.id if note else ""
    row = row_of(directory, note)
    if row is None:
        return ""
    return row.number if note.task is None else f"{row.array}_{note.task}"


def is_over(directory: RunDirectory) -> bool:
    """Whether Slurm says that the job of a live run has ended, or knows it no longer.

    Only after an answer: a controller that is silent says nothing.
    """
    note, row = read_job(directory), row_of(directory, read_job(directory))
    table = read_table(directory.home)[0]
    if note is not None and not note.id and table.answered <= note.submitted + SEEN_WITHIN_S:
        return False  # one of that name may be an earlier submission's
    if row is not None:
        # What its supervisor recorded on its node may take a while to be seen here.
        is_seen = table.answered > (row.ends or 0.0) + _delay(directory)
        return job_is_over(row.state) and is_seen
    if note is None or table.problem or table.unread:
        return False  # it may be among those that were not understood
    return table.answered > note.submitted + SEEN_WITHIN_S


def is_put_back(directory: RunDirectory) -> bool:
    """Whether Slurm has put the job of a run that had begun back into its queue.

    Where its supervisor could not record that: its node was lost.
    """
    row, table = row_of(directory, read_job(directory)), read_table(directory.home)[0]
    if row is None or not job_waits(row.state) or row.missing_since is not None:
        return False
    return table.answered > modified_at(directory.state) + _delay(directory)


def _delay(directory: RunDirectory) -> float:
    """How much later than on its node what a supervisor records may be seen here, in seconds."""
    return SEEN_WITHIN_S if is_network_folder(directory.home.root) else 0.0


class WaitingJobs:
    """Live runs that wait for Slurm, as they were read last: thousands wait, and few of them move.

    What is shown of one rests on its folder and on what Slurm says of its job, and on nothing else
    while it waits.
    """

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._kept: dict[str, tuple[int, str, JobRow]] = {}

    def keep(self, run: Run) -> bool:
        """Remember of a run that was just read what it rests on; whether it will be known again."""
        directory = self._state.run(run.id)
        self._kept.pop(run.id, None)
        if run.state is not State.QUEUED or not is_job(run.plan):
            return False
        note = read_job(directory)
        row = row_of(directory, note)
        changed = stamp_of(directory.path)
        settled = time.time() - changed / 1e9 > _SETTLED_S
        if note is None or not note.id or row is None or not job_waits(row.state) or not settled:
            return False
        self._kept[run.id] = changed, note.id, row
        return True

    def unchanged(self) -> set[str]:
        """The ids of those of which nothing has changed; none while Slurm does not answer."""
        table, rows = read_table(self._state)
        if table.problem:
            return set()
        runs = self._state.runs
        return {
            run_id
            for run_id, (changed, number, row) in self._kept.items()
            if rows.get(number) == row and stamp_of(runs / run_id) == changed
        }


def status_of_job(directory: RunDirectory, record: RunRecord | None) -> tuple[State, str]:
    """The state of a live run that is a job, and why it is so."""
    note = read_job(directory)
    row, table = row_of(directory, note), read_table(directory.home)[0]
    name = f"Slurm job {note.id}" if note is not None and note.id else "its Slurm job"
    silent = ""
    if table.problem:
        since = time_of_day(table.answered) if table.answered else ""
        silent = f"Slurm does not answer{f' since {since}' if since else ''} ({table.problem})"
    began = record is not None and record.state is not State.QUEUED
    if began and is_put_back(directory):
        name += " was put back into the queue, and"
    elif record is not None and began:
        gone = "has ended; its ending is about to be recorded" if is_over(directory) else ""
        is_suspended = row is not None and job_is_suspended(row.state)
        gone = gone or ("is suspended until Slurm resumes it" if is_suspended else "")
        return record.state, record.reason or (gone and f"{name} {gone}") or silent
    if silent:
        return State.QUEUED, f"{silent}; {name} waits"
    if row is None and table.unread:
        unread = f"{table.unread} of the jobs that Slurm names are told of in words not understood"
        return State.QUEUED, f"{name}: {unread}"
    if row is None:
        fresh = note is not None and time.time() < note.submitted + SEEN_WITHIN_S
        if note is not None and not note.id:
            return State.QUEUED, f"{name} was handed to Slurm, whose answer did not come"
        return State.QUEUED, f"{name} was submitted" if fresh else f"{name}: not in Slurm's queue"
    if job_waits(row.state):
        # Why comes first: a narrow table cuts what follows.
        return State.QUEUED, f"{pending_text(row.reason, row.number)}; {name} waits"
    if job_is_active(row.state):
        waits = read_waits(directory) if record is not None else None
        more = f", and waits: {waits.reason}" if waits is not None and waits.reason else ""
        return State.STARTING, f"{name} has begun on {row.nodes or 'its node'}{more}"
    return State.QUEUED, f"{name}: Slurm says {row.state}"
