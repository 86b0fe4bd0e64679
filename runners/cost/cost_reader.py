"""Reads what runs cost, every second at little cost, from the ledger, the runs and the session."""

import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from runners.cost.accounting import Account, Period, added, apportion
from runners.cost.ledger import Ledger, RunEntry, line_of
from runners.cost.rates import HOUR_NS, device_count, exact_rate
from runners.cost.run_costs import Costs, costs_in
from runners.cost.sessions import Session, read_session
from runners.cost.statement import Statement, make_statement
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run
from runners.watch.metrics.epoch_timing import EpochTimingReader

_ASIDE_FOR_S = 300.0
_NEAR = 32


def costs_of(
    state: StateDirectory,
    runs: Iterable[Run],
    now: Moment | None = None,
    ids: Sequence[str] | None = None,
) -> Costs:
    """What `runs` cost at `now`; `ids`, of all runs there are, are not listed again."""
    return CostReader(state).read(runs, now, ids=ids)


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
        unbegun: Collection[str] = (),
    ) -> Costs:
        """What `runs`, and all that is live beside them but the `unbegun`, cost at `now`.

        The open session is accounted for only from the earliest of the runs on, unless `whole`.
        """
        now = now or moment_now()
        seen = list(runs)
        # The runs beside are needed too: whoever shares a GPU lowers the others' shares.
        everyone = {run.id: run for run in seen}
        for run_id in live_run_ids(self._state):
            if run_id not in everyone and run_id not in unbegun:
                everyone[run_id] = read_run(self._state, run_id)
        session = read_session(self._state)
        grown = self._follow_ledger(everyone.values(), session if whole else None)
        lines = {run.id: line for run in everyone.values() if (line := line_of(run)) is not None}
        live = [run for run in lines if everyone[run].is_live]
        # While nothing begins or ends, shares grow linearly, and `_advance` is exact.
        key = (
            tuple((line.run, line.began, line.finished, line.waited) for line in lines.values()),
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
        """Ended runs near the shown ones whose line the ledger lost: they may have shared GPUs."""
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
        for line in live:
            if line.price is not None and line.is_paid and line.finished is None:
                devices = device_count(line.gpus)
                hours[line.run] += devices * (end - start) / HOUR_NS
                spent[line.run] += exact_rate(line.price, devices) * (end - start) / HOUR_NS
        live = [line for line in live if not line.is_paid]
        if base.session is not None and base.account is not None:
            session = base.session
            spans = {line.run: line.span(timeline, now) for line in live}
            since = Period(start, end, session.rate, max(session.gpus, 1))
            more = apportion(since, (line.holding(spans[line.run], session) for line in live))
            # The total anew, not a sum: begun units are billed from the session's start.
            whole = msgspec.structs.replace(statement.period(session), end=end)
            account = add(base.account, more, whole.total)
            spent, hours = added(spent, more.shares), added(hours, more.gpu_hours)
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
    shares = added(first.shares, second.shares)
    hours = added(first.gpu_hours, second.gpu_hours)
    idle, lasted = total - sum(shares.values(), Fraction(0)), first.lasted + second.lasted
    return Account(total, shares, idle, hours, lasted)


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
