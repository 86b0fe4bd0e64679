"""A place that a page or a dialog is about: how it stands, what is asked of it and done there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runners.cost.sessions import Session
from runners.places.place import Place
from tui.panel.places import Answer, PlaceOfRuns
from tui.snapshot.questions import Question

if TYPE_CHECKING:
    from tui.panel.run_commands import RunCommands
import time
from typing import NamedTuple

from runners.cost.meter import Meter
from runners.guard.rule import GuardView
from runners.host.clock import Moment, moment_now
from runners.places.place import WatchedPlace
from runners.places.snapshot import PlaceSnapshot
from tui.snapshot.feed import PanelSnapshot


class PlaceAccount(NamedTuple):
    """A place's money, guard and queue as they stand; `now` is the moment by its own clock."""

    session: Session | None
    meter: Meter
    guard: GuardView
    drained: str
    live: int
    """How many runs have started and live."""
    now: Moment


def account_here(snapshot: PanelSnapshot) -> PlaceAccount:
    """This machine's."""
    live = sum(view.run.state.holds_gpus for view in snapshot.runs)
    return _account(snapshot, live, moment_now())


def account_of(host: WatchedPlace) -> PlaceAccount | None:
    """Another place's; None before anything came from it."""
    if host.snapshot is None:
        return None
    live = sum(row.state.holds_gpus for row in host.snapshot.runs.values())
    return _account(host.snapshot, live, Moment(time.time() + host.clock_offset))


def _account(snapshot: PanelSnapshot | PlaceSnapshot, live: int, now: Moment) -> PlaceAccount:
    guard = snapshot.guard or GuardView(None, None, False)
    return PlaceAccount(snapshot.session, snapshot.meter, guard, snapshot.drained, live, now)


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

    def named(self, text: str) -> str:
        """The commands that a text names, with the machine they are about."""
        if not self.place.name:
            return text
        from runners.places.ssh.commands_there import named_from_here

        return named_from_here(text, self.place.name)

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
