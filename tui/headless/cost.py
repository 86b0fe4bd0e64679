"""`cost` and `session`."""

import argparse
import time
from decimal import Decimal

from runners.cost.meter import Meter, cents, read_meter
from runners.cost.prices import parse_rate
from runners.cost.sessions import Session, end_session, read_session, start_session
from runners.lifecycle.store import list_runs
from runners.model.errors import ExitCode, WrongInput
from runners.model.paths import StateDirectory
from runners.placement.reading import read_gpus
from tui.format import dollars, duration
from tui.headless.output import print_json, print_pairs, print_table, say
from tui.overview import Overview, iso, look_at

_SHOWN_ENDED = 20


def run_cost(arguments: argparse.Namespace) -> int:
    """Show the meter and each run's share."""
    state, now = StateDirectory(), time.time()
    runs = list_runs(state, _SHOWN_ENDED)
    session = read_session(state)
    meter = read_meter(runs, session, now)
    views = [look_at(run, now=now) for run in runs]
    if arguments.json:
        print_json(_json(meter, session, views))
        return ExitCode.DONE
    print_pairs(_pairs(meter, session, now))
    costly = [view for view in views if view.cost is not None]
    if costly:
        print()
        headings = ("run", "state", "time", "$/h", "cost", "at its end")
        print_table(headings, [_row(view) for view in costly])
    return ExitCode.DONE


def run_session(arguments: argparse.Namespace) -> int:
    """Start, show or end the session."""
    state = StateDirectory().create()
    if arguments.what == "start":
        session: Session | None = _start(state, arguments)
    elif arguments.what == "end":
        session = end_session(state)
    else:
        session = read_session(state)
    meter = read_meter([], session, time.time())
    if arguments.json:
        print_json(_json(meter, session, []))
    elif session is None:
        say("no session is open: `fresnel-tui session start --price NAME` opens one from this machine's boot")
    else:
        print_pairs(_pairs(meter, session, time.time()))
    return ExitCode.DONE


def _start(state: StateDirectory, arguments: argparse.Namespace) -> Session:
    if (arguments.price is None) == (arguments.rate is None):
        raise WrongInput("session start needs --price NAME (per GPU) or --rate USD (whole machine)")
    gpus = max(1, len(read_gpus(state).gpus))
    if arguments.rate is None:
        return start_session(state, arguments.price, gpus, arguments.since, arguments.budget)
    try:
        parse_rate(arguments.rate)
    except ValueError as error:
        raise WrongInput(f"--rate: {error}") from None
    return start_session(state, arguments.rate, gpus, arguments.since, arguments.budget, per="machine")


def _pairs(meter: Meter, session: Session | None, now: float) -> list[tuple[str, str]]:
    pairs = [
        ("now", f"{dollars(meter.per_hour)}/h"),
        ("live runs", dollars(meter.live_runs)),
        ("basis", meter.basis),
    ]
    if session is not None:
        pairs.insert(1, ("session", f"{dollars(meter.session)} in {duration(now - session.started)}"))
    if meter.budget_left is not None and meter.per_hour:
        lasts = float(meter.budget_left / meter.per_hour) * 3600
        text = f"{dollars(meter.budget_left)} left, lasts {duration(lasts)}" if lasts > 0 else "used up"
        pairs.insert(2, ("budget", text))
    return pairs


def _row(view: Overview) -> tuple[str, ...]:
    return (
        view.run.id,
        str(view.run.state),
        duration(view.seconds),
        dollars(view.rate),
        dollars(view.cost),
        dollars(view.projected),
    )


def _json(meter: Meter, session: Session | None, views: list[Overview]) -> dict[str, object]:
    return {
        "usd_per_hour": _number(meter.per_hour),
        "session_usd": _number(meter.session),
        "session_started": iso(session.started) if session else None,
        "live_runs_usd": _number(meter.live_runs),
        "budget_left_usd": _number(meter.budget_left),
        "basis": meter.basis,
        "runs": [{"id": v.run.id, "cost_usd": _number(v.cost), "projected_usd": _number(v.projected)} for v in views],
    }


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(cents(amount))
