"""Why an ended run must stay where it is, asked under the allocation lock."""

import time
from collections.abc import Callable, Iterable, Mapping

from runners.host.identity import host_name
from runners.host.locks import is_held
from runners.host.ownership import permission_problem
from runners.host.procfs import all_marks
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.leases import holds_gpus, live_run_ids
from runners.state.runs import home_of, read_run

_HALF_MADE_S = 3600.0
_PATIENCE_S = 2.0
"""How long runs whose locks are still held are waited for, all together."""


def reasons_to_stay(state: StateDirectory) -> Callable[[Run], str]:
    """Return a function that says, under the lock, why a run must stay; empty when it may go."""
    # Once for all runs: a pass over /proc for each of thousands would be slow.
    marks, live = all_marks(), set(live_run_ids(state))
    needed = _needed(state, live)
    # Between the recorded ending and its own a supervisor starts what sums the run up.
    patience_ends = time.monotonic() + _PATIENCE_S

    def reason(run: Run) -> str:
        directory = state.run(run.id)
        home = home_of(run.plan, run.record)
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
