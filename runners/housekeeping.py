"""What every front end does now and then: adopt runs, keep the guard alive, find overruns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from runners.host import helpers
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids

if TYPE_CHECKING:
    from runners.cost.run_costs import RunCost


def tended_state() -> StateDirectory:
    """The state folder that a command works on, after it was tended. Raises as `tend` does."""
    state = StateDirectory()
    tend(state)
    return state


def tend(state: StateDirectory) -> list[str]:
    """Adopt runs, start the guard that is set, empty the trash of what is old; the adopted ids.

    Lines that the ledger lost, of runs whose own record is there, are entered again.

    The session of a machine that was taken away and has come back is ended with it.

    Raises OSError where no process can be started, DeniedError for a state folder others may write.
    """
    if state.guard.is_dir() or state.session.exists() or live_run_ids(state):
        from runners.guard.keeper import ensure_guard, ensure_preemption_watch

        ensure_guard(state)
        ensure_preemption_watch(state)
    if state.has_unlisted():
        from runners.cost.ledger import reenter_marked  # after a full disk only

        reenter_marked(state)
    if not state.is_ledger_checked():
        from runners.cost.ledger import check_ledger  # once a boot

        check_ledger(state)
    if state.preemption.exists():
        from runners.cost.sessions import settle_preemption  # seldom there

        settle_preemption(state)
    if state.sweeps.is_dir():
        from runners.guard.sweep_watch import ensure_sweep_watches  # few have a sweep

        ensure_sweep_watches(state)
    if state.trash.is_dir():
        from runners.lifecycle.control.trash import expired  # nothing is deleted in most folders

        if expired(state):
            helpers.spawn("empty-trash", state.root)
    return adopt_orphans(state)


def find_overruns(state: StateDirectory, runs: Iterable[tuple[Run, RunCost]]) -> None:
    """Record an alert for each run that will cost clearly more than it was estimated to."""
    from runners.cost.run_costs import warn_of_overrun  # `tend` alone does without

    for run, cost in runs:
        warn_of_overrun(state, run, cost)
