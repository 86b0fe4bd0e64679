"""`session`: a rented machine's billing period, started, shown, given another budget, ended."""

import argparse
from collections import Counter

import msgspec

from runners.cost.cloud import Instance, find_instance
from runners.cost.meter import read_meter
from runners.cost.prices import fitting_prices, parse_rate
from runners.cost.run_costs import costs_in
from runners.cost.sessions import Session, change_budget, end_session, read_session, start_session
from runners.cost.statement import open_statement
from runners.gpus.client import read_gpus
from runners.guard.rule import read_guard
from runners.host.clock import moment_now
from runners.model.errors import ExitCode, WrongInput
from runners.model.gpus import GpuReading
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tui.cli.output import print_json, print_pairs, say
from tui.views.format import dollars
from tui.views.money_text import meter_json, session_pairs


def run_session(arguments: argparse.Namespace) -> int:
    """Start, show, change or end the session."""
    state = StateDirectory().create()
    if arguments.what == "start":
        session: Session | None = _start(state, arguments)
    elif arguments.what == "end":
        session = end_session(state)
    elif arguments.what == "budget":
        if arguments.budget is None:
            raise WrongInput("session budget: how much?", "fresnel-tui session budget --budget 150")
        session = change_budget(state, arguments.budget)
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
        say(
            "no session is open: `fresnel-tui session start --price NAME` opens one from this "
            "machine's boot"
        )
    else:
        print_pairs(session_pairs(meter, session, now, read_guard(state)))
    if session is not None and arguments.what == "end" and meter.budget_left is not None:
        say(
            f"{dollars(meter.budget_left)} of its budget are left for the next: session start "
            "--budget AMOUNT"
        )
    return ExitCode.DONE


def _start(state: StateDirectory, arguments: argparse.Namespace) -> Session:
    if arguments.price is not None and arguments.rate is not None:
        raise WrongInput(
            "session start needs --price NAME (per GPU) or --rate USD (whole machine), not both"
        )
    reading = read_gpus(state)
    gpus, uuids = max(1, len(reading.gpus)), tuple(gpu.uuid for gpu in reading.gpus)
    instance = find_instance() or Instance("")
    per, price = ("gpu", arguments.price) if arguments.rate is None else ("machine", arguments.rate)
    if arguments.rate is not None:
        try:
            parse_rate(arguments.rate)
        except ValueError as error:
            raise WrongInput(f"--rate: {error}") from None
    if price is None:
        price = _recognised_price(reading, instance)
    named = " ".join(filter(None, (instance.kind, instance.id)))
    return start_session(
        state,
        price,
        gpus,
        arguments.since,
        arguments.budget,
        "gpu" if per == "gpu" else "machine",
        uuids,
        instance.provider,
        named,
    )


def _recognised_price(reading: GpuReading, instance: Instance) -> str:
    """The one price that fits the machine's provider and GPUs; WrongInput names those that may."""
    names = Counter(gpu.name for gpu in reading.gpus)
    model = next(iter(names), "")
    fitting = fitting_prices(instance.provider, model, len(reading.gpus)) if len(names) == 1 else []
    if instance.provider and len(fitting) == 1:
        say(
            f"price {fitting[0].name}: {instance.provider} rents out this machine, and it has "
            f"{model}"
        )
        return fitting[0].name
    some = (
        f"for {model}: {', '.join(entry.name for entry in fitting)}"
        if fitting
        else "`--rate 1.99` is one by hand"
    )
    raise WrongInput(
        "session start needs --price NAME (per GPU) or --rate USD (whole machine)", some
    )
