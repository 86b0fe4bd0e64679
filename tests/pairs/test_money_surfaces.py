"""Second looks at money give the first one's answer: sorting, finding, dialogs, open pages."""

import csv
import io
import random
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from runners.cost.accounting import Account
from runners.cost.meter import read_meter
from runners.cost.run_costs import costs_in
from runners.cost.sessions import (
    SessionLine,
    change_price,
    load_session,
    read_session,
    start_session,
)
from runners.cost.statement import open_statement
from runners.guard.observe import GuardObserver
from runners.guard.rule import new_rule
from runners.host.clock import Moment, moment_now
from runners.host.files import append_line
from runners.model.errors import ExitCode
from runners.model.run import RunRecord
from runners.model.spec import Price
from runners.model.states import State
from runners.state.layout import StateDirectory, config_dir
from runners.state.runs import read_run
from tests.command_text import limit_of, resized
from tests.process.conftest import CommandLine
from tests.process.test_one_cost import ago, open_session, write_run
from tests.support import eventually
from tui.api import RunHandle
from tui.snapshot.curve_store import CurveStore
from tui.views.format import dollars
from tui.views.money.money_text import total_text
from tui.views.runs.run_view import view_run

HOUR = 3600.0
RUN = "20261120-101500-a-0001"


def test_an_ended_run_that_shared_with_a_live_one_is_found_by_the_cost_that_is_shown(
    cli: CommandLine,
) -> None:
    cli.run("session", "start", "--rate", "3600", "--since", "now")
    cli.command("sleep", "600", options=["--name", "beside"])
    ended = cli.command("sleep", "1")
    cli.ended(ended)
    (shown,) = [row["cost_usd"] for row in cli.json("list", "--all") if row["id"] == ended.id]

    def found(query: str) -> list[str]:
        return [row["id"] for row in cli.json("list", query)]

    assert ended.id in found(f"cost<{shown * 1.001}")
    assert ended.id not in found(f"cost>{shown * 1.001}"), "as if it had been alone"
    assert ended.id in found(f"cost>{shown * 0.999}")


def test_the_dialog_that_ends_a_session_says_the_sum_of_the_statement(
    cli: CommandLine,
) -> None:
    state = cli.state.create()
    # Begun in a boot before this one, whose clock was two hours slow and was corrected at its end.
    now = moment_now()
    began = Moment(now.wall - 10 * 3600, "the boot before", 100 * 10**9)
    open_session(state, began, None, budget="100")
    session = read_session(state)
    assert session is not None
    write_run(state, RUN, Moment(began.wall + 7300, "the boot before", 200 * 10**9), now)
    statement = open_statement(state, [], now)
    meter = read_meter([], costs_in(statement, []))
    # $2 an hour, for the eight that it has lasted; ten by the clocks of the two boots.
    assert float(meter.session or 0) == pytest.approx(16, abs=0.01)
    total = dollars(meter.session)
    assert total_text(meter).startswith(total)
    said = cli.run("session").stdout
    later = read_meter([], costs_in(open_statement(state, [], moment_now()), []))
    cents = range(round((meter.session or 0) * 100), round((later.session or 0) * 100) + 1)
    assert any(f"{dollars(Decimal(cent) / 100)} " in said for cent in cents)
    left = dollars(abs(meter.budget_left or Decimal(0)))
    assert left in total_text(meter)
    # Its age too: eight hours, and not the ten that the clocks of two boots make.
    assert meter.lasted_s == pytest.approx(8 * 3600, abs=1)
    for hours, acts in ((9, False), (7.9, True)):
        rule = new_rule(max_age_s=hours * 3600, countdown_s=0.0)
        seen = GuardObserver(state).observe(rule, None, now, ())
        assert bool(seen.reasons) == acts


def test_an_open_page_of_curves_follows_a_corrected_price(cli: CommandLine) -> None:
    state = cli.state.create()
    start_session(state, "2", 1, "boot", uuids=("GPU-0",))
    write_run(state, RUN, ago(120), ago(60))
    store, run = CurveStore(), read_run(state, RUN)

    def last() -> float:
        while store.read([run]):
            pass
        ((_, series),) = store.line(run)
        return series["cost"].values[-1]

    before = last()
    change_price(state, "20")
    assert last() == pytest.approx(10 * before)
    (row,) = csv.DictReader(io.StringIO(_runs_of(cli)))
    assert float(row["usd"]) == pytest.approx(last(), abs=1e-6)


