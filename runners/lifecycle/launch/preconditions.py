"""What is refused before anything is done.

Folders that others may write, runs of other hosts.
"""

from runners.host.clock import moment_now
from runners.host.identity import host_name
from runners.model.errors import DeniedError
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import home_of
from runners.state.trust import run_permission_problem, state_permission_problem

_WHY = "anybody who can write there decides what runs as you"


def refuse_untrusted(state: StateDirectory) -> None:
    """Raise DeniedError when others may write the state folder, or it is another user's."""
    reason = state_permission_problem(state)
    if reason:
        raise DeniedError(
            reason, f"{_WHY}: chmod 700 it, or name a folder of your own in $FRESNEL_STATE_DIR"
        )


def refuse_untrusted_run(run: RunDirectory) -> None:
    """Raise DeniedError when others may write the run's folder, or it is another user's."""
    reason = run_permission_problem(run)
    if reason:
        raise DeniedError(
            f"{run.id}: {reason}", f"{_WHY}: look at what it holds, then chmod 700 it"
        )


def refuse_taken_away(state: StateDirectory) -> None:
    """Raise DeniedError while the provider announces that it takes this machine away."""
    if not state.preemption.exists():
        return
    from runners.cost.preemption import read_preemption  # few machines are taken away

    found = read_preemption(state)
    if found is not None and found.ends is not None:
        raise DeniedError(
            found.describe(moment_now()).partition(";")[0],
            "launch on another machine: what starts here is stopped at once",
        )


def refuse_other_host(run: Run, what: str) -> None:
    """Raise DeniedError for a run of another host: its pids and locks mean something only there."""
    home = home_of(run)
    if home != host_name():
        raise DeniedError(
            f"{run.id} runs on host {home}, this is {host_name()}",
            f"on {home}: fresnel-tui {what} {run.id}; where that is gone for good, set "
            f"FRESNEL_HOST={home} in front of it",
        )
