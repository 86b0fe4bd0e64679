"""What rented machines cost now, each and all; by their last known sessions while not reached."""

import time
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from runners.cost.accounting import to_decimal
from runners.cost.all_machines import AllBudget, AllMachines, read_all_budget, read_together
from runners.cost.machines import MachineAccount, counted_under, read_account, read_accounts
from runners.cost.statement import Statement
from runners.host.clock import Moment, time_of_day
from runners.places.place import WatchedPlace
from runners.places.ssh.accounts import rented_names
from runners.state.layout import StateDirectory
from tui.views.format import dollars


class RemoteMeter(msgspec.Struct, frozen=True):
    """A machine's dollars per hour, and those of its open session; `since` when it was reached."""

    name: str
    per_hour: Decimal | None = None
    spent: Decimal | None = None
    since: float | None = None
    is_down: bool = False

    @property
    def is_at_least(self) -> bool:
        """Whether it may have cost more than is known."""
        return self.is_down and self.spent is not None


def remote_meters(
    state: StateDirectory, machines: Sequence[WatchedPlace], unwatched: Sequence[str] = ()
) -> list[RemoteMeter]:
    """The meters of machines, each once: one that goes by two names under the first.

    A machine's own while it is reached; reckoned on from there when it is not. Of those that are
    `unwatched`, as nothing is installed there, each that is counted already.
    """
    rented = read_accounts(state, unwatched)
    counted_only = [
        _reckoned(name, account, is_down=True)
        for name, account in rented.items()
        if account.session is not None
    ]
    known = {machine.name: _known(state, machine) for machine in machines}
    firsts = counted_under({name: seen for name, seen in known.items() if seen is not None})
    counted: dict[str, list[WatchedPlace]] = {}
    for machine in machines:
        counted.setdefault(firsts.get(machine.name, machine.name), []).append(machine)
    meters = []
    for name, names in counted.items():
        # By the name under which it answers, or by that under which it answered last.
        machine = min(names, key=lambda machine: (machine.is_down, -_reached(known[machine.name])))
        meters.append(_meter(name, machine, known[machine.name]))
    return meters + counted_only


def _reached(known: MachineAccount | None) -> float:
    return 0.0 if known is None else known.reached


def _meter(name: str, machine: WatchedPlace, known: MachineAccount | None) -> RemoteMeter:
    snapshot = machine.snapshot
    is_own = known is None or not known.is_created
    if snapshot is not None and not machine.is_down and is_own:
        return RemoteMeter(name, snapshot.meter.per_hour, snapshot.meter.session)
    if known is None:
        return RemoteMeter(name, is_down=machine.is_down)
    return _reckoned(name, known, machine.is_down)


def _reckoned(name: str, known: MachineAccount, is_down: bool) -> RemoteMeter:
    """What a machine costs by its session as last known."""
    if known.session is None:
        return RemoteMeter(name, since=known.reached, is_down=is_down)
    account = Statement([known.session], (), known.now).account(known.session)
    spent = to_decimal(account.total)
    return RemoteMeter(name, known.session.rate, spent, known.reached, is_down)


def _known(state: StateDirectory, machine: WatchedPlace) -> MachineAccount | None:
    """What is known of a machine: what it showed last, else what was kept by whatever command."""
    kept, snapshot = read_account(state, machine.name), machine.snapshot
    if snapshot is None or (snapshot.session is None and kept is not None and kept.is_created):
        return kept
    boot = "" if kept is None else kept.then.boot
    then = Moment(machine.came + machine.clock_offset, boot)
    return MachineAccount(snapshot.host, then, machine.came, snapshot.session)


def meter_text(meter: RemoteMeter) -> str:
    """`amd $3.98/h, not reached since 12:04: at least $66.10 by now`."""
    rate = f" {dollars(meter.per_hour)}/h" if meter.per_hour is not None else ""
    if not meter.is_down:
        spent = "" if meter.spent is None else f" {dollars(meter.spent)}"
        return f"{meter.name}{rate}{spent}"
    since = "" if meter.since is None else f" since {time_of_day(meter.since)}"
    spent = "" if meter.spent is None else f": at least {dollars(meter.spent)} by now"
    return f"{meter.name}{rate}, not reached{since}{spent}"


_HOLDS_S = 5.0
_NEAR = Decimal("0.1")
"""So small a part of it that is left is said before it is spent."""


class AllBudgetText:
    """That of one state folder; read again every few seconds, since every session is added up."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._kept = ""
        self._until = 0.0

    def read(self) -> str:
        """`all: $412.00 left`, with a ⚠ before it when that is little; empty without a budget."""
        now = time.monotonic()
        if now >= self._until:
            budget = read_all_budget(self._state)
            together = read_together(self._state, rented_names(self._state)) if budget else None
            self._kept = left_text(budget, together) if budget and together else ""
            self._until = now + _HOLDS_S
        return self._kept


def left_text(budget: AllBudget, together: AllMachines) -> str:
    """What is left of it by what everything came to."""
    left = budget.left(together)
    if left <= 0:
        return "⚠ all: budget spent"
    text = f"all: {dollars(left)} left"
    return f"⚠ {text}" if left < _NEAR * Decimal(budget.amount) else text
