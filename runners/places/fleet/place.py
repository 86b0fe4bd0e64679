"""Launches that wait for a machine, as a place: their rows, why they wait, and their end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runners.model.run_ids import is_run_id
from runners.model.states import State
from runners.places.actions import Outcome, RunAction, StopRuns
from runners.places.fleet.dispatcher import start_dispatcher
from runners.places.fleet.waiting import (
    WaitingLaunch,
    ask_to_cancel,
    launches_stamp,
    open_launches,
    queue_lock,
)
from runners.places.remote import remote_row
from runners.places.run_row import RunRow, view_of_row
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.registry import ANY
from runners.state.layout import StateDirectory

_WAITS = "it waits for a machine: it can be taken out of the queue (s), and nothing else"
_ENDS = "taken out of the queue; nothing was started"
_ASKED = "{} is asked to start it: it is taken out unless that has begun there"


class WaitingLaunches:
    """Those of one state folder: both sides of the place."""

    name = ANY
    clock_offset = came = 0.0
    hidden = 0
    older_problem = obstacle = ""
    is_reached, is_down, is_machine = True, False, False
    status_text = "waits for one of several machines"
    address = "launches that have no machine yet"

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        self._state, self._changed = state, changed
        self.snapshot: PlaceSnapshot | None = None
        self.rows: tuple[RunRow, ...] = ()

    @property
    def place(self) -> WaitingLaunches:
        """What can be done there."""
        return self

    def take(self, launches: Sequence[WaitingLaunch]) -> None:
        """Show these."""
        runs = {launch.id: _row(launch) for launch in launches}
        self.snapshot = PlaceSnapshot(host=self.name, runs=runs)
        self.rows = tuple(remote_row(self.name, row, 0.0) for row in self.snapshot.newest_first)

    def run(self, run_id: str) -> RunRow | None:
        """One of them."""
        return None if self.snapshot is None else self.snapshot.runs.get(run_id)

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Take launches out of the queue; anything else is refused."""
        if not isinstance(action, StopRuns):
            done(Outcome(problem=_WAITS))
            return
        messages = []
        for launch in open_launches(self._state):
            if launch.id in action.runs:
                ask_to_cancel(self._state, launch)
                messages.append(_ASKED.format(launch.asked) if launch.asked else _ENDS)
        start_dispatcher(self._state)
        done(Outcome(messages=tuple(dict.fromkeys(messages))))

    def command(self, arguments: Sequence[str], done: Callable[[Outcome], None]) -> None:
        """Nothing is launched there: `launch --host any` is of this machine."""
        del arguments
        done(Outcome(problem=_WAITS))

    def ask(
        self, question: str, subjects: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        """What is known of one, for the dialog that asks whether it shall end."""
        row = self.run(subjects[0]) if subjects else None
        if question != "view":
            done(None, _WAITS)
        elif row is None:
            done(None, "it waits no more")
        else:
            done(view_of_row(row, _ENDS), "")

    def preset_flags(self, preset: str, given: Sequence[str]) -> list[str]:
        """None: nothing is launched there."""
        del preset, given
        return []

    def reach(self) -> None:
        """See that somebody looks for a machine."""
        start_dispatcher(self._state)

    def load_older(self) -> None:
        """There are none."""

    # ---- in place of output: why it waits

    def log_path(self, run: str) -> Path:
        """Where that is written while it is followed; ValueError for what is no run."""
        if not is_run_id(run):
            raise ValueError(f"{run[:80]!r} is no run")
        return queue_lock(self._state).parent / f"{run}.log"

    def follow(self, run: str) -> None:
        """Write it down."""
        row, path = self.run(run), self.log_path(run)
        if row is not None and not path.exists():
            with suppress(OSError):
                path.write_text("\n".join(row.remark.split("; ")) + "\n")

    def keep_logs(self, shown: Collection[Path]) -> None:
        """Remove what nobody looks at."""
        for path in queue_lock(self._state).parent.glob("2*.log"):
            if path not in shown:
                path.unlink(missing_ok=True)


class WaitingKind:
    """The one place of waiting launches, while there are any."""

    not_set_up: Sequence[str] = ()

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        self._state = state
        self._launches = WaitingLaunches(state, changed)
        self._stamp: object = None

    @property
    def places(self) -> Mapping[str, WaitingLaunches]:
        """The one there is, or none."""
        return {ANY: self._launches} if self._launches.rows else {}

    def refresh(self) -> None:
        """Read what waits, where that changed."""
        stamp = launches_stamp(self._state)
        if stamp != self._stamp:
            self._stamp = stamp
            self._launches.take(open_launches(self._state))

    def stop(self) -> None:
        """Nothing runs here."""
        self._launches.keep_logs(())


def _row(launch: WaitingLaunch) -> RunRow:
    nothing = (None,) * 4  # it has no progress, and has measured nothing
    return RunRow(
        launch.id,
        0,
        launch.name,
        "",
        "",
        State.QUEUED,
        launch.reason or "looks at the machines",
        "",
        "",
        launch.created,
        None,
        None,
        None,
        None,
        (),
        None,
        *nothing,
        None,
        None,
        None,
        is_live=True,
    )
