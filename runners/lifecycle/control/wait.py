"""Waiting for a run's recorded ending."""

import time
from collections.abc import Callable

from runners.host.identity import host_name
from runners.host.locks import is_held
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.lifecycle.launch.preconditions import refuse_untrusted_run
from runners.model.plan import is_job
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.leases import home_of
from runners.state.runs import read_run

_POLL_S = 0.05
_ADOPT_EVERY_S = 2.0


def wait_until_ended(
    state: StateDirectory, run_id: str, each: Callable[[], None] = lambda: None
) -> Run:
    """Return the run once its ending is recorded; twenty times a second until then call `each`.

    Raises DeniedError for one that has no supervisor and is given none, since others may write it.
    """
    adopt_at = time.monotonic()
    while True:
        run = read_run(state, run_id)
        # The marker goes last: without it the ledger has the run's line too.
        if not run.is_live and not state.live_marker(run_id).exists():
            return run
        each()
        # Its supervisor may die while we wait, and then nobody else might record the ending.
        if time.monotonic() >= adopt_at:
            adopt_orphans(state)
            _refuse_unrecorded(state, run)
            adopt_at = time.monotonic() + _ADOPT_EVERY_S
        time.sleep(_POLL_S)


def _refuse_unrecorded(state: StateDirectory, run: Run) -> None:
    directory = state.run(run.id)
    is_ours = not is_job(run.plan) and home_of(run) == host_name()
    if is_ours and not is_held(directory.supervisor_lock):
        refuse_untrusted_run(directory)
