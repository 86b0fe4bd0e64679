"""The books: sessions, ended runs and live ones laid on one line of time, and the money that each
of them cost.
"""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import msgspec

from runners.cost.accounting import Account, Period, apportion, local_days
from runners.cost.ledger import Ledger, RunEntry, line_of
from runners.cost.sessions import Session
from runners.cost.timeline import SECOND, Timeline
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.run import Run
from runners.state.layout import StateDirectory

_HOUR = 3600 * SECOND
_ASIDE_FOR_S = 300.0


class Spending(msgspec.Struct, frozen=True):
    """What runs, presets or days cost: dollars by name, all sessions together, and `idle` money by
    day.
    """

    runs: dict[str, Fraction]
    presets: dict[str, Fraction]
    days: dict[str, tuple[Fraction, Fraction]]
    """By local date: what was spent, and how much of that was idle."""


class Statement:
    """Everything of this host that costs or cost money, as things stand at `now`."""

    def __init__(
        self, sessions: Iterable[Session], lines: Iterable[RunEntry], now: Moment, problem: str = ""
    ) -> None:
        self.problem = problem
        self.sessions = list(sessions)
        self.lines = {line.run: line for line in lines}
        self.now = now
        moments = [now]
        for session in self.sessions:
            moments += [moment for moment in (session.start, session.end) if moment is not None]
        for line in self.lines.values():
            moments += [moment for moment in (line.began, line.finished) if moment is not None]
        self.timeline = Timeline(moments)
        self._spans = {run: line.span(self.timeline, now) for run, line in self.lines.items()}

    def span(self, run: str) -> tuple[int, int]:
        """The nanoseconds between which a run held its GPUs."""
        return self._spans[run]

    def period(self, session: Session) -> Period:
        """A session as nanoseconds and a rate."""
        start = self.timeline.place(session.start)
        end = max(start, self.timeline.place(session.end or self.now))
        return Period(start, end, session.rate, max(session.gpus, 1))

    def account(
        self, session: Session, start: int | None = None, end: int | None = None
    ) -> Account:
        """Who spent a session's money; only what lies between `start` and `end` (unix nanoseconds)
        when given.
        """
        period = self.period(session)
        start = period.start if start is None else max(start, period.start)
        end = period.end if end is None else min(end, period.end)
        holdings = (line.holding(self._spans[run], session) for run, line in self.lines.items())
        return apportion(
            msgspec.structs.replace(period, start=start, end=max(start, end)), holdings
        )

    def outside(self, line: RunEntry) -> Fraction | None:
        """What a run cost outside of every session, at its own price; None when it has none."""
        start, end = self._spans[line.run]
        covered = 0
        for session in self.sessions:
            period = self.period(session)
            covered += max(0, min(end, period.end) - max(start, period.start))
        seconds = max(0, end - start - covered)
        if line.price is None:
            return None if seconds else Fraction(0)
        return Fraction(own_rate(line)) * seconds / _HOUR

    def run_costs(self) -> dict[str, Fraction]:
        """What every run cost: its shares of sessions, and its own price outside of them; unknown
        ones are missing.
        """
        costs = {
            run: own for run, line in self.lines.items() if (own := self.outside(line)) is not None
        }
        for session in self.sessions:
            for run, share in self.account(session).shares.items():
                costs[run] = costs.get(run, Fraction(0)) + share
        return costs

    def spending(self) -> Spending:
        """All money by run, by preset and by local day, over every session."""
        runs = self.run_costs()
        presets: dict[str, Fraction] = {}
        for run, amount in runs.items():
            preset = self.lines[run].preset or self.lines[run].name
            presets[preset] = presets.get(preset, Fraction(0)) + amount
        days: dict[str, tuple[Fraction, Fraction]] = {}
        for session in self.sessions:
            period = self.period(session)
            for day, start, end in local_days(period.start, period.end):
                part = self.account(session, start, end)
                spent, idle = days.get(day, (Fraction(0), Fraction(0)))
                days[day] = (spent + part.total, idle + part.idle)
        return Spending(runs, presets, dict(sorted(days.items())))


def own_rate(line: RunEntry) -> Decimal:
    """Dollars per hour of a run at its own price; a run on the CPU counts as one GPU."""
    if line.price is None:
        return Decimal(0)
    rate = Decimal(line.price.usd_per_hour)
    return rate * max(len(line.gpus), 1) if line.price.per == "gpu" else rate


def open_statement(
    state: StateDirectory, live: Iterable[Run], now: Moment | None = None
) -> Statement:
    """The books of this host: its ledger, and the `live` runs beside it."""
    ledger = Ledger(state)
    ledger.poll()
    return _statement(ledger, live, now or moment_now())


def _statement(ledger: Ledger, live: Iterable[Run], now: Moment) -> Statement:
    lines = {run: line for run, line in ledger.runs.items() if line.host == host_name()}
    for run in live:
        line = line_of(run)
        # A run whose end the ledger has is not live any more, whatever was read a moment before.
        if line is not None and line.host == host_name() and run.id not in lines:
            lines[run.id] = line
    damaged = f"{ledger.damaged} lines of the ledger cannot be read" if ledger.damaged else ""
    return Statement(ledger.sessions(), lines.values(), now, ledger.problem or damaged)


class LiveAccount:
    """The open session's account, kept up from moment to moment at little cost, for a panel that
    looks every second.
    """

    def __init__(self, state: StateDirectory) -> None:
        self._ledger = Ledger(state)
        self._key: object = None
        self._books: Statement | None = None
        self._until = 0
        self._account: Account | None = None

    def account(self, session: Session, runs: Iterable[Run], now: Moment) -> Account:
        """The session's account at `now`: what has passed is added up once, what is going on is
        added to it.
        """
        live = [run for run in runs if run.is_live and run.begin is not None]
        grown = self._ledger.poll()
        key = (session, tuple((run.id, run.begin) for run in live))
        old = self._books is None or self._account is None
        if old or grown or key != self._key or (self._books and _is_old(self._books.now, now)):
            self._key, self._books = key, _statement(self._ledger, live, now)
            period = self._books.period(session)
            self._until, self._account = period.end, self._books.account(session)
            return self._account
        assert self._books is not None and self._account is not None
        timeline = self._books.timeline
        period = self._books.period(session)
        since = Period(self._until, max(self._until, timeline.place(now)), period.rate, period.gpus)
        lines = [line for run in live if (line := line_of(run)) is not None]
        holdings = (line.holding(line.span(timeline, now), session) for line in lines)
        return add(self._account, apportion(since, holdings))


def _is_old(then: Moment, now: Moment) -> bool:
    return then.boot != now.boot or abs(now.wall - then.wall) > _ASIDE_FOR_S


def add(first: Account, second: Account) -> Account:
    """Two accounts of one session, one after the other, as one."""
    shares, hours = dict(first.shares), dict(first.gpu_hours)
    for run, share in second.shares.items():
        shares[run] = shares.get(run, Fraction(0)) + share
    for run, amount in second.gpu_hours.items():
        hours[run] = hours.get(run, Fraction(0)) + amount
    return Account(first.total + second.total, shares, first.idle + second.idle, hours)
