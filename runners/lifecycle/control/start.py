"""Starting a run: choose its GPUs under one short lock, write its directory, supervise it."""

import errno
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.host.locks import acquire, is_held, locked
from runners.host.procfs import HELPER_MARK, MARK, is_mounted
from runners.lifecycle.control.stop import reserve
from runners.lifecycle.launch.adopt import adopt
from runners.lifecycle.launch.dispatch import grant_all, record_why, wake
from runners.lifecycle.launch.git_snapshot import start_recording
from runners.lifecycle.launch.planner import PlannedRun, Planner
from runners.lifecycle.launch.preconditions import refuse_taken_away, refuse_untrusted
from runners.lifecycle.launch.run_files import write_files
from runners.lifecycle.launch.unfinished import all_or_none, undo
from runners.lifecycle.supervisor.kept_environment import keep_environment
from runners.lifecycle.supervisor.spawn import spawn_supervisor
from runners.model.errors import DeniedError, FresnelError
from runners.model.masked_plan import travelling
from runners.model.plan import is_job
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.scheduling.queue_order import Granted
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.requests import note_run
from runners.state.runs import read_run

_ROOM = 256 << 10
"""Bytes that a supervisor's records and a launch's beginning need, amply."""
_BETWEEN_JOBS_S = 0.5
"""Between submissions of one launch: a cluster's controller has others to serve."""


class NotSupervised(FresnelError):
    """Some of the `runs` of a launch have no supervisor; the next command adopts them."""

    def __init__(self, runs: Sequence[Run], problem: str) -> None:
        states = ", ".join(f"{run.id} {run.state}" for run in runs)
        super().__init__(problem, f"do not launch again, the next command adopts it: {states}")
        self.runs = list(runs)


def start_together(
    state: StateDirectory, specs: Sequence[RunSpec], queue: bool = True, request: str = ""
) -> list[Run]:
    """Start runs, all or none, or let them wait in the queue where GPUs are busy; return them.

    One lock is held around choosing GPUs for all of them and writing them down. A `request` is
    the one that was opened for this launch. Raises
    DeniedError when waiting would not help, or when `queue` is false and one would have to;
    WrongInput when something that one names does not exist; VerificationFailed when a check
    that its preset asks for fails.
    """
    refuse_untrusted(state.create())
    refuse_taken_away(state)
    if not is_mounted():
        raise DeniedError(
            "/proc is not mounted: a run's processes could be neither found nor stopped",
            "mount it: mount -t proc proc /proc",
        )
    if any(spec.verify for spec in specs):
        # This opens the run's interpreter and its data: only where a preset asks for it.
        from runners.verify.verify import refuse_failing

        specs = refuse_failing(state, specs)
    planner = Planner(state, specs)
    # A panel lives on when its launch fails: it must not keep the locks of runs for ever.
    with ExitStack() as unsupervised:
        with locked(state.allocation_lock):
            launch = planner.plan()
            launch.refuse(queue)
            grant_all(state, launch.waiting, launch.decisions)
            with all_or_none(state, [run.plan.run for run in launch.runs]):
                descriptors = [_write(state, run, request, unsupervised) for run in launch.runs]
        wake(state, launch.waiting, launch.decisions)
        if any(is_job(run.plan) for run in launch.runs):
            _submit(state, launch.runs)
        # Git takes its time while the supervisors start; its answer is not needed to run.
        recording = start_recording(
            {state.run(run.plan.run): Path(run.plan.working_directory) for run in launch.runs}
        )
        unsupervised.pop_all()
    problems = [
        _supervise(state, run, locks)
        for run, locks in zip(launch.runs, descriptors, strict=True)
        if not is_job(run.plan)
    ]
    recording.join()
    runs = [read_run(state, run.plan.run) for run in launch.runs]
    if any(problems):
        raise NotSupervised(runs, "; ".join(problem for problem in problems if problem))
    return runs


def _submit(state: StateDirectory, runs: Sequence[PlannedRun]) -> None:
    """Hand runs to Slurm; what it refuses, and what would follow, is as if never written."""
    from runners.lifecycle.launch.submit import submissions, submit  # clusters only

    environments = {run.plan.run: _environment(run) for run in runs}
    left = [run.plan.run for run in runs if is_job(run.plan)]
    try:
        for number, job in enumerate(
            submissions(state, ((run.plan.run, run.plan.spec) for run in runs))
        ):
            time.sleep(_BETWEEN_JOBS_S if number else 0.0)
            submit(state, job, environments)
            left = [run_id for run_id in left if run_id not in job.runs]
    except BaseException:
        undo(state, left)
        raise


def _supervise(state: StateDirectory, planned: PlannedRun, locks: Sequence[int]) -> str:
    """Start the run's supervisor, and another one should it be killed at once; what went wrong."""
    directory = state.run(planned.plan.run)
    try:
        spawn_supervisor(directory, _environment(planned), locks)
        problem = ""
    except (FresnelError, OSError) as error:
        problem = str(error)
    finally:
        # The supervisor has inherited them: from here on only it keeps the locks.
        for descriptor in locks:
            os.close(descriptor)
    # What was to tell us of its start may be dead while it lives: the lock tells.
    if not problem or is_held(directory.supervisor_lock):
        return ""
    try:
        adopt(state, directory.id)
    except FresnelError as error:
        return str(error)
    except OSError as error:
        return f"{directory.id}: {error}"
    return ""


def _environment(planned: PlannedRun) -> dict[str, str]:
    """What the supervisor gets: its program's environment, or ours to plan it in; and secrets."""
    base = planned.planned.environment
    if planned.plan.phase != "final":
        base = {key: value for key, value in os.environ.items() if key not in (MARK, HELPER_MARK)}
    return base | travelling(planned.planned.secrets)


def _require_room(run: RunDirectory) -> None:
    """OSError where the supervisor could not write down how the run does: it would be `starting`.

    Asked of the disk itself: quotas show in no number of free bytes.
    """
    probe = run.path / "room.tmp"
    with probe.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, _ROOM)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise OSError(error.errno, error.strerror, str(run.path)) from None
    probe.unlink()


def _write(
    state: StateDirectory, planned: PlannedRun, request: str, unsupervised: ExitStack
) -> list[int]:
    """Make the run's directory and take both its locks, which the supervisor inherits.

    So there is no moment at which the run exists and nobody holds them: it is marked live later,
    with all others of its launch.
    """
    run = state.run(planned.plan.run)
    is_local = not is_job(planned.plan)
    run.path.mkdir(mode=0o700)
    descriptors = []
    for path in (run.supervisor_lock, run.run_lock) if is_local else ():
        if (descriptor := acquire(path)) is not None:
            unsupervised.callback(os.close, descriptor)
            descriptors.append(descriptor)
    replace(run.spec, msgspec.json.encode(planned.plan.spec))
    write_files(run, planned.planned.files)
    note_run(state, request, run.id)
    # The plan is what makes a GPU leased, so everything that it refers to is written before it.
    replace(run.plan, msgspec.json.encode(planned.plan))
    if not isinstance(planned.decision, Granted):
        record_why(run, planned.decision)
    run.output.touch(mode=0o600)
    reserve(run)
    _require_room(run)
    if is_local:
        keep_environment(run, _environment(planned))
    return descriptors
