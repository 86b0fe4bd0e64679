"""What is known here of rented machines' money: kept when they are reached, reckoned on from there.

A machine that is not reached goes on costing what it cost; one that has ended is in the ledger.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from pathlib import Path

import msgspec

from runners.cost.accounting import add_fractions
from runners.cost.ledger import Ledger, RunEntry
from runners.cost.sessions import Session, SessionLine, parse_budget
from runners.cost.statement import Statement, make_statement
from runners.host.clock import Moment, local_time, moment_after, moment_now, seconds_between
from runners.host.files import append_line, replace
from runners.host.identity import host_name
from runners.state.decoding import read
from runners.state.layout import StateDirectory


class MachineAccount(msgspec.Struct, frozen=True):
    """A machine's open session and live runs at the moment `then`, by its own clocks.

    Both go by the machine's name here. `reached` is when that was, in unix seconds of here;
    `missed` when it was first tried and not reached after that, None while it is reached.
    """

    own: str
    """What it calls itself."""
    then: Moment
    reached: float
    session: Session | None = None
    live: tuple[RunEntry, ...] = ()
    taken: int = 0
    """Bytes of its ledger that are taken into ours."""
    missed: float | None = None
    same_as: str = ""
    """Another name of the same machine, under which its lines are in our ledger."""
    gone: Moment | None = None
    """When its provider takes it away, as far as that is announced."""
    is_created: bool = False
    """Whether the session is that of its creation: counted until it names one of its own."""

    @property
    def now(self) -> Moment:
        """This moment by its clocks; of a machine that was taken away, that of its end."""
        if self.gone is None or not self.is_gone:
            return self.moment
        return self.gone if seconds_between(self.then, self.gone) else self.then

    @property
    def is_gone(self) -> bool:
        """Whether it was taken away: as announced, and it is not reached any more."""
        if self.gone is None or self.missed is None:
            return False
        return seconds_between(self.gone, self.moment) > 0.0

    @property
    def moment(self) -> Moment:
        """This moment by its clocks: as much later as it is here."""
        return moment_after(self.then, max(0.0, time.time() - self.reached))

    def is_same(self, other: "MachineAccount") -> bool:
        """Whether both are of one machine: by what it calls itself and its boot, or its session."""
        known = bool(self.then.boot)
        if known and (self.own, self.then.boot) == (other.own, other.then.boot):
            return True
        return self.session is not None and is_same_session(self.session, other.session)


class MachineState(str, Enum):
    """How this machine knows what another costs."""

    REACHED = "reached"
    NOT_REACHED = "not reached"
    TAKEN = "taken away"
    """By its provider, who had announced it."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """Added, and never reached."""


class MachineCost(msgspec.Struct, frozen=True):
    """What a machine besides this one costs; `last_reached` in unix seconds.

    `same_as` names the machine that it is too: it is counted there.
    """

    name: str
    state: MachineState
    statement: Statement
    last_reached: float | None = None
    same_as: str = ""

    @property
    def session(self) -> Session | None:
        """Its open session."""
        return next((period for period in self.statement.sessions if period.end is None), None)

    @property
    def total(self) -> Fraction:
        """Dollars that its sessions cost, by now."""
        accounts = (self.statement.account(session) for session in self.statement.sessions)
        return add_fractions(account.total for account in accounts)


def is_same_session(session: Session, other: Session | None) -> bool:
    """Whether both are one session, under whatever name its machine goes."""
    return other is not None and (session.id, session.start) == (other.id, other.start)


def counted_under(accounts: Mapping[str, MachineAccount]) -> dict[str, str]:
    """By name, the first name of the same machine: it is counted under that one alone."""
    firsts: dict[str, str] = {}
    for name, account in accounts.items():
        same = {first for known, first in firsts.items() if accounts[known].is_same(account)}
        # By its session it may be one of them, by its boot another: then those are one too.
        first = next((known for known in firsts if known in same), name)
        firsts = {known: first if at in same else at for known, at in firsts.items()}
        firsts[name] = first
    return firsts


def _file(state: StateDirectory, name: str) -> Path:
    return state.remote / name / "account.json"


def read_account(state: StateDirectory, name: str) -> MachineAccount | None:
    """What was last known of a rented machine; None before it was reached, or when damaged."""
    return read(_file(state, name), MachineAccount)


def write_account(state: StateDirectory, name: str, account: MachineAccount) -> None:
    """Keep what is known of a machine. OSError when that cannot be written."""
    replace(_file(state, name), msgspec.json.encode(account))


def note_missed(state: StateDirectory, name: str) -> None:
    """Note that a machine was tried and not reached."""
    account = read_account(state, name)
    if account is not None and account.missed is None:
        write_account(state, name, msgspec.structs.replace(account, missed=time.time()))


def read_accounts(state: StateDirectory, rented: Iterable[str]) -> dict[str, MachineAccount]:
    """What was last known of each of the `rented` machines that was ever reached."""
    known = ((name, read_account(state, name)) for name in rented)
    return {name: account for name, account in known if account is not None}


def open_account(
    state: StateDirectory, name: str, price: str, gpus: int, began: float, budget: str = ""
) -> None:
    """Count a machine from the moment it is asked for, in unix seconds, before it is reached.

    Its own session takes the place of this one when it has one. WrongInput for what is no price,
    and for a budget that is no amount.
    """
    from runners.cost.prices import choose_price  # only a new machine needs the list

    start = Moment(began)
    session = Session(
        started=began,
        host=name,
        price=choose_price(price, "session"),
        gpus=gpus,
        budget=parse_budget(budget or None),
        id=f"{local_time(began, '%Y%m%d-%H%M%S')}-{name}",
        began=start,
        uuids=tuple(f"{name}-{i}" for i in range(gpus)),
        caveat="from its creation; its GPUs are as stated, until it is reached",
    )
    account = MachineAccount(name, start, began, session, missed=began, is_created=True)
    write_account(state, name, account)


def close_account(
    state: StateDirectory, name: str, rented: Sequence[str], is_gone: bool = True
) -> None:
    """Enter a machine's session and live runs as ended now, by its clocks.

    One that goes by another name too goes on under that one, unless the machine `is_gone`.
    """
    accounts = read_accounts(state, rented)
    if name not in accounts:
        return
    same = _names(name, accounts)
    if len(same) > 1 and not is_gone:
        return
    account, books = _newest(same[0], accounts), _books(same[0], accounts)
    ended = account.now
    # A run that was alive ended with its machine, at the latest.
    for line in account.live:
        line = msgspec.structs.replace(line, host=books, finished=ended, seen=None, state="lost")
        append_line(state.ledger, msgspec.json.encode(line))
    if account.session is not None:
        session = account.session
        over = msgspec.structs.replace(session, host=books, ended=ended.wall, finished=ended)
        append_line(state.ledger, msgspec.json.encode(SessionLine(over)))
    for other in same:
        closed = msgspec.structs.replace(accounts[other], session=None, live=())
        write_account(state, other, closed)


def _books(name: str, accounts: Mapping[str, MachineAccount]) -> str:
    """The name that a machine has in our ledger: that of before, when it was added under two."""
    before = accounts[name].same_as
    return before if before and before not in accounts else name


def _names(name: str, accounts: Mapping[str, MachineAccount]) -> list[str]:
    """Every name of a machine, that under which it is counted first."""
    firsts = counted_under(accounts)
    return [other for other, first in firsts.items() if first == firsts[name]]


def _newest(name: str, accounts: Mapping[str, MachineAccount]) -> MachineAccount:
    """What was last known of a machine, by whichever of its names."""
    same = (accounts[other] for other in _names(name, accounts))
    return max(same, key=lambda account: account.reached)


def machine_statement(
    state: StateDirectory, ledger: Ledger, name: str, rented: Sequence[str]
) -> Statement:
    """What a machine cost by now: its lines of our ledger, and its session as last known."""
    accounts = read_accounts(state, rented)
    return _statement(ledger, counted_under(accounts).get(name, name), accounts)


def _statement(ledger: Ledger, name: str, accounts: Mapping[str, MachineAccount]) -> Statement:
    if name not in accounts:
        return make_statement(ledger, (), moment_now(), name)
    account, books = _newest(name, accounts), _books(name, accounts)
    ended = [
        session
        for session in ledger.sessions(books)
        if not is_same_session(session, account.session)
    ]
    live = [msgspec.structs.replace(line, host=books) for line in account.live]
    session, now = account.session, account.now
    if account.is_gone:
        live = [msgspec.structs.replace(line, finished=now, state="lost") for line in live]
        session = session and msgspec.structs.replace(session, ended=now.wall, finished=now)
    known = make_statement(ledger, live, now, books)
    sessions = [*ended, *filter(None, (session,))]
    return Statement(sessions, known.lines.values(), now, known.problem)


def read_machines(
    state: StateDirectory, rented: Sequence[str], live: Sequence[RunEntry] = ()
) -> list[MachineCost]:
    """Every machine besides this one that cost something: those `rented` now, and ended ones.

    The first of several names of one machine is the one that it is counted under. `live` are runs
    of other hosts that share this state folder.
    """
    ledger = Ledger(state)
    ledger.poll()
    accounts = read_accounts(state, rented)
    firsts = counted_under(accounts)
    machines: list[MachineCost] = []
    for name in rented:
        statement = _statement(ledger, name, accounts)
        if name not in accounts:
            machines.append(MachineCost(name, MachineState.UNKNOWN, statement))
            continue
        account = _newest(name, accounts)
        found = MachineState.REACHED if account.missed is None else MachineState.NOT_REACHED
        if account.is_gone:
            found = MachineState.TAKEN
        same_as = "" if firsts[name] == name else firsts[name]
        machines.append(MachineCost(name, found, statement, account.reached, same_as))
    others = ledger.hosts - {host_name(), *rented, *(_books(name, accounts) for name in accounts)}
    for name in sorted(others):
        statement = make_statement(ledger, live, moment_now(), name)
        # A host with the same home shows its session itself.
        is_open = any(session.end is None for session in statement.sessions)
        found = MachineState.REACHED if is_open else MachineState.ENDED
        machines.append(MachineCost(name, found, statement))
    return machines
