"""`cost`: what is being spent, by whom, and until when the budget lasts."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from runners.cost.accounting import Account, round_to_cents, to_decimal
from runners.cost.meter import Meter, cents, money, read_meter
from runners.cost.overrun import Overrun, warn_of_overrun
from runners.cost.sessions import Session, is_damaged, read_session
from runners.cost.statement import Spending, Statement, open_statement
from runners.guard.rule import GuardView, read_guard
from runners.host.clock import Moment, moment_now
from runners.model.errors import ExitCode, WrongInput
from runners.model.plan import Estimate
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from runners.watch.metrics.epoch_timing import read_epoch_timing
from tui.cli.output import print_json, print_pairs, print_table, say
from tui.views.format import dollars, duration
from tui.views.run_view import RunView, iso, view_run

_SHOWN_ENDED = 20
_ESTIMATED_EPOCHS = 2  # then a run's own pace says more than what was expected of it


class RunMoney(msgspec.Struct, frozen=True):
    """One run's money: dollars, unknown is None; `share` is its part of the open session."""

    view: RunView
    cost: Decimal | None
    share: Decimal | None
    gpu_hours: Decimal | None
    per_epoch: Decimal | None
    projected: Decimal | None
    by_estimate: bool
    session_then: Decimal | None
    estimate: Estimate | None
    overrun: Overrun | None


def run_cost(arguments: argparse.Namespace) -> int:
    """Show the meter, each run's share, and what presets and days cost."""
    if arguments.what == "plan":
        from tui.cli.cost_plan import run_plan

        return run_plan(arguments)
    if arguments.what == "export":
        from tui.cli.cost_export import run_export

        return run_export(arguments)
    if arguments.words or arguments.budget is not None:
        raise WrongInput(
            "cost: only `cost plan` takes presets and a budget",
            "fresnel-tui session budget --budget 100 sets a budget",
        )
    state, now = StateDirectory(), moment_now()
    runs = list_runs(state, _SHOWN_ENDED)
    books = open_statement(state, [run for run in runs if run.is_live], now)
    session = read_session(state)
    account = None if session is None else books.account(session)
    meter = read_meter(runs, session, now, account)
    spending = books.spending()
    views = [view_run(run, now=now.wall) for run in runs]
    rows = [_money_of(state, view, books, spending, account, meter, now) for view in views]
    guard = read_guard(state)
    if arguments.json:
        print_json(_json(meter, session, account, rows, books, spending, guard))
        return ExitCode.DONE
    print_pairs(session_pairs(meter, session, now, guard))
    if is_damaged(state):
        say(
            f"{state.session} cannot be read: its session is not counted; `fresnel-tui "
            "session start` begins a new one"
        )
    if books.problem:
        say(f"{books.problem}: what is there is not counted")
    _print_runs(rows, account)
    _print_sums(spending)
    _print_sessions(books)
    return ExitCode.DONE


def _money_of(
    state: StateDirectory,
    view: RunView,
    books: Statement,
    spending: Spending,
    account: Account | None,
    meter: Meter,
    now: Moment,
) -> RunMoney:
    run, directory = view.run, state.run(view.run.id)
    line = books.lines.get(run.id)
    cost = spending.runs.get(run.id)
    rhythm = read_epoch_timing(directory.path)
    expected = run.plan.forecast if run.plan is not None else None
    per_epoch = None
    if view.rate is not None and rhythm.seconds_per_epoch is not None:
        per_epoch = money(view.rate, rhythm.seconds_per_epoch)
    left = (rhythm.remaining_s(now.wall) or view.progress.eta_s) if run.is_live else None
    paced = rhythm.seconds_per_epoch is not None or (view.progress.epoch or 0) > _ESTIMATED_EPOCHS
    by_estimate = run.is_live and not paced and expected is not None and expected.usd is not None
    projected = Decimal(expected.usd) if by_estimate and expected and expected.usd else None
    if projected is None and left is not None and view.rate is not None and view.cost is not None:
        projected = view.cost + money(view.rate, left)
    return RunMoney(
        view=view,
        cost=view.cost if cost is None else to_decimal(cost),
        share=None
        if account is None or run.id not in account.shares
        else to_decimal(account.shares[run.id]),
        gpu_hours=None if line is None else to_decimal(_gpu_hours(books, run.id)),
        per_epoch=per_epoch,
        projected=projected,
        by_estimate=by_estimate,
        session_then=None
        if meter.session is None or meter.per_hour is None or left is None
        else meter.session + money(meter.per_hour, left),
        estimate=expected,
        overrun=warn_of_overrun(state, run, now),
    )


