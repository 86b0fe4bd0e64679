"""Leases: which GPU is in use by which run, derived from held locks, never stored.

And which host a run belongs to: locks are seen by all containers of a machine, pids are not.
"""

import os
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from runners.host.files import is_passing, names_in, open_plain
from runners.host.identity import boot_id, has_our_locks, host_name, is_past
from runners.host.locks import is_held
from runners.host.procfs import is_zombie, marked_processes, start_ticks
from runners.model.plan import LaunchPlan, is_job
from runners.model.run import Run, RunRecord
from runners.state.boundary import ReadBoundary
from runners.state.codec import PlanOutline, read_outline, read_record
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.trust import run_permission_problem


class Lease(msgspec.Struct, frozen=True):
    """One GPU held by one run; `logical` is the device index the run's program sees."""

    uuid: str
    run: str
    logical: int
    preset: str
    since: float = 0.0
    share_memory: int | None = None


def home_of(run: Run) -> str:
    """The host that a run belongs to: its pids and locks mean nothing on another.

    One that is a Slurm job belongs to wherever its folder is: Slurm reaches it. So does one whose
    container is gone: made anew, that has another name.
    """
    return home_at(RunDirectory.at(run.directory), run.plan, run.record)


def home_at(directory: RunDirectory, plan: LaunchPlan | None, record: RunRecord | None) -> str:
    """`home_of` the run in `directory`, with its plan and its record."""
    if is_job(plan):
        return host_name()
    home = record.host if record else ""
    home = home or (plan.origin.host if plan else host_name())
    boot = boot_of(plan, record)
    is_gone = home != host_name() and boot != boot_id() and has_our_locks(boot)
    if is_gone and not is_held(directory.supervisor_lock) and not is_held(directory.run_lock):
        return host_name()
    return home


def boot_of(plan: LaunchPlan | None, record: RunRecord | None) -> str:
    """The boot, or the start of a container, that a run's processes are of; empty if not known."""
    if record and record.boot_id:
        return record.boot_id
    return plan.origin.boot_id if plan else ""


def live_run_ids(state: StateDirectory) -> list[str]:
    """Ids of the runs whose ending is not recorded yet, oldest first.

    Raises OSError where they cannot be listed for a moment: none would be taken for idleness.
    """
    return _names(state.live)


def holds_gpus(run: RunDirectory) -> bool:
    """True while the run's lock is held, or any process of it is alive, with its mark or without.

    A grandchild may not have inherited the lock's descriptor: torchrun closes it for its ranks.
    """
    # The cheapest test first: the other two read /proc.
    return is_held(run.run_lock) or bool(marked_processes(run.id)) or _followed_lives(run)


def will_go_on(run: RunDirectory) -> bool:
    """True when the run has no supervisor, and an adopter will start or queue its program.

    Until then it keeps its GPUs and its place. Its supervisor was killed before the program
    began, or between two attempts.
    """
    return not is_held(run.supervisor_lock) and _is_pending(run)


def _is_pending(run: RunDirectory) -> bool:
    """True when the program of a live run is still to be started, or started again."""
    if not run.home.live_marker(run.id).exists():
        return False
    record = read_record(run)
    # A process of another boot is gone for certain.
    if record is not None and is_past(record.boot_id):
        return False
    waits = record is None or record.state.is_unstarted
    begun = record is None or not record.next_attempt
    # These two files are written by the waiter: with either, the program did start.
    if not waits or (begun and (run.exit.exists() or run.leader.exists())):
        return False
    return not run_permission_problem(run)


def held_leases(state: StateDirectory, unbegun: Collection[str] = ()) -> dict[str, list[Lease]]:
    """All leases of this host by GPU UUID; a GPU that nobody holds has no entry.

    Runs that are `unbegun` are not looked at. Raises OSError where a plan cannot be read just now.
    """
    leases: dict[str, list[Lease]] = {}
    # Only live runs are looked at, so the cost does not grow with the number of ended ones.
    for run_id in live_run_ids(state):
        if run_id in unbegun:
            continue
        outline = _leased(state.run(run_id), _will_need_gpus)
        if outline is not None:
            _add(leases, run_id, outline)
    for run_id in _names(state.held):
        # It has ended, but processes of it would not go.
        outline = _leased(state.run(run_id), lambda run, _: holds_gpus(run))
        if outline is not None:
            _add(leases, run_id, outline)
        else:
            # Removed by whoever notices first; there is no other process that would.
            state.held_marker(run_id).unlink(missing_ok=True)
    return leases


def _leased(
    run: RunDirectory, is_held: Callable[[RunDirectory, PlanOutline], bool]
) -> PlanOutline | None:
    """The plan of a run that holds its GPUs; None of any other.

    Of one whose locks cannot be looked at, nothing says that its GPUs are free: it holds them.
    """
    boundary = ReadBoundary(run.path)
    outline = boundary.read("plan.json", lambda: read_outline(run), None)
    if outline is None:
        _raise_what_passes(run.plan)
        return None
    return outline if boundary.read("its locks", lambda: is_held(run, outline), True) else None


def _raise_what_passes(path: Path) -> None:
    try:
        os.close(open_plain(path))
    except OSError as error:
        if is_passing(error):
            raise


def _will_need_gpus(run: RunDirectory, outline: PlanOutline) -> bool:
    if not outline.gpus:
        return False
    # While one is asked, an adopter may take the run from it to another: its program starts, or is
    # to start again. The second round finds it there.
    # The lock first, for it is held of nearly every run: whichever is true, it will need them.
    return any(
        is_held(run.run_lock) or _is_pending(run) or holds_gpus(run) or _may_restart(run, outline)
        for _ in range(2)
    )


def _may_restart(run: RunDirectory, outline: PlanOutline) -> bool:
    """True when the program has ended, which is not recorded yet, and may be started again."""
    if not outline.spec.restart.times or not run.exit.exists() or run.stop.exists():
        return False
    record = read_record(run)
    return record is not None and record.state.is_live and not is_past(record.boot_id)


def _add(leases: dict[str, list[Lease]], run_id: str, plan: PlanOutline) -> None:
    for gpu in plan.gpus:
        lease = Lease(
            gpu.uuid, run_id, gpu.logical, plan.spec.preset, plan.origin.created, gpu.share_memory
        )
        leases.setdefault(gpu.uuid, []).append(lease)


def _followed_lives(run: RunDirectory) -> bool:
    record = read_record(run)
    if record is None or is_past(record.boot_id):
        return False
    # The start time tells a followed process from another one under its pid.
    return any(start_ticks(pid) == ticks and not is_zombie(pid) for pid, ticks in record.followed)


def _names(folder: Path) -> list[str]:
    return [name for name in names_in(folder, must_know=True) if not name.startswith(".")]
