"""What runs cost: the one answer for the run list, the meter, statements and curves.

In a session a run pays its share of the machine, whatever price it was launched at; outside all
sessions nothing is paid, and its own price says only what that time would cost. A projection rests
on the run's pace after two epochs, before that on its estimate, else on the time that its progress
says is left. One that comes to far more than was expected is an overrun, and reported once.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path

import msgspec

from runners.cost.accounting import Account, to_decimal
from runners.cost.rates import HOUR_NS, device_count, exact_rate, money
from runners.cost.sessions import Session
from runners.cost.statement import Statement
from runners.host.clock import Moment
from runners.host.files import append_event, create_once
from runners.model.plan import Estimate
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.watch.metrics.epoch_timing import EpochTiming, EpochTimingReader, read_epoch_timing

_PACED_AFTER = 2  # epochs; then a run's own pace says more than what was expected of it
FACTOR = Decimal("1.5")


class ProjectionBasis(str, Enum):
    """What a projection rests on."""

    PACE = "pace"
    ESTIMATE = "estimate"
    GUARD = "guard"
    LIMIT = "limit"


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
        if not run.is_live or run.state is State.STOPPING:
            return known  # it does not come to the end that its pace or estimate tells
        # The run's own epochs come first; the ETA of its output is the program's guess.
        left = timing.remaining_s(self.now.wall)
        left = eta_s if left is None else left
        known = msgspec.structs.replace(known, remaining_s=left)
        expected = None if pace is not None or run.plan is None else run.plan.forecast
        if rate and expected is not None and expected.usd and (epoch or 0) <= _PACED_AFTER:
            projected, basis = round(Decimal(expected.usd), 6), ProjectionBasis.ESTIMATE
        elif left is not None and known.cost is not None:
            projected, basis = known.cost + round(money(rate, left), 6), ProjectionBasis.PACE
        else:
            return known
        return msgspec.structs.replace(known, projected=projected, basis=basis)

    def _planned(self, run: Run) -> RunCost:
        """What a run that has not started yet will cost per hour, by its plan's price."""
        # A queued run holds no GPUs yet, so it costs nothing per hour.
        rate = _own_rate(run) if run.state.holds_gpus else None
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


def _six(amount: Fraction | None) -> Decimal | None:
    return None if amount is None else to_decimal(amount)


def stopped_in(cost: RunCost, left: float, by: ProjectionBasis) -> RunCost:
    """`cost` where the guard or a limit stops the run in so many seconds, before its own end."""
    if cost.would is not None:
        cost = msgspec.structs.replace(cost, would=stopped_in(cost.would, left, by))
    if cost.cost is None or cost.rate is None or cost.projected is None:
        return cost
    until = cost.cost + round(money(cost.rate, left), 6)
    if until >= cost.projected:
        return cost
    return msgspec.structs.replace(cost, projected=until, basis=by, remaining_s=left)


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


class Overrun(msgspec.Struct, frozen=True):
    """What a run will cost at its current pace and what was expected: US dollars as decimal text.

    `text` is the sentence that says so, `time` when it was written down (unix seconds).
    """

    will: str
    expected: str
    text: str
    time: float = 0.0


def judge_overrun(will: Decimal, expected: Estimate | None, is_paid: bool = True) -> Overrun | None:
    """The overrun of a run that `will` cost so many dollars; None within 1.5 times the estimate.

    One that is not paid for, since no session is open, would cost them.
    """
    if expected is None or expected.usd is None:
        return None
    should = Decimal(expected.usd)
    if should <= 0 or will <= FACTOR * should:
        return None
    will_or_would = "will" if is_paid else "would"
    text = (
        f"{will_or_would} cost ${will:,.2f} at its current pace: {will / should:.1f} times its "
        f"estimate of ${should:,.2f} ({expected.basis})"
    )
    return Overrun(f"{will:.6f}", f"{should:.6f}", text)


def find_overrun(run: Run, cost: RunCost) -> Overrun | None:
    """The overrun of a live run by its own epochs so far; None without any."""
    # Without a session it would cost that; it takes as much longer all the same.
    known = cost.would or cost if cost.projected is None else cost
    if not run.is_live or run.plan is None or known.projected is None or known.per_epoch is None:
        return None
    # A projection that rests on the estimate cannot contradict it.
    if known.basis is not ProjectionBasis.PACE:
        return None
    return judge_overrun(known.projected, run.plan.forecast, is_paid=known is cost)


def warn_of_overrun(state: StateDirectory, run: Run, cost: RunCost) -> Overrun | None:
    """The overrun of a live run; when it is first found, an alert of the run is written."""
    found = find_overrun(run, cost)
    if found is not None:
        with suppress(OSError):
            directory = state.run(run.id)
            written = msgspec.structs.replace(found, time=time.time())
            # Of several panels and the guard, the one that writes the file writes the alert.
            if create_once(directory.overrun, msgspec.json.encode(written)):
                append_event(directory.supervisor_events, "alert", text=found.text)
    return found
