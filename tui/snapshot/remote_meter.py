"""What a rented machine costs now; while it is not reached, by its session as last known."""

import time
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from runners.cost.accounting import to_decimal
from runners.cost.machines import read_account
from runners.cost.sessions import Session
from runners.cost.statement import Statement
from runners.host.clock import Moment, local_time
from runners.places.place import WatchedPlace
from runners.state.layout import StateDirectory
from tui.views.format import dollars


class RemoteMeter(msgspec.Struct, frozen=True):
    """A machine's dollars per hour and dollars; `since` (unix s) is when it was reached last."""

    name: str
    session: Session | None = None
    per_hour: Decimal | None = None
    spent: Decimal | None = None
    since: float | None = None
    is_down: bool = False

    @property
    def is_at_least(self) -> bool:
        """Whether it may have cost more than is known."""
        return self.is_down and self.spent is not None


def remote_meter(state: StateDirectory, machine: WatchedPlace) -> RemoteMeter:
    """The meter of a machine: its own while it is reached, reckoned on from there when it is not.

    `spent` is of its open session.
    """
    snapshot = machine.snapshot
    if snapshot is not None and not machine.is_down:
        meter = snapshot.meter
        return RemoteMeter(machine.name, snapshot.session, meter.per_hour, meter.session)
    if snapshot is not None:
        session, since = snapshot.session, machine.came
        now = Moment(time.time() + machine.clock_offset)
    else:
        # Before anything came: what was known when it was reached last, by whatever command.
        account = read_account(state, machine.name)
        if account is None:
            return RemoteMeter(machine.name, is_down=machine.is_down)
        session, since, now = account.session, account.reached, account.now
    if session is None:
        return RemoteMeter(machine.name, since=since, is_down=machine.is_down)
    spent = to_decimal(Statement([session], (), now).account(session).total)
    return RemoteMeter(machine.name, session, session.rate, spent, since, machine.is_down)


def one_per_session(meters: Sequence[RemoteMeter]) -> list[RemoteMeter]:
    """The meters without those of a machine that goes by another name too."""
    found: list[RemoteMeter] = []
    known = set()
    for meter in meters:
        session = meter.session
        identity = None if session is None else (session.id, session.began)
        if identity is None or identity not in known:
            found.append(meter)
        known.add(identity)
    return found


def meter_text(meter: RemoteMeter) -> str:
    """`amd $3.98/h, not reached since 12:04: at least $66.10 by now`."""
    rate = f" {dollars(meter.per_hour)}/h" if meter.per_hour is not None else ""
    if not meter.is_down:
        spent = "" if meter.spent is None else f" {dollars(meter.spent)}"
        return f"{meter.name}{rate}{spent}"
    since = "" if meter.since is None else f" since {local_time(meter.since, '%H:%M')}"
    spent = "" if meter.spent is None else f": at least {dollars(meter.spent)} by now"
    return f"{meter.name}{rate}, not reached{since}{spent}"