def crashed(state: StateDirectory, run_id: str, chance: random.Random) -> float:
    """A run that crashed in this boot or the one before, whose clocks were set now and then; how
    long it lasted, in seconds.
    """
    now = moment_now()
    up = (now.boot_ns or 0) / 1e9
    began_here = now.wall - up
    # The boot before ended three hours before this one began: its clock is off by less than that.
    boots = [(now.boot, began_here, up), ("before", began_here - 5 * HOUR, 2 * HOUR)]
    boot, began_at, longest = chance.choice(boots)
    lasted = chance.uniform(0.01, 0.4) * longest
    began_up = chance.uniform(0.0, 0.4) * longest

    def at(uptime: float) -> Moment:
        """A moment of that boot, by a clock that is up to an hour off."""
        wall = began_at + uptime + chance.uniform(-HOUR, HOUR)
        return Moment(wall, boot, round(uptime * 1e9))

    began, seen = at(began_up), at(began_up + lasted)
    found = chance.choice([now, at(chance.uniform(0.85, 0.99) * longest)])
    write_run(state, run_id, began, found)
    path = state.run(run_id).state
    record = msgspec.json.decode(path.read_bytes(), type=RunRecord)
    lost = msgspec.structs.replace(record, state=State.LOST, seen=seen, exit_code=None)
    path.write_bytes(msgspec.json.encode(lost))
    return lasted


