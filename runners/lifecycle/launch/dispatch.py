"""The queue on disk: waiting runs are judged together, under the one short lock.

They are granted GPUs, or told why they wait. There is no daemon: whoever ends a run, and whoever
waits first in line, runs the helper `dispatch` for a moment.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from runners.gpus.client import read_gpus
from runners.host.files import append_event, replace
from runners.host.identity import host_name
from runners.host.locks import is_held, locked
from runners.host.slurm_job import slurm_job
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.lifecycle.supervisor.spawn import poke_supervisor
from runners.model.errors import NotFound
from runners.model.gpus import GpuReading
from runners.model.run import QueueStatus
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.scheduling.allocation import Allocation, Denied
from runners.scheduling.queue_order import (
    Candidate,
    Granted,
    QueueDecision,
    Waiting,
    decide,
    in_order,
)
from runners.state.codec import read_outline, read_plan, read_waits
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import held_leases, live_run_ids
from runners.state.runs import find_run, read_run


def waiting(state: StateDirectory) -> list[Candidate]:
    """The queued runs of this host whose supervisor lives, in the queue's order."""
    found = []
    inside = slurm_job()
    job = inside.id if inside else ""
    for run_id in live_run_ids(state):
        directory = state.run(run_id)
        plan = read_plan(directory)
        if plan is None or plan.phase != "queued" or plan.origin.host != host_name():
            continue
        # A job's GPUs are for its own runs, and these get no others.
        if plan.origin.job != job:
            continue
        # Without a supervisor nobody would start it: GPUs granted to it would be idle.
        if not directory.stop.exists() and is_held(directory.supervisor_lock):
            found.append(candidate_of(run_id, plan.spec, plan.origin.created))
    return in_order(found)


def candidate_of(run_id: str, spec: RunSpec, created: float) -> Candidate:
    """A run as a candidate of the queue."""
    return Candidate(
        run_id,
        spec.gpus,
        spec.priority,
        created,
        # For a job Slurm has waited, and knows how the other ended, perhaps before it is recorded.
        None if spec.place.slurm else spec.after,
        spec.group,
        spec.preset,
        spec.parallel,
    )


def judge(
    state: StateDirectory, candidates: Sequence[Candidate], reading: GpuReading | None
) -> dict[str, QueueDecision]:
    """The decision on each candidate as things are now; call it under the allocation lock."""
    endings = {
        c.after.run: ending_of(state, c.after.run) for c in candidates if c.after is not None
    }
    running = _running(state, {c.group for c in candidates if c.parallel})
    return decide(candidates, reading, held_leases(state), endings, state.drained_since(), running)


def _running(state: StateDirectory, groups: set[str]) -> Counter[str]:
    """How many runs of `groups` have been given their turn and have not ended."""
    if not groups:
        return Counter()
    outlines = [read_outline(state.run(run_id)) for run_id in live_run_ids(state)]
    started = [plan for plan in outlines if plan is not None and not plan.is_queued]
    return Counter(plan.spec.group for plan in started if plan.spec.group in groups)


def ending_of(state: StateDirectory, run_id: str) -> State | None:
    """How a run ended; None while it is live. One that was pruned, or never was, counts as lost."""
    if not state.run(run_id).path.is_dir():
        return State.LOST
    run = read_run(state, run_id)
    return None if run.is_live else run.state


def set_drain(state: StateDirectory, on: bool) -> None:
    """Let nothing start any more (what runs may finish), or let the queue go on."""
    state.create()
    if on:
        state.drain.touch(mode=0o600)
    else:
        state.drain.unlink(missing_ok=True)
        dispatch(state)


def dispatch(state: StateDirectory) -> list[str]:
    """Grant GPUs to every waiting run that may start now, tell the others why not.

    Nothing starts while systemd ends the machine or the login. Returns the ids of those that were
    granted.
    """
    candidates = waiting(state)
    if not candidates:
        return []
    from runners.host.shutdown import what_ends  # a plan does without

    if what_ends():
        return []
    wants_gpus = any(candidate.request.wants_gpus for candidate in candidates)
    # Before the lock: a slow driver must not keep every launch waiting.
    reading = read_gpus(state) if wants_gpus else None
    with locked(state.allocation_lock):
        # Listed again under the lock: the first look may be out of date by now.
        candidates = waiting(state)
        decisions = judge(state, candidates, reading)
        granted = grant_all(state, candidates, decisions)
    wake(state, candidates, decisions)
    return granted


def grant_all(
    state: StateDirectory, candidates: Sequence[Candidate], decisions: Mapping[str, QueueDecision]
) -> list[str]:
    """Give waiting runs the GPUs of their decisions, and tell the others why not.

    Returns the ids of those that were granted. Call it under the allocation lock.
    """
    granted = []
    for candidate in candidates:
        directory, decision = state.run(candidate.run), decisions[candidate.run]
        if not isinstance(decision, Granted):
            record_why(directory, decision)
        elif _grant(directory, candidate, decision.allocation):
            granted.append(candidate.run)
    return granted


def wake(
    state: StateDirectory, candidates: Sequence[Candidate], decisions: Mapping[str, QueueDecision]
) -> None:
    """Poke the supervisors of runs that may start, or never can, after the lock was released."""
    for candidate in candidates:
        # Those who must still wait are not woken: they would only go back to sleep.
        if not isinstance(decisions[candidate.run], Waiting):
            poke_supervisor(state.run(candidate.run))


def record_why(directory: RunDirectory, decision: Waiting | Denied) -> None:
    """Write down why a run waits, or why it can never start, if that has changed."""
    never = isinstance(decision, Denied)
    waits = QueueStatus(decision.reason, decision.place, time.time(), never)
    before = read_waits(directory)
    # The time alone is no change: a queue that is looked at every few seconds writes nothing.
    if before is None or msgspec.structs.replace(before, time=waits.time) != waits:
        replace(directory.waits, msgspec.json.encode(waits))


def _grant(directory: RunDirectory, candidate: Candidate, allocation: Allocation) -> bool:
    # From here on the plan names the GPUs and the supervisor holds the
    # run's lock: that is the lease.
    plan = read_plan(directory)
    if plan is None:
        return False
    granted = msgspec.structs.replace(
        plan,
        phase="granted",
        gpus=allocation.assigned(candidate.request.share_memory),
        notes=(*plan.notes, *allocation.notes),
    )
    replace(directory.plan, msgspec.json.encode(granted))
    append_event(directory.supervisor_events, "granted", gpus=[gpu.index for gpu in granted.gpus])
    return True


def resolve_after(state: StateDirectory, spec: RunSpec) -> RunSpec:
    """Return `spec` with the run it waits for named by its full id.

    Raises NotFound when there is no such run.
    """
    if spec.after is None:
        return spec
    try:
        run = find_run(state, spec.after.run)
    except NotFound as error:
        raise NotFound(f"after: {error.message}", error.hint) from None
    return msgspec.structs.replace(spec, after=msgspec.structs.replace(spec.after, run=run.id))


def main() -> None:
    """Dispatch once for the state folder named on the command line.

    A run without a supervisor keeps its GPUs until it is adopted, perhaps for
    nothing, so that comes first.
    """
    state = StateDirectory(Path(sys.argv[-1]))
    adopt_orphans(state)
    dispatch(state)
    if any(state.sweeps.glob("*/trials.json")):
        from runners.lifecycle.launch.sampled_runs import (
            report_endings,  # presets and more: few need it
        )

        report_endings(state)
