"""What runs cost: the one answer for the run list, the meter, statements and curves.

In a session a run pays its share of the machine, whatever price it was launched at; outside all
sessions nothing is paid, and its own price says only what that time would cost. A projection rests
on the run's pace after two epochs, before that on its estimate, else on the time that its progress
says is left.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path

import msgspec

from runners.cost.accounting import Account, Period, apportion, to_decimal
from runners.cost.ledger import Ledger, RunEntry, line_of
from runners.cost.rates import HOUR_NS, device_count, exact_rate, money
from runners.cost.sessions import Session, read_session
from runners.cost.statement import Statement, make_statement
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.plan import Estimate
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run
from runners.watch.metrics.epoch_timing import EpochTiming, EpochTimingReader, read_epoch_timing

_PACED_AFTER = 2  # epochs; then a run's own pace says more than what was expected of it
_ASIDE_FOR_S = 300.0
_NEAR = 32


class ProjectionBasis(str, Enum):
    """What a projection rests on."""

    PACE = "pace"
    ESTIMATE = "estimate"


class RunCost(msgspec.Struct, frozen=True):
    """One run's money in dollars, to six places; unknown is None.

    `share` is its part of the open session, `rate` what it costs per hour now, or cost on average
    when it has ended. `projected` is what it will have cost at its end, in `remaining_s` seconds.
    """

    cost: Decimal | None = None
    share: Decimal | None = None
    rate: Decimal | None = None
    gpu_hours: Decimal | None = None
    per_epoch: Decimal | None = None
    projected: Decimal | None = None
    basis: ProjectionBasis | None = None
    remaining_s: float | None = None
    would: "RunCost | None" = None
    """What its time outside all sessions would cost at its own price; no part of any sum."""


class Costs(msgspec.Struct, frozen=True):
    """What runs cost at one moment, and the open session's account; exact."""

    now: Moment
    session: Session | None
    account: Account | None
    spent: Mapping[str, Fraction]
    rates: Mapping[str, Fraction]
    hours: Mapping[str, Fraction]
    would: Mapping[str, Fraction] = {}
    timings: Mapping[str, EpochTimingReader] = {}
    problem: str = ""

    def spent_on(self, run: Run) -> Decimal | None:
        """What a run has cost so far, without a look at its events as `of` takes one."""
        return _six(self.spent.get(run.id)) if run.id in self.hours else None

    def of(self, run: Run, eta_s: float | None = None, epoch: int | None = None) -> RunCost:
        """What a run costs; `eta_s` and `epoch` are those of its progress, where it has any."""
        if run.id not in self.hours:
            return self._planned(run)  # it has not held anything yet, or never will
        share = None if self.account is None else self.account.shares.get(run.id)
        paid = RunCost(
            _six(self.spent.get(run.id)),
            _six(share),
            _six(self.rates.get(run.id)),
            to_decimal(self.hours[run.id]),
        )
        would = RunCost(_six(self.would.get(run.id)), rate=_own_rate(run))
        if run.is_live and paid.rate is None:
            would = self._projected(run, would, eta_s, epoch)
        else:
            paid = self._projected(run, paid, eta_s, epoch)
        return msgspec.structs.replace(paid, would=would) if would.cost else paid

    def _projected(
        self, run: Run, known: RunCost, eta_s: float | None, epoch: int | None
    ) -> RunCost:
        """`known`, and what an epoch costs and the whole run will have cost, by its rate."""
        rate = known.rate
        if rate is None or (not run.is_live and not rate):
            return known
        timing = self._timing(run)
        pace = timing.seconds_per_epoch
        if pace is not None:
            known = msgspec.structs.replace(known, per_epoch=round(money(rate, pace), 6))
        if not run.is_live:
            return known
        # The run's own epochs come first; the ETA of its output is the program's guess.
        left = timing.remaining_s(self.now.wall)
        left = eta_s if left is None else left
        projected, basis = _project(run, known.cost, rate, left, pace is not None, epoch)
        return msgspec.structs.replace(known, projected=projected, basis=basis, remaining_s=left)

    def _planned(self, run: Run) -> RunCost:
        """What a run that has not started yet will cost per hour, by its plan's price."""
        # A queued run holds no GPUs yet, so it costs nothing per hour.
        rate = None if not run.is_live or run.state is State.QUEUED else _own_rate(run)
        if rate is None:
            return RunCost()
        return RunCost(rate=rate) if self.session is not None else RunCost(would=RunCost(rate=rate))

    def session_projected(self, cost: RunCost) -> Decimal | None:
        """What the open session will have cost when that run ends."""
        if self.session is None or self.account is None or cost.remaining_s is None:
            return None
        return to_decimal(self.account.total) + round(money(self.session.rate, cost.remaining_s), 6)

    def _timing(self, run: Run) -> EpochTiming:
        reader = self.timings.get(run.id)
        return reader.read() if reader else read_epoch_timing(Path(run.directory))


