"""How a place stands: its money, its guard, its queue; the same of this machine and of others."""

import time
from typing import NamedTuple

from runners.cost.meter import Meter
from runners.cost.sessions import Session
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
