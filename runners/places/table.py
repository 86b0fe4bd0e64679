"""The table of the kinds of places besides this machine; each is imported when it is used."""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from runners.host.files import names_in
from runners.host.slurm_job import slurm_job
from runners.places.place import PlaceKind
from runners.state.layout import StateDirectory


class KindRow(NamedTuple):
    """One kind of places: the MODULE:CLASS that opens them, and whether a state folder has any.

    It is called with the state folder, and a function to call when something is new.
    """

    opened_by: str
    is_used: Callable[[StateDirectory], bool]


def _has_machines(state: StateDirectory) -> bool:
    """Whether a machine was ever added; looks at one folder."""
    return any(not name.startswith(".") for name in names_in(state.remote))


def _waits(state: StateDirectory) -> bool:
    """Whether a launch ever waited for one of several machines."""
    return (state.remote / ".waiting").is_dir()


def _asks_slurm(state: StateDirectory) -> bool:
    """Whether this machine's Slurm was ever asked; inside of a job only that job exists."""
    return state.slurm.is_dir() and slurm_job() is None


KINDS: dict[str, KindRow] = {
    "slurm": KindRow("runners.places.slurm.foreign:SlurmJobs", _asks_slurm),
    "fleet": KindRow("runners.places.fleet.place:WaitingKind", _waits),
    "ssh": KindRow("runners.places.ssh.machine:SshMachines", _has_machines),
}


def any_place(state: StateDirectory) -> bool:
    """Whether runs may live elsewhere than here."""
    return any(kind.is_used(state) for kind in KINDS.values())


def open_kinds(state: StateDirectory, changed: Callable[[], None]) -> list[PlaceKind]:
    """The places of every kind; `changed` is called in any thread when one shows something new."""
    opened: list[PlaceKind] = []
    for row in KINDS.values():
        module, _, name = row.opened_by.partition(":")
        opened.append(getattr(import_module(module), name)(state, changed))
    return opened
