"""The seam for where runs live: here, a machine reached by ssh, later a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from runners.places.actions import Outcome, RunAction
    from runners.places.run_row import RunRow
    from runners.places.snapshot import PlaceSnapshot


class Place(Protocol):
    """Where runs live, and what can be done with them there.

    Nothing here waits: `done` is called once, in any thread. Runs go by the ids that the place
    itself knows them by.
    """

    @property
    def name(self) -> str:
        """What it is called; empty for this machine."""

    @property
    def obstacle(self) -> str:
        """Why nothing can be done there now; empty when it can."""

    @property
    def clock_offset(self) -> float:
        """How far its clock is ahead of this machine's, in seconds."""

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Do something to runs."""

    def command(self, arguments: Sequence[str], done: Callable[[Outcome], None]) -> None:
        """Run a headless command there: `launch`, `session`, `drain` and the like."""

    def ask(
        self, question: str, subjects: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        """Ask about runs, money, plans; `done` gets a struct, or plain values, or a problem."""

    @property
    def address(self) -> str:
        """Where it is, and at which price, in words."""

    def reach(self) -> None:
        """Try again to reach it, without waiting for the next try."""

    def preset_flags(self, preset: str, given: Sequence[str]) -> list[str]:
        """The flags with which a preset finds its things there; `given` overrides stay."""

    def log_path(self, run: str) -> Path:
        """The file on this machine that has a run's output, from when it is followed."""

    def follow(self, run: str) -> None:
        """Keep that file current."""

    def keep_logs(self, shown: Collection[Path]) -> None:
        """Follow the output of no other runs than these any longer."""


class WatchedPlace(Protocol):
    """A place besides this machine, with what it showed last; kept current in its own thread."""

    @property
    def name(self) -> str:
        """What it is called here."""

    @property
    def is_machine(self) -> bool:
        """Whether it has GPUs and money of its own, and can be launched on."""

    @property
    def place(self) -> Place:
        """What can be done there."""

    @property
    def snapshot(self) -> PlaceSnapshot | None:
        """What it showed last, by its own names and clock; None before anything came."""

    @property
    def came(self) -> float:
        """When that came, in unix seconds."""

    @property
    def clock_offset(self) -> float:
        """How far its clock is ahead, in seconds, as its rows were made by."""

    @property
    def rows(self) -> tuple[RunRow, ...]:
        """Its runs, newest first, under `name/id` and by the clock of here."""

    @property
    def is_reached(self) -> bool:
        """Whether that is as it is now."""

    @property
    def is_down(self) -> bool:
        """Whether it was tried and not reached."""

    @property
    def status_text(self) -> str:
        """How it is reached, in words."""

    @property
    def hidden(self) -> int:
        """How many more runs ended there long ago."""

    @property
    def older_problem(self) -> str:
        """Why those did not come; empty when they did."""

    def load_older(self) -> None:
        """Have some more of those come."""

    def run(self, run_id: str) -> RunRow | None:
        """A run there, by its id there."""


class PlaceKind(Protocol):
    """All places of one kind."""

    @property
    def places(self) -> Mapping[str, WatchedPlace]:
        """Those that can be used, by name."""

    @property
    def not_set_up(self) -> Sequence[str]:
        """The names of those that cannot yet."""

    def refresh(self) -> None:
        """Take in places that were added, changed or removed."""

    def stop(self) -> None:
        """Let go of all of them, without waiting."""