def _gpu_hours(books: Statement, run: str) -> Fraction:
    line = books.lines[run]
    start, end = books.span(run)
    return Fraction((end - start) * len(line.gpus), 3600 * 10**9)


def session_pairs(
    meter: Meter, session: Session | None, now: Moment, guard: GuardView
) -> list[tuple[str, str]]:
    """The meter as names and values, for `cost` and `session`."""
    pairs = [
        (
            "now",
            f"{dollars(meter.per_hour)}/h" + (" (estimate)" if meter.per_hour is not None else ""),
        )
    ]
    if session is not None:
        idle = "" if meter.idle is None else f" (idle {dollars(meter.idle)})"
        pairs.append(
            ("session", f"{dollars(meter.session)} in {duration(session.seconds(now))}{idle}")
        )
        where = " ".join(filter(None, (session.provider, session.instance)))
        pairs += [("machine", where)] if where else []
    if session is not None and session.budget is not None and meter.budget_left is not None:
        pairs.append(("budget", _budget_words(Decimal(session.budget), meter, now)))
    pairs.append(("live runs", dollars(meter.live_runs)))
    pairs.append(("basis", meter.basis))
    if session is not None and session.stopping:
        pairs.append(("stopping", session.stopping))
    return [*pairs, *([("guard", guard.words(now))] if guard.words(now) else [])]


def _budget_words(budget: Decimal, meter: Meter, now: Moment) -> str:
    left = meter.budget_left or Decimal(0)
    if left <= 0:
        return f"{dollars(budget)} used up, {dollars(-left)} over it"
    if meter.until is None:
        return f"{dollars(left)} left of {dollars(budget)}"
    until = datetime.fromtimestamp(meter.until)
    return (
        f"{dollars(left)} left of {dollars(budget)}, until {until:%a %H:%M} (lasts "
        f"{duration(meter.until - now.wall)})"
    )


def _print_runs(rows: Sequence[RunMoney], account: Account | None) -> None:
    costly = [
        row for row in rows if row.cost is not None and (account is None or row.share is not None)
    ]
    if not costly:
        return
    shown = (
        {}
        if account is None
        else round_to_cents(account.total, {**account.shares, "": account.idle})
    )
    headings = (
        "run",
        "state",
        "time",
        "$/h",
        "cost" if account is None else "share",
        "per epoch",
        "at its end",
    )
    table = [
        (
            row.view.run.id,
            str(row.view.run.state),
            duration(row.view.seconds),
            dollars(row.view.rate),
            dollars(shown.get(row.view.run.id, row.cost)),
            dollars(row.per_epoch),
            dollars(row.projected) + (" est." if row.by_estimate else ""),
        )
        for row in costly
    ]
    if account is not None:
        others = sum(
            (
                shown[run]
                for run in account.shares
                if run not in {row.view.run.id for row in costly}
            ),
            Decimal(0),
        )
        if others:
            table.append(("earlier runs", "", "", "", dollars(others), "", ""))
        table.append(("idle: held by no run", "", "", "", dollars(shown[""]), "", ""))
        table.append(("session", "", "", "", dollars(to_decimal(account.total, 2)), "", ""))
    print()
    print_table(headings, table)
    for row in costly:
        if row.session_then is not None:
            say(
                f"{row.view.run.id}: at its end the session will have cost "
                f"{dollars(row.session_then)}"
            )
        if row.overrun is not None:
            say(f"{row.view.run.id} {row.overrun.text}")


