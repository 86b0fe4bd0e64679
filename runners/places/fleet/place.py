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
from runners.places.listed import ListedPlace
from runners.places.run_row import RunRow
from runners.places.ssh.registry import ANY
from runners.state.layout import StateDirectory

_ASKED = "{} is asked to start it: it is taken out unless that has begun there"


class WaitingLaunches(ListedPlace):
    """Those of one state folder."""

    name = ANY
    address = "launches that have no machine yet"
    limits = "it waits for a machine: it can be taken out of the queue (s), and nothing else"
    ends = "taken out of the queue; nothing was started"
    is_reached, is_down = True, False
    status_text = "waits for one of several machines"

    def __init__(self, state: StateDirectory) -> None:
        super().__init__()
        self._state = state

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Take launches out of the queue; anything else is refused."""
        if not isinstance(action, StopRuns):
            done(Outcome(problem=self.limits))
            return
        messages = []
        for launch in open_launches(self._state):
            if launch.id in action.runs:
                ask_to_cancel(self._state, launch)
                messages.append(_ASKED.format(launch.asked) if launch.asked else self.ends)
        start_dispatcher(self._state)
        done(Outcome(messages=tuple(dict.fromkeys(messages))))

    def reach(self) -> None:
        """See that somebody looks for a machine."""
        start_dispatcher(self._state)

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
        self._launches = WaitingLaunches(state)
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
            self._launches.show(map(_row, open_launches(self._state)))

    def stop(self) -> None:
        """Nothing runs here."""
        self._launches.keep_logs(())


def _row(launch: WaitingLaunch) -> RunRow:
    remark = launch.reason or "looks at the machines"
    return RunRow(
        launch.id,
        0,
        launch.name,
        "",
        "",
        State.QUEUED,
        remark,
        "",
        "",
        launch.created,
        is_live=True,
    )
