"""A supervisor as the body of a Slurm job: what it does before it is one like any other."""

import os
import signal
import sys
import time
from pathlib import Path

from runners.host.files import modified_at, read_json, read_plain, write_json
from runners.host.identity import host_name
from runners.host.locks import acquire
from runners.host.signals import signal_process
from runners.lifecycle.supervisor.job_ending import forget_stop
from runners.lifecycle.supervisor.job_folder import OTHER_FOLDER, folder_problem, own_number
from runners.lifecycle.supervisor.job_owner import JobOwner, Superseded
from runners.lifecycle.supervisor.job_watch import answer_of
from runners.lifecycle.supervisor.kept_environment import unpack_environment
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.queue_wait import queued_again
from runners.model.states import State
from runners.state.layout import ENVIRONMENT, RunDirectory, StateDirectory
from runners.state.records import RecordFields, plan_fields, record_fields

_LET_GO_WITHIN_S = 5.0
_BILLING_WITHIN_S = 5.0
_ANEW_WITHIN_S = 150.0
"""Of a job that was begun anew: the body before may still be ending on a node that Slurm had lost
sight of, and that it clears within this time when it sees it again.
"""
_ENDED_WITHIN_S = 20.0
_POLL_S = 0.05
_OF_JOB = ("SLURM_", "SLURMD_", "SBATCH_")
_OF_NODE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "TMPDIR")
"""What Slurm says on the node, whatever stood there where it was submitted."""
_OF_MACHINE = ("HOSTNAME", "XDG_RUNTIME_DIR", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


def take_environment(root: str, run_id: str) -> None:
    """Make the environment of the launch this process's own, besides what is the job's."""
    try:
        given = unpack_environment(read_plain(os.path.join(root, "runs", run_id, ENVIRONMENT)))
    except OSError:
        return  # the job's own is all there is
    for name, value in given.items():
        if not name.startswith(_OF_JOB) and name not in (*_OF_NODE, *_OF_MACHINE):
            os.environ[name] = value


def begin_job(root: str, run_id: str) -> tuple[RunDirectory, list[int], JobOwner] | None:
    """Make this process the owner of a run on this node: its folder, and the locks that it holds.

    Where those are not to be trusted, its name in the folder says who it is. None for a run that
    has ended, or has another owner. Raises OSError when its plan is gone or cannot be written;
    exits with `OTHER_FOLDER` where this node does not see the folder that was submitted.
    """
    run = StateDirectory(Path(root)).run(run_id)
    if problem := folder_problem(run):
        print(problem, file=sys.stderr, flush=True)
        sys.exit(OTHER_FOLDER)
    take_environment(root, run_id)
    for folder in (run.home.host.parent, run.home.host, run.home.readings):
        folder.mkdir(mode=0o700, exist_ok=True)
    is_anew = run.state.exists()
    patience = _ANEW_WITHIN_S if is_anew else _LET_GO_WITHIN_S
    locks = (acquire(run.supervisor_lock, patience), acquire(run.run_lock, patience))
    kept = [lock for lock in locks if lock is not None]
    record = record_fields(read_json(run.state))
    if len(kept) < 2 or (record and not record["state"].is_live):
        return None
    # A poke meanwhile says only that something lies in the folder: it is looked for later.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    owner = JobOwner(run)
    try:
        owner.take()
    except Superseded:
        return None
    # The one before may have recorded the end while it left.
    record = record_fields(read_json(run.state))
    if record and not record["state"].is_live:
        owner.leave()
        return None
    if record and record["state"] is State.QUEUED:
        forget_stop(run)  # its body was killed when it had put the run back
    _move_here(run)
    for lock in kept:
        os.set_inheritable(lock, False)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return run, kept, owner


def go_on(root: str, run_id: str, kept: list[int]) -> tuple[RunDirectory, list[int], JobOwner]:
    """What `begin_job` returned to this process before its source was replaced."""
    run = StateDirectory(Path(root)).run(run_id)
    return run, kept, JobOwner(run)  # as whom it is named there


def give_way(run: RunDirectory, record: RecordFields, owner: JobOwner, other: str) -> int:
    """End what this body has started, and record nothing: the run is another's, on host `other`.

    Returns the job's exit code.
    """
    print(f"{run.id} has begun anew on {other or 'another node'}: what runs here is ended")
    processes = RunProcesses(run, record.get("followed", []), record.get("cgroup", ""))
    waiter, ticks = record.get("waiter_pid"), record.get("waiter_ticks")
    if waiter and ticks:
        # First: it would write down the program's exit status, as that of the attempt to come.
        signal_process(waiter, ticks, signal.SIGKILL)
    until = time.monotonic() + _ENDED_WITHIN_S
    while left := processes.find(thorough=True):
        if time.monotonic() > until:
            return 1  # it has not left: who comes waits its time
        for pid, began in left.items():
            signal_process(pid, began, signal.SIGKILL)
        time.sleep(_POLL_S)
    owner.leave()
    return 1


def _move_here(run: RunDirectory) -> None:
    """Write down that the run is in this job on this node; its plan is yet to be made for it."""
    job = os.environ.get("SLURM_JOB_ID", "")
    changed = queued_again(run, host=host_name(), job=job)
    _note_job(run)
    price = changed.get("price")
    if isinstance(price, dict) and price.get("per") == "unit":
        changed["price"] = {**price, "units": _billed_units(job)}
    write_json(run.plan, changed)
    # Why it waited for Slurm is no reason any more.
    run.waits.unlink(missing_ok=True)
    # A later attempt, perhaps on another node, needs it again.
    if not plan_fields(changed)["restart"]["times"]:
        run.environment.unlink(missing_ok=True)


def _billed_units(job: str) -> float:
    """As how many units of a bill Slurm counts this job; 0 where it does not say."""
    units = answer_of("ask-slurm", "billing", job, within_s=_BILLING_WITHIN_S).get("billing")
    return float(units) if isinstance(units, (int, float)) else 0.0


def _note_job(run: RunDirectory) -> None:
    """Write down which job this is, since when, and how long it waited, which is not paid for."""
    before, now = read_json(run.job) or {}, time.time()
    note = {**before, "began": now, "left": None}
    note.setdefault("first", now)
    if before.get("began"):
        signs = (run.state, run.output, run.events, run.exit)
        left = before.get("left") or max(map(modified_at, signs))
        note["waited"] = (before.get("waited") or 0.0) + max(0.0, now - left)
    submitted = note.get("submitted") or time.time()
    name = os.environ.get("SLURM_JOB_NAME", "")
    write_json(run.job, {"name": name, "submitted": submitted, **note, "id": own_number()})
