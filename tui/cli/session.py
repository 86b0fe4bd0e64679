"""`session`: a rented machine's billing period, started, shown, given another budget, ended."""

import argparse
import re
import sys
from decimal import Decimal
from typing import Literal

import msgspec

from runners.cost.cloud import Instance, find_instance
from runners.cost.ledger import Ledger
from runners.cost.meter import Meter, read_meter
from runners.cost.opening import prices_of_machine, rate_caveat, recognised_price
from runners.cost.prices import parse_rate
from runners.cost.run_costs import costs_in
from runners.cost.sessions import (
    Session,
    change_budget,
    change_price,
    end_session,
    read_session,
    start_session,
)
from runners.cost.statement import open_statement
from runners.gpus.cards import card_models, list_cards
from runners.gpus.client import read_gpus
from runners.guard.rule import read_guard
from runners.host.clock import moment_now, time_of_day
from runners.housekeeping import tend
from runners.model.errors import NotFound, WrongInput
from runners.model.gpus import GpuReading
from runners.model.suggestions import nearest_hint
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tui.cli.output import echo, is_confirmed, print_json, print_pairs
from tui.views.format import dollars, duration
from tui.views.money.money_text import meter_json, session_pairs

_NOW_S = 60.0


def run_session(arguments: argparse.Namespace) -> None:
    """Start, show, change or end the session."""
    state = StateDirectory().create()
    tend(state)
    if arguments.what == "start":
        session: Session | None = _start(state, arguments)
    elif arguments.what == "end":
        session = end_session(state)
    elif arguments.what == "price":
        session = _change_price(state, arguments)
    elif arguments.what == "budget":
        amount = arguments.amount if arguments.amount is not None else arguments.budget
        if amount is None:
            raise WrongInput("session budget: name the amount", "`fresnel-tui session budget 150`")
        session = change_budget(state, amount)
        echo(f"budget of the session: {dollars(Decimal(session.budget or 0))}")
    else:
        session = read_session(state)
    now = moment_now()
    live = [run for run in list_runs(state, 0) if run.is_live]
    statement = open_statement(state, live, now)
    costs = costs_in(statement, live)
    if session is not None and session.end is not None:
        costs = msgspec.structs.replace(costs, session=session, account=statement.account(session))
    meter = read_meter(live, costs)
    if arguments.json:
        print_json(meter_json(meter, session) | {"runs": []})
    elif session is None:
        echo(
            "no session is open: `fresnel-tui session start --price NAME` opens one from this "
            "machine's boot"
        )
    elif arguments.what != "end":
        print_pairs(session_pairs(meter, session, now, read_guard(state)))
    if session is not None and arguments.what == "end":
        echo(_ending(session, meter))
    if session is not None and statement.problem:
        echo(f"⚠ {statement.problem}: shares are at least")


def _ending(session: Session, meter: Meter) -> str:
    """What the session that was just ended came to."""
    text = f"session ended after {duration(meter.lasted_s)}: total {dollars(meter.session)}"
    text += "" if meter.idle is None else f", {dollars(meter.idle)} of it idle"
    if meter.budget_left is not None and session.budget is not None:
        over = meter.budget_left < 0
        rest = f"{dollars(abs(meter.budget_left))} {'over' if over else 'under'}"
        text += f"; {rest} its budget of {dollars(Decimal(session.budget))}"
    return text


def _start(state: StateDirectory, arguments: argparse.Namespace) -> Session:
    reading = read_gpus(state)
    instance = find_instance() or Instance("")
    price, per = _stated_price(arguments)
    if price is None:
        price = _recognised_price(reading, instance)
    gpus = _stated_gpus(arguments) or max(1, len(list_cards(reading.gpus)))
    caveat = rate_caveat(price, per, reading, _stated_gpus(arguments))
    _await_word(caveat, arguments.anyway)
    session = start_session(
        state,
        price,
        gpus,
        arguments.since,
        arguments.budget,
        per,
        list_cards(reading.gpus),
        instance.provider,
        " ".join(filter(None, (instance.kind, instance.id))),
        caveat,
    )
    echo(f"session started{_from_when(session)}: {session.describe()}")
    return session


def _from_when(session: Session) -> str:
    """Since when it counts, where that is not now."""
    before = moment_now().wall - session.started
    if before < _NOW_S:
        return ""
    return f", counted from {time_of_day(session.started)}, {duration(before)} ago"


def _change_price(state: StateDirectory, arguments: argparse.Namespace) -> Session:
    """Give the open session, the newest that ended, or a named one another price, for all of it."""
    price, per = _stated_price(arguments)
    if price is None:
        raise WrongInput(
            "session price: name the price", "fresnel-tui session price --rate 1.99 [--gpus 8]"
        )
    caveat = rate_caveat(price, per, read_gpus(state), _stated_gpus(arguments))
    _await_word(caveat, arguments.anyway)
    earlier = _find_session(state, arguments.session) if arguments.session else None
    return change_price(state, price, per, _stated_gpus(arguments), caveat, earlier)


def _find_session(state: StateDirectory, name: str) -> Session:
    ledger = Ledger(state)
    ledger.poll()
    sessions = {session.id: session for session in ledger.sessions()}
    if name not in sessions:
        known = "`fresnel-tui cost` lists them"
        raise NotFound(f"no session `{name}`{nearest_hint(name, sessions)}", known)
    return sessions[name]


def _stated_price(arguments: argparse.Namespace) -> tuple[str | None, Literal["gpu", "machine"]]:
    """The price that was named, and whether a bare amount is for a GPU or for the machine."""
    if arguments.price is not None and arguments.rate is not None:
        raise WrongInput(
            f"session {arguments.what} needs --price NAME (per GPU) or --rate USD (whole machine), "
            "not both"
        )
    if arguments.rate is None:
        return arguments.price, "gpu"
    try:
        parse_rate(arguments.rate)
    except ValueError as error:
        raise WrongInput(f"--rate: {error}") from None
    return arguments.rate, "machine"


def _stated_gpus(arguments: argparse.Namespace) -> int | None:
    if arguments.gpus is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,5}", arguments.gpus):
        raise WrongInput(f"--gpus {arguments.gpus}: expected how many GPUs the machine has")
    return int(arguments.gpus)


def _await_word(caveat: str, anyway: bool) -> None:
    """Go on when nothing speaks against it, or when whoever asked says so. Raises WrongInput."""
    if not caveat or anyway:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        echo(f"⚠ {caveat}")
        if is_confirmed("use it anyway?"):
            return
    raise WrongInput(caveat, "--anyway uses it anyway")


def _recognised_price(reading: GpuReading, instance: Instance) -> str:
    """The one price that fits the machine's provider and GPUs; WrongInput names those that may."""
    models = card_models(reading.gpus)
    model = models[0] if models else ""
    fitting = prices_of_machine(reading, instance)
    chosen = recognised_price(fitting, instance)
    if chosen is not None:
        echo(f"price {chosen.name}: {instance.provider} rents out this machine, and it has {model}")
        return chosen.name
    some = (
        f"for {model}: {', '.join(entry.name for entry in fitting)}"
        if fitting
        else "`--rate 1.99` sets one by hand"
    )
    raise WrongInput(
        "session start needs --price NAME (per GPU) or --rate USD (whole machine)", some
    )
