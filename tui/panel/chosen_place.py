"""A place that a page or a dialog is about: how it stands, what is asked of it and done there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runners.cost.sessions import Session
from runners.places.place import Place
from tui.panel.places import Answer, PlaceOfRuns
from tui.snapshot.place_account import PlaceAccount
from tui.snapshot.questions import Question

if TYPE_CHECKING:
    from tui.panel.run_commands import RunCommands


class ChosenPlace:
    """This machine or another one; whatever is shown of it is the same."""

    def __init__(
        self,
        place: Place,
        read: Callable[[], PlaceAccount | None],
        commands: RunCommands,
        places: PlaceOfRuns,
    ) -> None:
        """`read` has its money, guard and queue as they stand now; None before they are known."""
        self.place = place
        self.account = read
        self._commands = commands
        self._places = places

    @property
    def of(self) -> str:
        """` of NAME` for a title; empty of this machine."""
        return f" of {self.place.name}" if self.place.name else ""

    @property
    def on(self) -> str:
        """` on NAME` for a sentence; empty of this machine."""
        return f" on {self.place.name}" if self.place.name else ""

    @property
    def session(self) -> Session | None:
        """Its open session; None without one, and before that is known."""
        account = self.account()
        return None if account is None else account.session

    def do(self, *arguments: str, then: Callable[[], None] = lambda: None) -> None:
        """Run the headless command there, tell what it came to, then do `then`."""
        self._commands.command(self.place, arguments, lambda _: then())

    def ask(
        self,
        question: Question,
        kind: type[Answer],
        then: Callable[[Answer], None],
        failed: Callable[[str], None],
    ) -> None:
        """Ask it, and go on in the app's own thread."""
        self._places.ask(self.place, question, (), kind, then, failed)
