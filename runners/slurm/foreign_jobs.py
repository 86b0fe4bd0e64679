"""Jobs of one's own that were submitted by other means: shown, and touched only when asked to."""

import re
from pathlib import Path

from runners.model.errors import NotFound
from runners.model.pending import job_is_over
from runners.slurm.client import ask
from runners.slurm.job_end import path_of
from runners.state.jobs import JobRow, JobTable
from runners.state.layout import StateDirectory

_JOB = re.compile(r"\d{1,12}(_(\d{1,9}|\[[0-9,:-]{1,4000}\]))?")


def foreign_jobs(state: StateDirectory, table: JobTable) -> tuple[JobRow, ...]:
    """Those in `table` that have not ended and were not submitted from this state folder."""
    ours = {script.stem for script in state.slurm.glob("*.sh")}
    return tuple(row for row in table.jobs if row.name not in ours and not job_is_over(row.state))


def shown_number(row: JobRow) -> str:
    """What Slurm calls a job: `12`, `12_3` of an array, `12_[0-9]` where more of it wait."""
    if not row.array:
        return row.number
    return f"{row.array}_{row.tasks if row.tasks.isdecimal() else f'[{row.tasks}]'}"


def find_foreign(state: StateDirectory, table: JobTable, number: str) -> JobRow:
    """The one of that number; `12` is also all of an array that waits. Raises NotFound."""
    for row in foreign_jobs(state, table):
        if number in (row.number, shown_number(row), row.array or None):
            return row
    raise NotFound(f"no job {number} of yours that was submitted by other means", "`adopt` lists")


def number_of(row: JobRow) -> str:
    """By what it is cancelled: that row alone, though an array's last has the number of all."""
    return re.sub(r"%\d+", "", shown_number(row))


def output_of(number: str) -> Path | None:
    """The file that a job's output goes to, as Slurm says; None where it names none.

    Raises SlurmSilent or SlurmRefused, which say why.
    """
    shown = ask("scontrol", "show", "job", "--oneliner", number)
    path = path_of("StdOut", shown)
    return Path(path) if path else None


def cancel_foreign(number: str) -> None:
    """Cancel it. Raises SlurmSilent or SlurmRefused, which say why."""
    assert _JOB.fullmatch(number)
    ask("scancel", number)
