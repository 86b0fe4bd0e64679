"""The statement: sessions, ended runs and live ones on one timeline, and what each of them cost."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate

import msgspec

from runners.cost.accounting import (
    Account,
    Period,
    add_fractions,
    apportion,
    idle_of_cards,
    local_days,
)
from runners.cost.ledger import Ledger, RunEntry, enter_lines, line_of, unlisted_lines
from runners.cost.rates import HOUR_NS, SECOND_NS, device_count, exact_rate
from runners.cost.sessions import Session
from runners.cost.timeline import Timeline
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.run import Run
from runners.model.units import counted
from runners.state.boundary import cannot_be_read
from runners.state.layout import StateDirectory


class Spending(msgspec.Struct, frozen=True):
    """What runs, presets and days cost: dollars by name, all sessions together."""

    runs: dict[str, Fraction]
    presets: dict[str, Fraction]
    days: dict[str, tuple[Fraction, Fraction]]
    """By local date: what was spent, and how much of that was idle."""


class Statement:
    """Everything of this host that costs or cost money, as of `now`."""

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
            known = (line.began, line.finished, line.seen)
            moments += [moment for moment in known if isinstance(moment, Moment)]
        self.timeline = Timeline(moments)
        self._spans: dict[str, tuple[int, int]] = {}
        self._place_runs()
        # By start, with the latest end so far: finds the runs in a window without a search.
        self._ordered = sorted(self._spans, key=lambda run: self._spans[run])
        self._starts = [self._spans[run][0] for run in self._ordered]
        self._latest = list(accumulate((self._spans[run][1] for run in self._ordered), max))
        self._periods = [self.period(session) for session in self.sessions]
        pairs = zip(self.sessions, self._periods, strict=True)
        self._by_start = sorted(pairs, key=lambda pair: pair[1].start)
        self._session_starts = [period.start for _, period in self._by_start]
        self._session_ends = list(accumulate((period.end for _, period in self._by_start), max))
        self._accounts: dict[str, Account] = {}
        self._spent: dict[str, Fraction] | None = None

    def _place_runs(self) -> None:
        """Place every run on the timeline; one whose entry raises is left out, and said."""
        for run, line in [*self.lines.items()]:
            try:
                self._spans[run] = line.span(self.timeline, self.now)
            except Exception as error:  # the boundary: the sums over all others go on
                del self.lines[run]
                sentence = cannot_be_read(run, error)
                self.problem = f"{self.problem}; {sentence}" if self.problem else sentence

    def span(self, run: str) -> tuple[int, int]:
        """The nanoseconds between which a run held its GPUs."""
        return self._spans[run]

    def period(self, session: Session) -> Period:
        """A session as nanoseconds and a rate."""
        start = self.timeline.place(session.start)
        end = max(start, self.timeline.place(session.end or self.now))
        price = session.price
        return Period(
            start,
            end,
            session.rate,
            max(session.gpus, 1),
            price.unit_s * SECOND_NS,
            price.minimum_s * SECOND_NS,
        )

    def _sessions_within(self, start: int, end: int) -> list[tuple[Session, Period]]:
        first = bisect_right(self._session_ends, start)
        last = bisect_left(self._session_starts, end)
        return self._by_start[first:last]

    def within(self, start: int, end: int) -> list[RunEntry]:
        """The runs that held something between two moments (unix nanoseconds)."""
        first, last = bisect_right(self._latest, start), bisect_left(self._starts, end)
        runs = (self._ordered[i] for i in range(first, last))
        found = [self.lines[run] for run in runs if self._spans[run][1] > start]
        return [line for line in found if not line.is_paid]

    def account(self, session: Session) -> Account:
        """Who spent a session's money."""
        # Accounts are kept by id; sessions in old files have none, and could be mistaken.
        if session.id not in self._accounts or not session.id:
            self._accounts[session.id] = self._apportion(session, self.period(session))
        return self._accounts[session.id]

    def _apportion(self, session: Session, period: Period) -> Account:
        lines = self.within(period.start, period.end)
        return apportion(period, (line.holding(self._spans[line.run], session) for line in lines))

    def days(self, session: Session) -> list[tuple[str, Fraction, Fraction]]:
        """What a session cost on each local day, and idle; the last bears what is billed beyond."""
        whole, account = self.period(session), self.account(session)
        plain = msgspec.structs.replace(whole, unit=0, minimum=0)
        *before, last = local_days(whole.start, whole.end) or [("", 0, 0)]
        days = []
        for day, start, end in before:
            window = msgspec.structs.replace(plain, start=start, end=end)
            days.append((day, window.total, self._idle(session, window)))
        if last[0]:
            # The last day gets what the others leave: so the days add up to the session.
            spent = account.total - add_fractions(total for _, total, _ in days)
            idle = account.idle - add_fractions(idle for _, _, idle in days)
            days.append((last[0], spent, idle))
        return days

    def _idle(self, session: Session, window: Period) -> Fraction:
        lines = self.within(window.start, window.end)
        found = idle_of_cards(
            window, (line.holding(self._spans[line.run], session) for line in lines)
        )
        return self._apportion(session, window).idle if found is None else found

    def would_cost(self, run: str) -> Fraction | None:
        """What a run's time outside all sessions would cost at its own price; None: it has none.

        Nobody paid that: it is no part of any sum.
        """
        line, (start, end) = self.lines[run], self._spans[run]
        if line.price is None or line.is_paid:
            return None
        nanoseconds = max(0, end - start - self._covered(start, end))
        return exact_rate(line.price, device_count(line.gpus)) * nanoseconds / HOUR_NS

    def _covered(self, start: int, end: int) -> int:
        """For how many nanoseconds between two moments a session was open."""
        at = bisect_right(self._session_starts, start) - 1
        if at >= 0 and self._by_start[at][1].end >= end:
            return end - start  # wholly in one session, as nearly all are
        return sum(
            max(0, min(end, period.end) - max(start, period.start))
            for _, period in self._sessions_within(start, end)
        )

    def _has_session(self, run: str) -> bool:
        """Whether a session was open for a part of a run, or at the moment of one of no length."""
        start, end = self._spans[run]
        periods = (period for _, period in self._sessions_within(start, max(end, start + 1)))
        return any(
            period.start <= start < period.end or start < period.start < end for period in periods
        )

    def session_shares(self) -> dict[str, Fraction]:
        """What every run cost of the sessions, all of them together."""
        amounts: dict[str, list[Fraction]] = {}
        for session in self.sessions:
            for run, share in self.account(session).shares.items():
                amounts.setdefault(run, []).append(share)
        return {run: add_fractions(shares) for run, shares in amounts.items()}

    def run_costs(self) -> dict[str, Fraction]:
        """What every run cost of the sessions that it was in; a run outside all of them lacks."""
        if self._spent is None:
            costs = {run: Fraction(0) for run in self.lines if self._has_session(run)}
            jobs = {run: self._job_cost(line) for run, line in self.lines.items() if line.is_paid}
            self._spent = {**costs, **self.session_shares(), **jobs}
        return self._spent

    def _job_cost(self, line: RunEntry) -> Fraction:
        """What a cluster charges for a job: what it was given, for as long as it had it."""
        assert line.price is not None
        return exact_rate(line.price, device_count(line.gpus)) * self._held(line.run) / HOUR_NS

    def _held(self, run: str) -> int:
        """For how many nanoseconds a job was not waiting."""
        start, end = self._spans[run]
        return max(0, end - start - round(self.lines[run].waited * SECOND_NS))

    def gpu_hours(self, run: str) -> Fraction:
        """The GPU hours that a run used; of a GPU that several share in a session, its part."""
        if self.lines[run].is_paid:
            return device_count(self.lines[run].gpus) * self._held(run) / HOUR_NS
        hours = Fraction(0)
        start, end = self._spans[run]
        for session, _ in self._sessions_within(start, end):
            hours += self.account(session).gpu_hours.get(run, Fraction(0))
        devices = device_count(self.lines[run].gpus)
        return hours + devices * max(0, end - start - self._covered(start, end)) / HOUR_NS

    def spending(self) -> Spending:
        """All money by run, by preset and by local day, over every session."""
        runs = self.run_costs()
        amounts: dict[str, list[Fraction]] = {}
        for run, amount in runs.items():
            preset = self.lines[run].preset or self.lines[run].name
            amounts.setdefault(preset, []).append(amount)
        presets = {preset: add_fractions(found) for preset, found in amounts.items()}
        days: dict[str, tuple[Fraction, Fraction]] = {}
        parts = [part for session in self.sessions for part in self.days(session)]
        for run, line in self.lines.items():
            parts += self._job_days(run, runs[run]) if line.is_paid else ()
        for day, spent, idle in parts:
            before = days.get(day, (Fraction(0), Fraction(0)))
            days[day] = (before[0] + spent, before[1] + idle)
        return Spending(runs, presets, dict(sorted(days.items())))

    def _job_days(self, run: str, amount: Fraction) -> list[tuple[str, Fraction, Fraction]]:
        """What of the money of a job falls on each local day of its time; none was idle."""
        start, end = self._spans[run]
        return [
            (day, amount * (until - since) / (end - start), Fraction(0))
            for day, since, until in local_days(start, end)
        ]

    def rate_now(self, run: str, live: Iterable[str]) -> Fraction | None:
        """Dollars per hour of a live run now, beside those that are `live`; None: no session."""
        line = self.lines[run]
        if line.price is not None and line.is_paid:
            waits = line.finished is not None
            return Fraction(0) if waits else exact_rate(line.price, device_count(line.gpus))
        session = next((other for other in self.sessions if other.end is None), None)
        if session is None:
            return None
        # One hour in which nothing changes: the shares of it are the rates of now.
        hour = Period(0, HOUR_NS, session.rate, max(session.gpus, 1))
        beside = [self.lines[other] for other in live if other in self.lines]
        beside = [line for line in beside if not line.is_paid]
        account = apportion(hour, (other.holding((0, HOUR_NS), session) for other in beside))
        return account.shares.get(run, Fraction(0))

    def course(self, run: str) -> list[tuple[int, Fraction]]:
        """What a run had cost by each moment (unix nanoseconds) at which its rate changed."""
        start, end = self._spans[run]
        if self.lines[run].is_paid:
            return [(start, Fraction(0)), (end, self._job_cost(self.lines[run]))]
        moments = {start, end}
        for other in self.within(start, end):
            moments.update(at for at in self._spans[other.run] if start < at < end)
        for period in self._periods:
            moments.update(at for at in (period.start, period.end) if start < at < end)
        spent, points, before = Fraction(0), [(start, Fraction(0))], start
        for moment in sorted(moments)[1:]:
            spent += self._between(self.lines[run], before, moment)
            points.append((moment, spent))
            before = moment
        return points

    def _between(self, line: RunEntry, start: int, end: int) -> Fraction:
        """What a run cost between two moments, between which nothing begins or ends."""
        for session, period in zip(self.sessions, self._periods, strict=True):
            if period.start <= start and end <= period.end:
                window = Period(start, end, period.rate, period.gpus)
                return self._apportion(session, window).shares.get(line.run, Fraction(0))
        return Fraction(0)


