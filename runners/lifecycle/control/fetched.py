"""Whether a run's results are safe elsewhere: a mark in its directory, set by who copied them.

A run that is removed without one leaves its name in a folder of the host: what it wrote elsewhere
on the machine is still there; fetched or given up by name, it is off the list.
"""

import time
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.host.identity import host_name, user_name
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.state.decoding import read
from runners.state.layout import StateDirectory
from runners.state.leases import home_of
from runners.state.runs import list_runs


class Fetched(msgspec.Struct, frozen=True):
    """fetched.json: who copied a run's results, when (unix seconds), and where to, if they said.

    `given_up`: nobody did, and nobody wants them.
    """

    by: str
    time: float
    to: str = ""
    given_up: bool = False


class Unfetched(msgspec.Struct, frozen=True):
    """The ids of a machine's runs whose results are nowhere else, oldest first."""

    unfetched: list[str]
    removed: list[str] = []


def mark_fetched(state: StateDirectory, run: Run, to: str = "", given_up: bool = False) -> Fetched:
    """Note that the results of an ended run are safe, or that nobody wants them.

    Raises WrongInput for a run that may still write some.
    """
    if run.is_live:
        raise WrongInput(
            f"{run.id} is {run.state}: it may still write results", "fetch them when it has ended"
        )
    mark = Fetched(user_name(), time.time(), to, given_up)
    replace(state.run(run.id).fetched, msgspec.json.encode(mark))
    release_removed(state, run.id)
    return mark


def remember_unfetched(state: StateDirectory, run: Run) -> bool:
    """Before a run is removed: keep its name if it is not fetched; True then. Raises OSError."""
    if not _is_unfetched(state, run):
        return False
    _removed(state).mkdir(mode=0o700, parents=True, exist_ok=True)
    (_removed(state) / run.id).touch(mode=0o600)
    return True


def release_removed(state: StateDirectory, run_id: str) -> None:
    """Take a removed run off the list of those not fetched."""
    (_removed(state) / run_id).unlink(missing_ok=True)


def removed_unfetched(state: StateDirectory) -> list[str]:
    """The runs of this host that were deleted or pruned without having been fetched, by id."""
    try:
        names = sorted(path.name for path in _removed(state).iterdir())
    except FileNotFoundError:
        return []
    return [name for name in names if not state.run(name).path.is_dir()]


def _removed(state: StateDirectory) -> Path:
    return state.host / "unfetched"


def unfetched_runs(state: StateDirectory) -> list[Run]:
    """The runs of this host that have started and have no mark, oldest first.

    Sessions and clocks do not matter: what those runs left is on this machine.
    """
    return [run for run in list_runs(state) if _is_unfetched(state, run)]


def _is_unfetched(state: StateDirectory, run: Run) -> bool:
    return (
        run.started is not None
        and home_of(run) == host_name()
        and read(state.run(run.id).fetched, Fetched) is None
    )
