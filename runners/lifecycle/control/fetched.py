"""Whether a run's results are safe elsewhere: a mark in its directory, set by who copied them."""

import time

import msgspec

from runners.host.files import replace
from runners.host.identity import host_name, user_name
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.state.decoding import read
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import home_of, list_runs


class Fetched(msgspec.Struct, frozen=True):
    """fetched.json: who copied a run's results, when (unix seconds), and where to, if they said."""

    by: str
    time: float
    to: str = ""


class Unfetched(msgspec.Struct, frozen=True):
    """The ids of a machine's runs whose results are nowhere else, oldest first."""

    unfetched: list[str]


_fetched = msgspec.json.Decoder(Fetched)


def mark_fetched(state: StateDirectory, run: Run, to: str = "") -> Fetched:
    """Note that the results of an ended run are safe.

    Raises WrongInput for a run that may still write some.
    """
    if run.is_live:
        raise WrongInput(
            f"{run.id} is {run.state}: it may still write results", "fetch them when it has ended"
        )
    mark = Fetched(user_name(), time.time(), to)
    replace(state.run(run.id).fetched, msgspec.json.encode(mark))
    return mark


def read_fetched(directory: RunDirectory) -> Fetched | None:
    """The mark of a run, or None."""
    return read(directory.fetched, _fetched)


def unfetched_runs(state: StateDirectory) -> list[Run]:
    """The runs of this host that have started and have no mark, oldest first.

    Sessions and clocks do not matter: what those runs left is on this machine.
    """
    return [
        run
        for run in list_runs(state)
        if run.started is not None
        and home_of(run.plan, run.record) == host_name()
        and read_fetched(state.run(run.id)) is None
    ]
