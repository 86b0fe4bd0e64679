"""Adopting runs whose supervisor died: their ending is recorded and a stop still works.

Slurm is asked now and then for runs that are its jobs: what ended unseen is recorded.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from runners.host.files import is_gone, names_in
from runners.host.identity import host_name
from runners.host.locks import is_held, is_held_beside
from runners.host.slurm_job import slurm_job
from runners.lifecycle.launch.preconditions import refuse_untrusted_run
from runners.lifecycle.supervisor.spawn import spawn_supervisor
from runners.model.errors import FresnelError
from runners.model.plan import is_job
from runners.state.layout import StateDirectory
from runners.state.leases import holds_gpus, home_of, live_run_ids
from runners.state.runs import read_run
from runners.state.trust import run_permission_problem


def adopt_orphans(state: StateDirectory) -> list[str]:
    """Start a supervisor for every unended run of this host that has none; return their ids.

    One whose folder others may write stays as it is, and its status says why. One whose supervisor
    does not start is tried again by the next call: nobody asked for that run.
    """
    if names_in(state.launching):
        from runners.lifecycle.launch.unfinished import settle_unfinished  # seldom needed

        settle_unfinished(state)
    adopted = []
    live = live_run_ids(state)
    if state.slurm.is_dir():
        settle_jobs(state, live)
    orphans = [
        run_id
        for run_id in live
        if not is_held(state.run(run_id).supervisor_lock) and _is_ours(state, run_id)
    ]
    if not orphans:
        return []
    from runners.host.shutdown import what_ends  # seldom needed

    # Their supervisors were ended with what ends now: what survives that goes on after it.
    if not what_ends():
        for run_id in orphans:
            with suppress(FresnelError):
                adopt(state, run_id)
                adopted.append(run_id)
    return adopted


def adopt(state: StateDirectory, run_id: str) -> None:
    """Start an adopting supervisor for one run; if another is quicker, this one exits by itself.

    Raises DeniedError for a run whose folder others may write.
    """
    directory = state.run(run_id)
    # Somebody removed the folder by hand: without this its marker would stay for ever.
    if is_gone(directory.path):
        state.live_marker(run_id).unlink(missing_ok=True)
        return
    refuse_untrusted_run(directory)
    spawn_supervisor(directory, os.environ, [])


def _is_ours(state: StateDirectory, run_id: str) -> bool:
    run = read_run(state, run_id)
    directory = state.run(run_id)
    trusted = is_gone(directory.path) or not run_permission_problem(directory)
    if not trusted or home_of(run) != host_name() or is_job(run.plan):
        return False
    if run.record is not None and is_held_beside(directory.run_lock, run.record.boot_id):
        return False
    job, here = run.plan.origin.job if run.plan else "", slurm_job()
    # Outside of its job, a supervisor would neither end with it nor see its GPUs.
    return not job or (here is not None and here.id == job) or not holds_gpus(directory)


def settle_jobs(state: StateDirectory, live: Sequence[str]) -> None:
    """Ask Slurm, where a live run is a job; have the ending recorded of those whose job is over.

    Not from inside of a job: that is done on the machine that submits.
    """
    jobs = [run_id for run_id in live if state.run(run_id).job.exists()]
    if not jobs or slurm_job() is not None:
        return
    from runners.slurm.queue import refresh  # clusters only
    from runners.state.job_status import is_over

    refresh(state)
    for run_id in jobs:
        run = state.run(run_id)
        # Of a node that Slurm has lost sight of, the supervisor may live: it records the ending.
        if is_over(run) and not is_held(run.supervisor_lock) and not run_permission_problem(run):
            with suppress(FresnelError, OSError):
                spawn_supervisor(run, os.environ, [])