def _own_rate(run: Run) -> Decimal | None:
    """Dollars per hour by the price that a run was launched at; None without one."""
    plan = run.plan
    if plan is None or plan.price is None:
        return None
    return _six(exact_rate(plan.price, device_count(plan.gpus)))


def _project(
    run: Run,
    cost: Decimal | None,
    rate: Decimal,
    left: float | None,
    paced: bool,
    epoch: int | None,
) -> tuple[Decimal | None, ProjectionBasis | None]:
    expected: Estimate | None = run.plan.forecast if run.plan is not None else None
    by_estimate = not paced and (epoch or 0) <= _PACED_AFTER
    if by_estimate and rate and expected is not None and expected.usd is not None:
        return round(Decimal(expected.usd), 6), ProjectionBasis.ESTIMATE
    if left is None or cost is None:
        return None, None
    return cost + round(money(rate, left), 6), ProjectionBasis.PACE


def _six(amount: Fraction | None) -> Decimal | None:
    return None if amount is None else to_decimal(amount)


def state_of(run: Run) -> StateDirectory:
    """The state folder that a run is in."""
    return StateDirectory(Path(run.directory).parent.parent)


def costs_of(
    state: StateDirectory,
    runs: Iterable[Run],
    now: Moment | None = None,
    ids: Sequence[str] | None = None,
) -> Costs:
    """What `runs` cost at `now`; `ids`, of all runs there are, are not listed again."""
    return CostReader(state).read(runs, now, ids=ids)


def costs_in(statement: Statement, runs: Iterable[Run], everything: bool = False) -> Costs:
    """What `runs`, or `everything` there is, cost by a statement that is already open."""
    session = next((period for period in statement.sessions if period.end is None), None)
    seen = list(runs)
    live = [run.id for run in seen if run.is_live and run.id in statement.lines]
    # Ended runs that nobody asked for are only needed for the shares of the others.
    wanted = [*statement.lines] if everything else [r.id for r in seen if r.id in statement.lines]
    spent = statement.run_costs()
    would = {run: amount for run in wanted if (amount := statement.would_cost(run)) is not None}
    return Costs(
        statement.now,
        session,
        None if session is None else statement.account(session),
        spent,
        _rates(statement, spent, wanted, live),
        {run: statement.gpu_hours(run) for run in wanted},
        would,
        problem=statement.problem,
    )


def _rates(
    statement: Statement,
    spent: Mapping[str, Fraction],
    wanted: Iterable[str],
    beside: Sequence[str],
) -> dict[str, Fraction]:
    """Dollars per hour: now, for those live `beside` each other; the average, for ended ones."""
    rates = {run: rate for run in beside if (rate := statement.rate_now(run, beside)) is not None}
    for run in wanted:
        start, end = statement.span(run)
        if run not in beside and run in spent and end > start:
            rates[run] = spent[run] * HOUR_NS / (end - start)
    return rates