def _print_sums(spending: Spending) -> None:
    if spending.presets:
        print()
        print_table(
            ("preset", "cost"),
            [(name, dollars(to_decimal(sum_))) for name, sum_ in spending.presets.items()],
        )
    if spending.days:
        print()
        rows = [
            (day, dollars(to_decimal(s)), dollars(to_decimal(i)))
            for day, (s, i) in spending.days.items()
        ]
        print_table(("day", "spent", "idle"), rows)


def _print_sessions(books: Statement) -> None:
    """Every session, once there are several."""
    if len(books.sessions) < 2:
        return
    rows = []
    for session in books.sessions:
        account = books.account(session)
        how_long = duration(session.seconds(books.now)) + (", open" if session.end is None else "")
        money_of = (
            dollars(session.rate),
            dollars(to_decimal(account.total)),
            dollars(to_decimal(account.idle)),
        )
        rows.append((session.id, how_long, *money_of))
    print()
    print_table(("session", "time", "$/h", "cost", "idle"), rows)


def _json(
    meter: Meter,
    session: Session | None,
    account: Account | None,
    rows: Sequence[RunMoney],
    books: Statement,
    spending: Spending,
    guard: GuardView,
) -> dict[str, Any]:
    return {
        **meter_json(meter, session),
        "runs": [_run_json(row) for row in rows],
        "presets": {name: number(to_decimal(amount)) for name, amount in spending.presets.items()},
        "days": [
            {"day": day, "usd": number(to_decimal(spent)), "idle_usd": number(to_decimal(idle))}
            for day, (spent, idle) in spending.days.items()
        ],
        "sessions": [session_json(one, books) for one in books.sessions],
        "guard": guard.to_json(),
    }


def _run_json(row: RunMoney) -> dict[str, Any]:
    run = row.view.run
    return {
        "id": run.id,
        "preset": run.preset,
        "state": str(run.state),
        "cost_usd": number(row.cost),
        "share_usd": number(row.share),
        "gpu_hours": None if row.gpu_hours is None else float(row.gpu_hours),
        "usd_per_epoch": None if row.per_epoch is None else float(round(row.per_epoch, 6)),
        "projected_usd": number(row.projected),
        "projected_by": None
        if row.projected is None
        else "estimate"
        if row.by_estimate
        else "its own pace",
        "session_at_its_end_usd": number(row.session_then),
        "estimate": None if row.estimate is None else forecast_json(row.estimate),
        "overrun": None if row.overrun is None else row.overrun.text,
    }


def meter_json(meter: Meter, session: Session | None) -> dict[str, Any]:
    """The meter and the open session."""
    return {
        "usd_per_hour": number(meter.per_hour),
        "session_usd": number(meter.session),
        "session_started": iso(session.started) if session else None,
        "idle_usd": number(meter.idle),
        "live_runs_usd": number(meter.live_runs),
        "budget_usd": None if session is None or session.budget is None else float(session.budget),
        "budget_left_usd": number(meter.budget_left),
        "budget_lasts_until": iso(meter.until),
        "basis": meter.basis,
        "price_source": session.price.source or None if session else None,
        "price_date": session.price.date or None if session else None,
        "price_is_old": meter.old_price or None,
        "provider": session.provider or None if session else None,
        "instance": session.instance or None if session else None,
        "stopping": session.stopping or None if session else None,
    }


def session_json(session: Session, books: Statement) -> dict[str, Any]:
    """One session, open or ended, with its money."""
    account = books.account(session)
    end = session.end
    return {
        "id": session.id,
        "started": iso(session.started),
        "ended": None if end is None else iso(end.wall),
        "gpus": session.gpus,
        "usd_per_hour": number(session.rate),
        "usd": number(to_decimal(account.total)),
        "idle_usd": number(to_decimal(account.idle)),
        "gpu_hours": float(to_decimal(sum(account.gpu_hours.values(), Fraction(0)))),
    }


def forecast_json(expected: Estimate) -> dict[str, Any]:
    """An estimate before launch."""
    return {
        "seconds": expected.seconds,
        "usd": None if expected.usd is None else float(Decimal(expected.usd)),
        "basis": expected.basis,
        "doubt": expected.doubt or None,
    }


def number(amount: Decimal | None) -> float | None:
    """Dollars in JSON: a number with two places."""
    return None if amount is None else float(cents(amount))
