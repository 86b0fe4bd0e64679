"""What is known of the Slurm jobs of runs: which job a run is, and what Slurm said last of all.

`job.json` of a run is written by who submits it, and by the job itself; `slurm/jobs.json` of the
state folder by whoever asked Slurm last.
"""

from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta

from runners.host.files import replace, status_of
from runners.model.pending import job_is_over
from runners.state.decoding import read
from runners.state.layout import RunDirectory, StateDirectory

_Text = Annotated[str, Meta(max_length=4096)]
_Second = Annotated[float, Meta(ge=0, le=1e11)]


class JobNote(msgspec.Struct, frozen=True):
    """The job of a run: `12`, or `12_3` of an array; empty where the answer to sbatch was lost.

    `name` is what the job is called, under which it can be found then; `task` its number in the
    array, None outside of one; `began` when it began last (unix seconds).
    """

    name: _Text
    submitted: _Second
    id: Annotated[str, Meta(pattern=r"^(\d{1,12}(_\d{1,9})?)?$")] = ""
    task: int | None = None
    began: _Second | None = None
    first: _Second | None = None
    """When it began for the first time."""
    left: _Second | None = None
    """When an attempt's job was put back into the queue; None while it runs."""
    waited: _Second = 0.0
    """For how many seconds it has waited between attempts, together."""
    submissions: Annotated[int, Meta(ge=1)] = 1
    """How often it was submitted: anew where its job could not be put back into the queue."""

    remark: _Text = ""
    """What the site's rules said when it was submitted."""


class JobRow(msgspec.Struct, frozen=True):
    """A job as squeue shows it: state and reason in Slurm's words, times in unix seconds.

    `number` is its own, also where it is a task of an array; a pending array is one row, whose
    tasks are `tasks` (`0-9%2`).
    """

    number: _Text
    name: _Text
    state: _Text
    reason: _Text = ""
    array: _Text = ""
    tasks: _Text = ""
    partition: _Text = ""
    nodes: _Text = ""
    ends: _Second | None = None
    limit_s: _Second | None = None
    priority: float | None = None
    missing_since: _Second | None = None
    """When Slurm last named it, where it does not any more."""


class JobTable(msgspec.Struct, frozen=True):
    """All of one's own jobs: when Slurm was asked and when it last answered (unix seconds).

    `problem` says why it did not answer when it was last asked, `failures` how often in a row;
    `unread` how many jobs it named in an answer that was not understood.
    """

    asked: _Second = 0.0
    answered: _Second = 0.0
    problem: _Text = ""
    failures: int = 0
    jobs: tuple[JobRow, ...] = ()
    unread: int = 0


_read_before: dict[str, tuple[tuple[int, int], JobTable, dict[str, JobRow]]] = {}


def read_job(run: RunDirectory) -> JobNote | None:
    """Which job a run is, or None."""
    return read(run.job, JobNote)


def write_job(run: RunDirectory, note: JobNote) -> None:
    """Write down which job a run is. Raises OSError."""
    replace(run.job, msgspec.json.encode(note))


def number_job(run: RunDirectory, note: JobNote, number: str, remark: str = "") -> None:
    """Write down the number that Slurm has given a submission, if it answered, and what it said.

    On a full disk the job, which Slurm has by then, is found by its name.
    """
    if number:
        own = number if note.task is None else f"{number}_{note.task}"
        with suppress(OSError):
            write_job(run, msgspec.structs.replace(note, remark=remark, id=own))


def read_table(state: StateDirectory) -> tuple[JobTable, dict[str, JobRow]]:
    """What Slurm said last, and its jobs by number and by `ARRAY_TASK`."""
    found = status_of(state.jobs)
    if found is None:
        return JobTable(), {}
    version = found.st_mtime_ns, found.st_size
    before = _read_before.get(str(state.jobs))
    if before is not None and before[0] == version:
        return before[1], before[2]
    table = read(state.jobs, JobTable) or JobTable()
    return table, _keep(state, version, table)


def forget_table(state: StateDirectory) -> None:
    """Let go of what is kept of the last answer in memory."""
    _read_before.pop(str(state.jobs), None)


def _keep(state: StateDirectory, version: tuple[int, int], table: JobTable) -> dict[str, JobRow]:
    """The jobs of a table by their names, kept for who asks while the file stays as it is."""
    rows: dict[str, JobRow] = {}
    for row in table.jobs:
        for name in names_of(row):
            # Of two jobs of one name, submitted one after the other, the one that has not ended.
            if name not in rows or not job_is_over(row.state):
                rows[name] = row
    _read_before[str(state.jobs)] = version, table, rows
    return rows


def write_table(state: StateDirectory, table: JobTable) -> None:
    """Replace what Slurm said last. Raises OSError."""
    state.slurm.mkdir(mode=0o700, exist_ok=True)
    replace(state.jobs, msgspec.json.encode(table), sync=False)
    # Whoever has asked need not read the same again, nor have it twice in memory.
    with suppress(OSError):
        found = state.jobs.stat()
        _keep(state, (found.st_mtime_ns, found.st_size), table)


def names_of(row: JobRow) -> list[str]:
    """By what a row is found: its number, its place in an array, and the tasks that still wait."""
    if not row.array:
        return [row.number, called(row.name)]
    if row.tasks.isdecimal() and row.tasks.isascii():
        task = int(row.tasks)
        return [row.number, f"{row.array}_{task}", called(row.name, task)]
    names: list[str] = []
    for task in expand_tasks(row.tasks):
        names += [f"{row.array}_{task}", called(row.name, task)]
    return names


def called(name: str, task: int | None = None) -> str:
    """The key of a job by what it is called, for one whose number was never learnt."""
    return f"name:{name}" if task is None else f"name:{name}_{task}"


def expand_tasks(text: str, most: int = 100_000) -> list[int]:
    """The numbers of `0-3,7%2`, or `1-9:2`; at most `most`, and none of what is no such list."""
    found: list[int] = []
    for part in text.strip("[]").partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        span = range(int(first), int(last or first) + 1, max(1, int(step or 1)) if step else 1)
        found += list(span[: max(0, most - len(found))])
    return found
