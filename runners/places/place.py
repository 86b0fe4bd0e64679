"""The seam for where runs live: here, a machine reached by ssh, later a cluster."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from runners.places.actions import Outcome, RunAction


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

    def command(self, words: Sequence[str], done: Callable[[Outcome], None]) -> None:
        """Run a headless command there: `launch`, `plan`, `presets` and the like."""

    def ask(self, question: str, words: Sequence[str], done: Callable[[object, str], None]) -> None:
        """Ask about runs; `done` gets the answer, as a struct or as plain values, or a problem."""

    def log_path(self, run: str) -> Path:
        """The file on this machine that has a run's output, from when it is followed."""

    def follow(self, run: str) -> None:
        """Keep that file current."""

    def keep_logs(self, shown: Collection[Path]) -> None:
        """Follow the output of no other runs than these any longer."""
