"""When a live run will be ended by a limit: its own of time or cost, or that of its Slurm job."""

from typing import NamedTuple

from runners.host.clock import moment_now, seconds_between
from runners.model.pending import job_waits
from runners.model.plan import is_job
from runners.model.run import Run
from runners.state.job_status import row_of
from runners.state.jobs import read_job
from runners.state.layout import RunDirectory
from runners.state.limits import limit_now

JOB_LIMIT = "the time limit of its Slurm job"


class Deadline(NamedTuple):
    """In how many seconds a run is ended, and by which limit; not final: it begins anew then."""

    in_s: float
    limit: str
    is_final: bool = True


def deadline_of(run: Run, now: float) -> Deadline | None:
    """The earliest limit of a live run at `now` (unix seconds), if it has any."""
    if run.plan is None:
        return None
    directory = RunDirectory.at(run.directory)
    found = []
    if run.plan.limit_s is not None and run.begin is not None:
        seconds, usd = limit_now(directory, run.begin)
        if seconds is not None:
            limit = f"its cost limit of ${usd}" if usd else "its time limit"
            lived_s = seconds_between(run.begin, moment_now())
            found.append(Deadline(seconds - lived_s, limit))
    if is_job(run.plan):
        ends = _job_ends(run, directory)
        if ends is not None:
            found.append(Deadline(ends - now, JOB_LIMIT, not _begins_anew(run)))
    return min(found, default=None)


def _begins_anew(run: Run) -> bool:
    """Whether its rule has it go on in another attempt after its job's time limit."""
    rule = run.plan.spec.restart if run.plan is not None else None
    attempt = run.record.attempt if run.record is not None else 1
    return rule is not None and "time_limit" in rule.on and attempt <= rule.times


def _job_ends(run: Run, directory: RunDirectory) -> float | None:
    """When Slurm ends a run's job: as it says itself, else by what it was asked for."""
    note = read_job(directory)
    row = row_of(directory, note)
    if row is not None and job_waits(row.state):
        return None  # put back: its time begins anew with it
    if row is not None and row.state == "RUNNING" and row.ends is not None:
        return row.ends if row.limit_s is not None else None
    keys = run.plan.spec.place.slurm if run.plan is not None else None
    if note is None or note.began is None or keys is None or keys.time is None:
        return None
    return note.began + keys.time
