"""Deleting runs so that they can be brought back: for some days they are kept in the trash.

The trash is a folder beside the runs. A run's folder is renamed as a whole, under the allocation
lock, where nothing keeps it where it is. The ledger has its line before that, so its cost stays
counted.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from runners.cost.ledger import append_missing
from runners.host.files import names_in, replace
from runners.host.identity import host_name, user_name
from runners.host.locks import is_held, locked
from runners.host.ownership import permission_problem
from runners.host.procfs import all_marks
from runners.lifecycle.control.fetched import remember_unfetched
from runners.lifecycle.launch.preconditions import refuse_untrusted
from runners.model.errors import FresnelError, NotFound, WrongInput
from runners.model.run import Run
from runners.model.states import State
from runners.state.codec import read_outline, read_record
from runners.state.decoding import read
from runners.state.labels_file import read_labels
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import holds_gpus, home_of, live_run_ids
from runners.state.runs import read_run

KEPT_S = 7 * 86_400.0
"""Seconds for which a deleted run can be brought back."""
_GOING = ".gone-"
_HALF_MADE_S = 3600.0
_PATIENCE_S = 2.0
"""How long runs whose locks are still held are waited for, all together."""


class DeletedMark(msgspec.Struct, frozen=True):
    """deleted.json: who deleted the run, and when (unix seconds)."""

    by: str
    time: float


class DeletedRun(msgspec.Struct, frozen=True):
    """A run in the trash; `until` is when it goes for good (unix seconds)."""

    id: str
    name: str
    state: State
    by: str
    deleted: float
    until: float


class Deletion(msgspec.Struct):
    """What `delete` did: runs moved to the trash, and those that stay, with the reason.

    `unfetched` are those deleted that nobody has fetched: they hold an end that destroys.
    """

    deleted: list[Run] = []
    kept: dict[str, str] = {}
    unfetched: list[str] = []


def delete(state: StateDirectory, runs: Sequence[Run]) -> Deletion:
    """Move ended `runs` to the trash, each whole; one that must stay is named, with the reason.

    Raises DeniedError when others may write the state folder. Live runs are never touched.
    """
    refuse_untrusted(state.create())
    state.trash.mkdir(mode=0o700, exist_ok=True)
    result = Deletion(kept=append_missing(state, runs))
    mark = msgspec.json.encode(DeletedMark(user_name(), time.time()))
    with locked(state.allocation_lock):
        reason_to_stay = reasons_to_stay(state)
        for run in runs:
            reason = result.kept.get(run.id) or reason_to_stay(run)
            if reason:
                result.kept[run.id] = reason
                continue
            directory = state.run(run.id)
            try:
                # Before it goes: what a crash leaves holds too much rather than too little.
                if remember_unfetched(state, run):
                    result.unfetched.append(run.id)
                # The mark travels inside the folder: after a crash the trash still says
                # who deleted it, and when.
                replace(directory.deleted, mark)
                directory.path.rename(state.trash / run.id)
            except OSError as error:
                result.kept[run.id] = error.strerror or str(error)
            else:
                result.deleted.append(run)
    return result


def undelete(state: StateDirectory, names: Iterable[str]) -> list[Run]:
    """Bring runs back from the trash: by id, its beginning, name, or `last` (deleted last).

    Raises NotFound for what is not there, WrongInput for an ambiguous beginning; then nothing is
    moved. Raises FresnelError when a run cannot be moved.
    """
    refuse_untrusted(state.create())
    found = list_deleted(state)
    chosen = {run.id: run for name in names for run in [_named(found, name)]}
    with locked(state.allocation_lock):
        for run_id in chosen:
            place = state.run(run_id).path
            if place.exists():
                raise WrongInput(f"{run_id} exists already", "nothing was overwritten")
            try:
                (state.trash / run_id).rename(place)
            except OSError as error:
                raise FresnelError(f"{run_id} cannot be moved back: {error.strerror}") from None
            state.run(run_id).deleted.unlink(missing_ok=True)
    return [read_run(state, run_id) for run_id in chosen]


def list_deleted(state: StateDirectory) -> list[DeletedRun]:
    """The runs in the trash, the one deleted last at the end."""
    names = (name for name in names_in(state.trash) if not name.startswith("."))
    runs = (_deleted_run(state, state.trash / name) for name in names)
    return sorted(runs, key=lambda run: (run.deleted, run.id))


def empty_trash(state: StateDirectory, runs: Iterable[DeletedRun]) -> list[DeletedRun]:
    """Remove `runs` of the trash for good; return those that went.

    What a crash leaves of one is removed by the next call.
    """
    import shutil  # every command asks whether there is anything to empty

    refuse_untrusted(state.create())
    going = []
    with locked(state.allocation_lock):
        for run in runs:
            try:
                # Renamed first, so that nobody can bring back a run of
                # which files are missing already.
                (state.trash / run.id).rename(state.trash / f"{_GOING}{run.id}")
            except OSError:
                continue  # brought back, or emptied by somebody else
            going.append(run)
    if state.trash.is_dir():
        for place in state.trash.glob(f"{_GOING}*"):
            shutil.rmtree(place, ignore_errors=True)
    return going


def expired(state: StateDirectory) -> list[DeletedRun]:
    """The runs that have been in the trash for longer than `KEPT_S`."""
    return [run for run in list_deleted(state) if run.until <= time.time()]


def _named(deleted: Sequence[DeletedRun], name: str) -> DeletedRun:
    if name == "last" and deleted:
        return deleted[-1]
    exact = [run for run in deleted if run.id == name]
    found = exact or [run for run in deleted if name and run.id.startswith(name)]
    if len(found) > 1:
        raise WrongInput(
            f"`{name}` is the beginning of {len(found)} deleted runs",
            f"newest: {', '.join(run.id for run in found[-3:])}",
        )
    # By name last: several runs share one, and then the one deleted last is meant.
    named = found or [run for run in deleted if name and run.name == name][-1:]
    if not named:
        raise NotFound(f"no deleted run `{name}`", "`fresnel-tui undelete` lists those there are")
    return named[0]


def _deleted_run(state: StateDirectory, place: Path) -> DeletedRun:
    directory = _InTrash(state, place.name)
    mark = read(directory.deleted, DeletedMark)
    if mark is None:
        # Renaming sets the ctime, so it is the time of the deletion.
        mark = DeletedMark("", place.stat().st_ctime if place.exists() else time.time())
    outline, record = read_outline(directory), read_record(directory)
    name = read_labels(directory).name or (outline.spec.name if outline else "")
    ending = record.state if record else State.LOST
    return DeletedRun(place.name, name, ending, mark.by, mark.time, mark.time + KEPT_S)


class _InTrash(RunDirectory):
    def __init__(self, home: StateDirectory, run_id: str) -> None:
        super().__init__(home, run_id)
        self.path = home.trash / run_id


def main() -> None:
    """Remove what was in the trash long enough, for the state folder on the command line."""
    state = StateDirectory(Path(sys.argv[-1]))
    empty_trash(state, expired(state))


def reasons_to_stay(state: StateDirectory) -> Callable[[Run], str]:
    """Return a function that says, under the lock, why a run must stay; empty when it may go."""
    # Once for all runs: a pass over /proc for each of thousands would be slow.
    marks, live = all_marks(), set(live_run_ids(state))
    needed = _needed(state, live)
    # Between the recorded ending and its own a supervisor starts what sums the run up.
    patience_ends = time.monotonic() + _PATIENCE_S

    def reason(run: Run) -> str:
        directory = state.run(run.id)
        home = home_of(run)
        if home != host_name():
            return f"belongs to host {home}"
        if run.id in live:
            return f"is {run.state}" if run.is_live else "its ending is not recorded yet"
        while is_held(directory.supervisor_lock) or is_held(directory.run_lock):
            if time.monotonic() >= patience_ends:
                return "something still holds its locks"
            time.sleep(0.01)
        if run.id in marks:
            return f"pid {', '.join(map(str, marks[run.id]))} of it is alive"
        if state.held_marker(run.id).exists() and holds_gpus(directory):
            return "processes of it are alive"
        if run.id in needed:
            return needed[run.id]
        if run.problem:
            return run.problem
        if (
            run.plan is None
            and run.record is None
            and abs(time.time() - run.created) < _HALF_MADE_S
        ):
            return "half made, perhaps just now by another host"
        return permission_problem(directory.path)

    return reason


def _needed(state: StateDirectory, live: Iterable[str]) -> Mapping[str, str]:
    """Runs that a live run needs, and what for: their ending, or a checkpoint in their folder."""
    needed = {}
    for plan in [plan for run_id in live if (plan := read_run(state, run_id).plan) is not None]:
        if plan.spec.parent and plan.spec.resumed_from.startswith(
            f"{state.run(plan.spec.parent).path}/"
        ):
            needed[plan.spec.parent] = f"{plan.run} goes on from its checkpoint"
        if plan.is_queued and plan.spec.after is not None:
            needed[plan.spec.after.run] = f"{plan.run} waits for it"
    return needed