class CostReader:
    """Answers every second at little cost: the past is added up once, the present added to it."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._ledger: Ledger | None = None
        self._key: object = None
        self._then = Moment(0.0)
        self._statements: dict[str, Statement] = {}
        self._costs: dict[str, Costs] = {}
        self._timings: dict[str, EpochTimingReader] = {}

    def read(
        self,
        runs: Iterable[Run],
        now: Moment | None = None,
        whole: bool = False,
        ids: Sequence[str] | None = None,
    ) -> Costs:
        """What `runs`, and all that is live beside them, cost at `now`.

        The open session is accounted for only from the earliest of the runs on, unless `whole`.
        """
        now = now or moment_now()
        seen = list(runs)
        # The runs beside are needed too: whoever shares a GPU lowers the others' shares.
        everyone = {run.id: run for run in seen} | {
            run_id: read_run(self._state, run_id)
            for run_id in live_run_ids(self._state)
            if run_id not in {run.id for run in seen}
        }
        session = read_session(self._state)
        grown = self._follow_ledger(everyone.values(), session if whole else None)
        lines = {run.id: line for run in everyone.values() if (line := line_of(run)) is not None}
        live = [run for run in lines if everyone[run].is_live]
        # While nothing begins or ends, shares grow linearly, and `_advance` is exact.
        key = (
            tuple((line.run, line.began, line.finished) for line in lines.values()),
            tuple(live),
            session,
        )
        stale = grown or key != self._key or _is_old(self._then, now)
        if stale:
            self._key, self._then = key, now
            self._timings = {
                run: self._timings.get(run) or EpochTimingReader(self._state.run(run).path)
                for run in live
            }
            known = [*lines.values(), *self._lost(lines, ids)]
            self._open_statements(everyone.values(), known, now)
        own = self._costs[host_name()]
        for host, costs in self._costs.items():
            if not stale:
                statement = self._statements[host]
                running = [lines[run] for run in live if run in statement.lines]
                costs = self._advance(statement, costs, running, now)
            # A shared home shows runs of several hosts; each host has its own sessions and rates.
            own = costs if host == host_name() else _combined(own, costs)
        return msgspec.structs.replace(own, timings=self._timings)

    def _lost(self, shown: Mapping[str, RunEntry], ids: Sequence[str] | None) -> list[RunEntry]:
        """Ended runs near the shown ones whose line the ledger lost: they may have shared GPUs.

        Only the nearest by id are looked at; the `cost` command enters every lost line again.
        """
        assert self._ledger is not None
        ids = list_run_ids(self._state) if ids is None else ids
        at = sorted(bisect_left(ids, run) for run in shown)
        near = ids[max(0, at[0] - _NEAR) : at[-1] + _NEAR] if at else []
        if len(near) > len(shown) + 2 * _NEAR:
            # Around both ends: what is between them is mostly in the ledger, and may be thousands.
            near = [*near[:_NEAR], *near[-_NEAR:]]
        known = self._ledger.runs
        lost = (read_run(self._state, run) for run in near if run not in known and run not in shown)
        return [line for run in lost if (line := line_of(run)) is not None]

    def _open_statements(self, runs: Iterable[Run], lines: Iterable[RunEntry], now: Moment) -> None:
        """A statement for this host, and each other whose runs are shown, by its own sessions."""
        assert self._ledger is not None
        shown = list(runs)
        hosts = dict.fromkeys([host_name(), *(line.host for line in lines)])
        self._statements = {host: make_statement(self._ledger, lines, now, host) for host in hosts}
        self._costs = {host: costs_in(paid, shown) for host, paid in self._statements.items()}

    def course(self, run: Run) -> list[tuple[float, float]]:
        """What a run had cost when its rate changed, and now (unix s, dollars); or nothing."""
        costs = self.read([run])
        lists = (paid for paid in self._statements.values() if run.id in paid.lines)
        statement = next(lists, None)
        if statement is None or run.id not in costs.spent:
            return []
        points = [(at / 1e9, float(spent)) for at, spent in statement.course(run.id)]
        if run.is_live:
            now = statement.timeline.place(costs.now) / 1e9
            points.append((now, float(costs.spent[run.id])))
        return points

    def _follow_ledger(self, runs: Iterable[Run], session: Session | None) -> bool:
        """Read on; from further back when an older run than before is asked for."""
        begins = [run.begin.wall for run in runs if run.begin is not None]
        since = min([*begins, *([session.start.wall] if session is not None else [])], default=None)
        since = float("inf") if since is None else since
        if self._ledger is None or (self._ledger.since or 0.0) > since:
            self._ledger = Ledger(self._state, since)
            self._ledger.poll()
            return True
        return self._ledger.poll()

    def _advance(
        self, statement: Statement, base: Costs, live: list[RunEntry], now: Moment
    ) -> Costs:
        """`base`, plus what live runs have cost since."""
        timeline = statement.timeline
        start = timeline.place(base.now)
        end = max(start, timeline.place(now))
        spent, hours, would = dict(base.spent), dict(base.hours), dict(base.would)
        account = base.account
        if base.session is not None and base.account is not None:
            session = base.session
            spans = {line.run: line.span(timeline, now) for line in live}
            since = Period(start, end, session.rate, max(session.gpus, 1))
            more = apportion(since, (line.holding(spans[line.run], session) for line in live))
            # The total anew, not a sum: begun units are billed from the session's start.
            whole = msgspec.structs.replace(statement.period(session), end=end)
            account = add(base.account, more, whole.total)
            for run, share in more.shares.items():
                spent[run] = spent.get(run, Fraction(0)) + share
                hours[run] = hours.get(run, Fraction(0)) + more.gpu_hours[run]
        else:
            for line in live:
                hours[line.run] += device_count(line.gpus) * (end - start) / HOUR_NS
                if line.price is not None:
                    rate = exact_rate(line.price, device_count(line.gpus))
                    would[line.run] += rate * (end - start) / HOUR_NS
        return msgspec.structs.replace(
            base,
            now=now,
            account=account,
            spent=spent,
            hours=hours,
            would=would,
        )


def _combined(own: Costs, other: Costs) -> Costs:
    """The costs of two hosts; session and account are those of this one."""
    return msgspec.structs.replace(
        own,
        spent={**other.spent, **own.spent},
        rates={**other.rates, **own.rates},
        hours={**other.hours, **own.hours},
        would={**other.would, **own.would},
    )


def _is_old(then: Moment, now: Moment) -> bool:
    # Now and then from scratch, so that a clock that was corrected meanwhile is taken into account.
    return then.boot != now.boot or abs(now.wall - then.wall) > _ASIDE_FOR_S


def add(first: Account, second: Account, total: Fraction) -> Account:
    """Two successive accounts of one session as one whose total is `total`."""
    shares, hours = dict(first.shares), dict(first.gpu_hours)
    for run, share in second.shares.items():
        shares[run] = shares.get(run, Fraction(0)) + share
    for run, amount in second.gpu_hours.items():
        hours[run] = hours.get(run, Fraction(0)) + amount
    return Account(total, shares, total - sum(shares.values(), Fraction(0)), hours)


class CostCurve:
    """What one run had cost by each moment (unix seconds, dollars), read once a second."""

    def __init__(self, state: StateDirectory) -> None:
        self._reader = CostReader(state)
        self._read_at = float("-inf")
        self._points: list[tuple[float, float]] = []

    def __call__(self, run: Run) -> list[tuple[float, float]]:
        """The points of its curve so far, joined by straight lines; empty when unknown."""
        now = time.monotonic()
        # An ended run is asked about when something has changed, and not every moment.
        if now - self._read_at >= 1.0 or not run.is_live:
            self._read_at = now
            self._points = self._reader.course(run)
        return self._points
