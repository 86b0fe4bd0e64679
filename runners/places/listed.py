"""A place that only lists what waits or runs there: no machine of its own, nothing is launched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from runners.places.actions import Outcome, RunAction
from runners.places.remote import remote_row
from runners.places.run_row import RunRow, view_of_row
from runners.places.snapshot import PlaceSnapshot


class ListedPlace(ABC):
    """Its rows, and the dialog that asks whether one of them shall end: both sides of the place.

    `limits` says what can be done there and what cannot, `ends` how one of its rows ends.
    """

    name: str
    address: str
    limits: str
    ends: str
    clock_offset = came = 0.0
    hidden = 0
    older_problem = obstacle = ""
    is_machine = False

    def __init__(self) -> None:
        self.snapshot: PlaceSnapshot | None = None
        self.rows: tuple[RunRow, ...] = ()

    @property
    def place(self) -> ListedPlace:
        """What can be done there."""
        return self

    def show(self, rows: Iterable[RunRow]) -> None:
        """List these from now on."""
        self.snapshot = PlaceSnapshot(host=self.name, runs={row.id: row for row in rows})
        self.rows = tuple(remote_row(self.name, row, 0.0) for row in self.snapshot.newest_first)

    def run(self, run_id: str) -> RunRow | None:
        """One of them, by its id there."""
        return None if self.snapshot is None else self.snapshot.runs.get(run_id)

    def command(self, arguments: Sequence[str], done: Callable[[Outcome], None]) -> None:
        """Nothing is launched there: that is done from this machine."""
        done(Outcome(problem=self.limits))

    def ask(
        self, question: str, subjects: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        """What is known of one, for the dialog that asks whether it shall end."""
        row = self.run(subjects[0]) if subjects else None
        if question != "view":
            done(None, self.limits)
        elif row is None:
            done(None, "it has ended")
        else:
            done(view_of_row(row, self.ends), "")

    def preset_flags(self, preset: str, given: Sequence[str]) -> list[str]:
        """None: nothing is launched there."""
        return []

    def load_older(self) -> None:  # noqa: B027 (no place overrides it)
        """There are none."""

    @abstractmethod
    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """End some of them; anything else is refused."""

    @abstractmethod
    def reach(self) -> None:
        """Look again, at once."""

    @abstractmethod
    def log_path(self, run: str) -> Path:
        """The file here that stands for its output, from when it is followed."""

    @abstractmethod
    def follow(self, run: str) -> None:
        """See that the file is there."""

    @abstractmethod
    def keep_logs(self, shown: Collection[Path]) -> None:
        """Remove the files of all others."""
