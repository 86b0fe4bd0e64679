"""Jobs of one's own that were submitted to this machine's Slurm by other means, as a place.

They are asked for by the same `squeue` as all others, and never touched but by a stop that was
asked for. The place is there as long as there is such a job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from runners.host.clock import time_of_day
from runners.host.files import names_in
from runners.host.identity import user_name
from runners.model.errors import FresnelError
from runners.model.pending import is_understood, job_is_active, job_waits, pending_text
from runners.model.states import State
from runners.places.actions import Outcome, RunAction, StopRuns
from runners.places.listed import ListedPlace
from runners.places.own_folder import own_folder
from runners.places.run_row import RunRow
from runners.slurm.foreign_jobs import (
    cancel_foreign,
    find_foreign,
    foreign_jobs,
    number_of,
    output_of,
    shown_number,
)
from runners.slurm.queue import refresh
from runners.state.jobs import JobRow, JobTable
from runners.state.layout import StateDirectory

_LOOKS_EVERY_S = 2.0
_AGAIN_AFTER_S = (0.5, 2.0, 5.0)
"""After a cancellation Slurm is asked again so soon: it ends a job in its own time."""
_LONGEST_NAME = 120


class ForeignJobs(ListedPlace):
    """What Slurm says of them, and what can be done to them."""

    name = "slurm"
    address = "this machine's Slurm: jobs that were not launched here"
    limits = "not launched here: it can be followed and stopped, and nothing else"
    ends = "scancel: Slurm sends SIGTERM, and SIGKILL when its KillWait is over"

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        super().__init__()
        self._state, self._changed = state, changed
        self._logs = own_folder(state.slurm / "foreign")
        for path in state.slurm.glob("foreign-*-*.log"):
            path.unlink(missing_ok=True)  # of version 0.3
        self._table = JobTable()
        self._seen: dict[str, float] = {}

    @property
    def is_reached(self) -> bool:
        """Whether Slurm answered when it was asked last."""
        return not self._table.problem

    @property
    def is_down(self) -> bool:
        """Whether it did not."""
        return not self.is_reached

    @property
    def status_text(self) -> str:
        """The same in words."""
        if self.is_reached:
            return "Slurm answers"
        since = time_of_day(self._table.answered) if self._table.answered else ""
        return f"Slurm does not answer{since and f' since {since}'}: {self._table.problem}"

    def take(self, table: JobTable) -> bool:
        """Take in what Slurm said; whether it is anything new."""
        if table is self._table:
            return False
        now, self._table = time.time(), table
        jobs = foreign_jobs(self._state, table)
        self._seen = {job.number: self._seen.get(job.number, now) for job in jobs}
        self.show(row_of_job(job, self._seen[job.number]) for job in jobs)
        self.came = table.answered
        return True

    # ---- what can be done

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Cancel jobs; anything else is refused."""
        if isinstance(action, StopRuns):
            self._begin(lambda: self._stop(action.runs, done))
        else:
            done(Outcome(problem=self.limits))

    def _stop(self, numbers: Sequence[str], done: Callable[[Outcome], None]) -> None:
        done(self._cancel(numbers))
        for pause in _AGAIN_AFTER_S:
            time.sleep(pause)
            if self.take(refresh(self._state, every_s=0.0)):
                self._changed()
            if not any(map(self.run, numbers)):
                break

    def _cancel(self, numbers: Sequence[str]) -> Outcome:
        try:
            for number in numbers:
                cancel_foreign(number_of(find_foreign(self._state, self._table, number)))
        except FresnelError as problem:
            return Outcome(problem=problem.message)
        return Outcome(messages=(f"Slurm was asked to cancel {', '.join(numbers)}",))

    def reach(self) -> None:
        """Ask Slurm again."""
        self._begin(lambda: self.take(refresh(self._state, every_s=0.0)))

    # ---- output

    def log_path(self, run: str) -> Path:
        """A link to the file that Slurm names as its output, once it is followed."""
        name = "".join(letter for letter in run if letter.isalnum() or letter in "_-")
        return self._logs / f"{name}.log"

    def follow(self, run: str) -> None:
        """Make that link."""
        path = self.log_path(run)
        if not path.is_symlink():
            self._begin(lambda: self._link(run, path))

    def _link(self, run: str, path: Path) -> None:
        with suppress(FresnelError, OSError):  # it has no output, or Slurm does not answer now
            output = output_of(find_foreign(self._state, self._table, run).number)
            if output is not None:
                self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.symlink_to(output)

    def keep_logs(self, shown: Collection[Path]) -> None:
        """Remove the links that nobody looks at, of this process."""
        for name in names_in(self._logs):
            if self._logs / name not in shown:
                (self._logs / name).unlink(missing_ok=True)
        with suppress(OSError):  # somebody looks at others
            self._logs.rmdir()

    def _begin(self, what: Callable[[], object]) -> None:
        Thread(target=what, daemon=True, name="slurm").start()


class SlurmJobs:
    """The place of this machine's Slurm, while it has jobs that were not launched here."""

    not_set_up: Sequence[str] = ()

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        self._state, self._changed = state, changed
        self._jobs = ForeignJobs(state, changed)
        self._is_over = Event()
        Thread(target=self._keep_current, daemon=True, name="slurm-jobs").start()

    @property
    def places(self) -> Mapping[str, ForeignJobs]:
        """The one there is, or none."""
        return {ForeignJobs.name: self._jobs} if self._jobs.rows else {}

    def _keep_current(self) -> None:
        while True:
            with suppress(OSError):
                if self._state.slurm.is_dir() and self._jobs.take(refresh(self._state)):
                    self._changed()
            # Whether there was an answer or not: one who never gets any must not ask for ever.
            if self._is_over.wait(_LOOKS_EVERY_S):
                return

    def refresh(self) -> None:
        """Nothing: its own thread looks."""

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._jobs.keep_logs(())


def row_of_job(job: JobRow, seen: float) -> RunRow:
    """Its row; `seen`: when it was first seen here (unix s), for a job that waits."""
    state = State.RUNNING if job_is_active(job.state) else State.QUEUED
    if job.state == "CONFIGURING":
        state = State.STARTING
    started = None
    if state is State.RUNNING and job.ends and job.limit_s:
        started = min(job.ends - job.limit_s, time.time())
    waits = f"waits: {pending_text(job.reason, shown_number(job))}"
    runs = f"on {job.nodes or 'its node'}, partition {job.partition}"
    if not is_understood(job.state):
        runs = f"Slurm says {job.state}"
    remark = f"{waits if job_waits(job.state) else runs}; not launched here"
    name, created = job.name[:_LONGEST_NAME], started or seen
    number, user = shown_number(job), user_name()
    return RunRow(number, 0, name, "", "", state, remark, "", user, created, started, is_live=True)