def test_how_long_a_crashed_run_lasted_is_the_same_everywhere(cli: CommandLine) -> None:
    state, chance = cli.state.create(), random.Random(25)
    start_session(state, "2", 1, "boot", uuids=("GPU-0",))
    want = {
        run: pytest.approx(crashed(state, run, chance), abs=0.002)
        for run in (f"20261120-{101500 + i}-a-{i:04x}" for i in range(40))
    }

    def seconds(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
        return {row["id"]: float(row["seconds"]) for row in rows if row["id"] in want}

    # The first of these enters the lines that the ledger lacks.
    assert seconds(cli.json("list", "--all")) == want
    assert seconds(csv.DictReader(io.StringIO(_runs_of(cli)))) == want
    assert seconds(cli.json("cost", "export")) == want
    assert seconds(cli.json("list", "--all")) == want
    assert seconds(cli.json("status", run) for run in [*want][:3]) == {
        run: want[run] for run in [*want][:3]
    }
    some = [*want][:6]
    compared = cli.json("compare", *some)["runs"]
    assert seconds(compared) == seconds(RunHandle(run, state).to_json() for run in some)
    assert seconds(compared) == {run: want[run] for run in some}
    views = (view_run(read_run(state, run)) for run in want)
    assert {view.run.id: view.seconds for view in views} == want
    books = open_statement(state, [])
    spans = {run: books.span(run) for run in want}
    assert {run: (end - start) / 1e9 for run, (start, end) in spans.items()} == want


def test_of_a_session_that_is_over_nothing_is_spent_now(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "2", "--since", "now")
    assert cli.run("session").stdout.startswith("now")
    cli.run("session", "end")
    assert cli.run("session", "price", "--rate", "3").stdout.startswith("rate")


def test_a_machine_that_was_resized_is_said_to_be_another(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xH100")
    eventually(lambda: len(cli.json("gpus")) == 4)
    cli.run("session", "start", "--rate", "8", "--since", "now")
    assert resized(4, 4)[:12] not in cli.run("cost").stderr
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    eventually(lambda: len(cli.json("gpus")) == 2)
    assert resized(2, 4) in cli.run("cost").stderr


def test_a_torn_line_of_the_ledger_is_said_and_the_sums_are_at_least(cli: CommandLine) -> None:
    state = cli.state.create()
    start_session(state, "2", 1, "boot", uuids=("GPU-0",))
    write_run(state, RUN, ago(120), ago(60))
    whole = cli.json("cost")
    assert whole["ledger_problem"] is None and not whole["all_at_least"]
    with state.ledger.open("ab") as file:
        file.write(b'{"type":"run","run":"2026112\n')
    torn = cli.json("cost")
    assert torn["ledger_problem"] and torn["all_at_least"]
    assert torn["ledger_problem"] in cli.run("cost").stderr
    assert torn["ledger_problem"] in cli.run("cost", "export").stderr
    assert torn["ledger_problem"] in cli.run("session").stderr
    # The line of a run that is still there is entered again, and nothing is missing.
    lines = state.ledger.read_bytes().splitlines(keepends=True)
    state.ledger.write_bytes(b"".join(line for line in lines if b'"type":"session"' in line))
    again = cli.json("cost")
    assert again["ledger_problem"] is None
    assert [row["id"] for row in again["runs"]] == [RUN]
    assert again["runs"][0]["cost_usd"] == pytest.approx(whole["runs"][0]["cost_usd"], abs=1e-6)


def test_status_shows_the_limit_by_the_price_as_it_is_now(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "2", "--gpus", "1", "--since", "now")
    run = cli.command("sleep", "600", options=("--set", "limits.cost=6"))
    assert limit_of("3h00m", "6") in cli.run("status", run.id).stdout
    cli.run("session", "price", "--rate", "4", "--gpus", "1")
    shown = cli.run("status", run.id).stdout
    assert limit_of("1h30m", "6") in shown and "3h00m" not in shown


def _runs_of(cli: CommandLine) -> str:
    """The export's lines of runs, with its heading."""
    heading, *lines = cli.run("cost", "export").stdout.splitlines()
    return "\n".join([heading, *(line for line in lines if line.startswith("run,"))])


def test_a_broken_price_list_stops_nothing_that_has_its_own_rate(cli: CommandLine) -> None:
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "prices.yaml").write_text("prices:\n\tmine: 2\n")
    cli.run("session", "start", "--rate", "2", "--since", "now")
    cli.run("session", "price", "--rate", "3")
    assert cli.json("session")["usd_per_hour"] == 3
    assert "prices.yaml" in cli.run("session", "price", "--price", "runpod", exits=2).stderr


def test_nobody_owes_less_than_nothing() -> None:
    third = Fraction(1, 3) * Fraction(2, 10**6)
    account = Account(third * 3, {"a": third, "b": third, "c": third}, Fraction(0), {}, 0)
    assert account.idle_rounded == 0
    assert dollars(Decimal("-0.000001")) == "$0.00"


def write_session(state: StateDirectory, name: str, began: float, ended: float, rate: str) -> None:
    """An ended session of this machine, in session.json and in the ledger."""
    open_session(state, ago(began), ago(ended))
    known = load_session(state)
    assert known is not None
    named = msgspec.structs.replace(known, id=name, price=Price(rate, "gpu", "session"))
    state.session.write_bytes(msgspec.json.encode(named))
    append_line(state.ledger, msgspec.json.encode(SessionLine(named)))


def test_the_price_of_an_earlier_session_is_corrected_for_its_runs_alone(cli: CommandLine) -> None:
    state = cli.state.create()
    early, late = "20261120-101500-a-0001", "20261120-111500-b-0001"
    write_session(state, "first", 1000, 500, "2")
    write_session(state, "second", 450, 100, "6")
    for run, began, ended in ((early, 900, 600), (late, 400, 200)):
        write_run(state, run, ago(began), ago(ended))

    def spent() -> list[float]:
        return [cli.json("status", run)["cost_usd"] for run in (early, late)]

    cost = [300 * 2 / 3600, 200 * 6 / 3600]
    assert spent() == pytest.approx(cost, rel=0.01), "each by the price of its own time"
    newest = load_session(state)
    told = cli.json("session", "price", "--rate", "20", "--gpus", "1", "--session", "first")
    assert told["usd_per_hour"] == 20
    assert spent() == pytest.approx([10 * cost[0], cost[1]], rel=0.01)
    found = {row["id"]: row["usd_per_hour"] for row in cli.json("cost")["sessions"]}
    assert found == {"first": 20, "second": 6}
    rows = csv.DictReader(io.StringIO(_runs_of(cli)))
    assert [float(row["usd"]) for row in rows] == pytest.approx(spent(), abs=1e-6)
    assert load_session(state) == newest, "that one is not touched"
    refused = cli.run("session", "price", "--rate", "2", "--session", "frist", exits=None)
    assert refused.returncode == ExitCode.NOT_FOUND and "first" in refused.stderr