def open_statement(
    state: StateDirectory, live: Iterable[Run], now: Moment | None = None
) -> Statement:
    """The statement of this host: its ledger, `live` runs, and lost lines, entered again."""
    ledger = Ledger(state)
    ledger.poll()
    lost = [] if ledger.problem else unlisted_lines(state, ledger)
    enter_lines(state, lost)
    lines = [*(line_of(run) for run in live), *lost]
    return make_statement(ledger, [line for line in lines if line], now or moment_now())


def make_statement(
    ledger: Ledger, more: Iterable[RunEntry], now: Moment, host: str | None = None
) -> Statement:
    """A statement of what a ledger has on a host (this one), and of lines that it lacks."""
    host = host or host_name()
    is_here = host == host_name()

    def is_part(line: RunEntry) -> bool:
        # Nobody but who submits a cluster's job has its ledger: it is paid wherever it ran.
        return is_here if line.is_paid else line.host == host

    lines = {run: line for run, line in ledger.runs.items() if is_part(line)}
    for line in more:
        # A run whose end is in the ledger is not live, although it was a moment ago.
        if is_part(line) and line.run not in lines:
            lines[line.run] = line
    lines_text = counted(ledger.damaged, "line")
    damaged = f"{lines_text} of the ledger cannot be read" if ledger.damaged else ""
    return Statement(ledger.sessions(host), lines.values(), now, ledger.problem or damaged)
