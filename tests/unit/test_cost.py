"""Money: prices with sources, runs and sessions to the cent, and a meter that never makes numbers
up.
"""

import json
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cost.accounting import to_decimal
from runners.cost.cost_reader import costs_of
from runners.cost.meter import read_meter
from runners.cost.prices import choose_price, list_prices, parse_rate
from runners.cost.rates import hourly_rate, money
from runners.cost.run_costs import Costs, ProjectionBasis, RunCost
from runners.cost.sessions import Session, end_session, read_session, start_session
from runners.guard.rule import GuardRule
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.errors import NotFound, WrongInput
from runners.model.plan import AssignedGpu, Estimate, Origin
from runners.model.run import Run, RunRecord
from runners.model.spec import Price
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import account_of, make_plan, make_run
from tui.views.money.guard_text import watched_text

HERE = Origin("anna", host_name(), "boot-1", 0.0)
PER_GPU = Price("1.99", "gpu", "flag")
MACHINE = Price("23.92", "machine", "preset")


def test_every_shipped_price_has_a_source_and_a_date() -> None:
    entries = list_prices()
    assert len(entries) >= 10
    for entry in entries:
        assert entry.source and parse_rate(entry.usd_per_hour) > 0
        if entry.date or "undated" not in entry.source:
            assert time.strptime(entry.date, "%Y-%m-%d")
        assert entry.per == "machine" or not entry.gpu.startswith("8")


@pytest.mark.parametrize("text", ["1.99", "$1.99", " $1.99/h ", "1.99/h"])
def test_a_rate_is_read_as_people_write_it(text: str) -> None:
    assert parse_rate(text) == Decimal("1.99")


@pytest.mark.parametrize("text", ["", "$", "-1", "1,99", "1.", "free", "1e3", "nan", "1.99.1"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match=r"US dollars per hour such as 1\.99"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["1,000", "$2,50", "1_000", "1.000,00", "3 EUR"])
def test_an_amount_that_is_not_understood_whole_is_no_name_of_a_price(text: str) -> None:
    with pytest.raises(WrongInput, match=r"US dollars per hour such as 1\.99") as caught:
        choose_price(text, "flag")
    assert ("without `,`" in str(caught.value)) == ("EUR" not in text)


def test_large_sums_are_said_with_separators() -> None:
    rule = GuardRule("a", "anna", moment_now(), budget_stop="541732.94")
    assert "$541,732.94" in watched_text(rule)
    session = start_session(StateDirectory(), "12345.5", 8, "now", per="machine")
    assert "$12,345.5/h" in session.describe()


def test_a_price_is_chosen_by_name_or_amount() -> None:
    named = choose_price("amd-cloud-mi300x", "preset")
    assert (named.usd_per_hour, named.per, named.basis, named.date) == (
        "1.99",
        "gpu",
        "preset",
        "2026-05-28",
    )
    assert choose_price("2.50", "flag") == Price("2.50", "gpu", "flag")
    assert choose_price("16", "session", "machine").per == "machine"
    with pytest.raises(WrongInput, match="did you mean `amd-cloud-mi300x`"):
        choose_price("amd-cloud-mi300", "flag")


def test_the_user_s_own_prices_come_first(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True)
    entry = "{provider: Us, gpu: X, usd_per_hour: 0.10, source: contract, date: 2026-01-01}"
    (folder / "prices.yaml").write_text(f"prices:\n  ours: {entry}\n  amd-cloud-mi300x: {entry}\n")
    assert choose_price("ours", "flag").usd_per_hour == "0.1"
    assert choose_price("amd-cloud-mi300x", "flag").source == "contract"
    assert choose_price("digitalocean-h100", "flag").usd_per_hour == "3.39"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prices:\n  a: {gpu: X}\n", "prices.yaml:2: prices.a:"),
        ("prices:\n  a: 1.99\n", "prices.yaml:2: prices.a: expected provider, gpu"),
        (
            "prices:\n  a: {provider: p, gpu: g, usd_per_hour: cheap, source: s, date: d}\n",
            "such as 1.99, got 'cheap'",
        ),
        (
            "prices:\n  a: {provider: p, gpu: g, usd_per_hour: 1, source: s, date: d, oops: 1}\n",
            "unknown field `oops`",
        ),
        ("- 1\n", "expected a mapping `prices:`"),
        *(
            (
                "prices:\n  a: {provider: p, gpu: g, usd_per_hour: 1, source: s, "
                f"date: 2026-11-01, {keys}}}\n",
                f"prices.yaml:2: prices.a: {words}",
            )
            for keys, words in (
                ("billing: per fortnight", "billing: expected one of"),
                ("billing: minutes", "billing: expected one of"),
                ("minimum: soon", "minimum: "),
                ("currency: EUR", "currency: every price here is in US dollars"),
            )
        ),
        *(
            (
                "prices:\n  a:\n    provider: p\n    gpu: g\n    source: s\n    date: 2026-11-01\n"
                f"    usd_per_hour: {amount}\n",
                "prices.yaml:2: prices.a: expected US dollars per hour such as 1.99",
            )
            for amount in ("1,000", "1:30", "1_000.5_", "nan", ".inf", "-2", "[2]")
        ),
        (
            "prices:\n  a: {provider: p, gpu: g, usd_per_hour: 1, source: s, date: 2999-01-01}\n",
            "prices.yaml:2: prices.a: date: 2999-01-01 is in the future",
        ),
    ],
)
def test_a_mistake_in_prices_is_named(tmp_path: Path, text: str, words: str) -> None:
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True)
    (folder / "prices.yaml").write_text(text)
    with pytest.raises(WrongInput) as caught:
        choose_price("a", "flag")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("price", "gpus", "rate"),
    [
        (PER_GPU, 8, "15.92"),
        (PER_GPU, Fraction(5, 2), "4.975"),
        (PER_GPU, 1, "1.99"),
        (PER_GPU, 0, "0"),
        (MACHINE, 3, "23.92"),
        (MACHINE, 0, "0"),
    ],
)
def test_a_run_s_rate(price: Price, gpus: Fraction | int, rate: str) -> None:
    assert hourly_rate(price, gpus) == Decimal(rate)


def test_money_is_exact() -> None:
    assert money(Decimal("15.92"), 3600) == Decimal("15.92")
    assert money(Decimal("1.99"), 0.1) * 36000 == Decimal("1.99")


@given(st.decimals("0.01", "100", places=2), st.floats(0, 1e7, allow_nan=False))
def test_money_grows_with_time_and_rate(rate: Decimal, seconds: float) -> None:
    assert 0 <= money(rate, seconds) <= money(rate, seconds + 1) <= money(rate + 1, seconds + 1)


def would(run: Run, now: float, eta_s: float | None = None) -> RunCost:
    """What a run would cost, without a session in which it costs anything."""
    found = costs_of(StateDirectory(), [run], Moment(now)).of(run, eta_s)
    assert (found.cost, found.rate, found.share, found.projected) == (None, None, None, None)
    return found.would or RunCost()


def test_a_run_would_cost_from_its_start_to_its_end() -> None:
    ended = make_run(State.DONE, PER_GPU, 2, started=1000.0, ended=1000.0 + 1800)
    assert would(ended, now=9e9).cost == Decimal("1.99")
    live = make_run(State.RUNNING, PER_GPU, 2, started=1000.0)
    assert would(live, now=1000.0 + 900).cost == Decimal("0.995")
    found = would(live, now=1900.0, eta_s=900.0)
    assert (found.projected, found.basis) == (Decimal("1.99"), ProjectionBasis.PACE)
    assert would(live, now=2000.0).projected is None


def test_what_is_not_known_costs_nothing_known() -> None:
    for run in (
        make_run(State.RUNNING, None),
        make_run(State.QUEUED, PER_GPU, started=None),
        make_run(State.LOST, plan=None),
    ):
        found = costs_of(StateDirectory(), [run], Moment(2000.0)).of(run, eta_s=10.0)
        assert (found.cost, found.projected, found.would) == (None, None, None)


def test_a_clock_set_back_costs_nothing() -> None:
    assert would(make_run(State.RUNNING, PER_GPU, started=5000.0), now=1000.0).cost is None


def test_the_meter_without_a_session_counts_nothing() -> None:
    runs = [
        make_run(State.RUNNING, PER_GPU, 2, started=0.0, id="a"),
        make_run(State.STOPPING, MACHINE, 1, started=0.0, id="b"),
        make_run(State.DONE, PER_GPU, 8, started=0.0, ended=3600.0, id="c"),
        make_run(State.RUNNING, None, 1, started=0.0, id="d"),
    ]
    runs = [
        msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, origin=HERE))
        for run in runs
    ]
    meter = read_meter(runs, costs_of(StateDirectory(), runs, Moment(3600.0)))
    assert (meter.per_hour, meter.live_runs, meter.session) == (None, None, None)
    assert meter.budget_left is None
    assert "no session is open" in meter.basis


def test_the_meter_knows_no_rate_when_there_is_none() -> None:
    runs = [make_run(State.RUNNING, None)]
    meter = read_meter(runs, costs_of(StateDirectory(), runs, Moment(2000.0)))
    assert meter.per_hour is None and meter.live_runs is None


def test_a_session_s_rate_is_the_machine_s_busy_or_idle() -> None:
    state = StateDirectory().create()
    session = Session(0.0, host_name(), PER_GPU, gpus=8, budget="100", id="s", uuids=("GPU-0",))
    state.session.write_bytes(msgspec.json.encode(session))
    plan = make_plan(
        price=PER_GPU,
        origin=HERE,
        gpus=(AssignedGpu(0, "GPU-0", "H100", 0), AssignedGpu(1, "GPU-1", "H100", 1)),
    )
    run = make_run(State.RUNNING, started=1800.0, plan=plan)
    meter = read_meter([run], costs_of(state, [run], Moment(3600.0)))
    assert (meter.per_hour, meter.session, meter.budget_left) == tuple(
        map(Decimal, ("15.92", "15.92", "84.08"))
    )
    assert meter.live_runs == Decimal("1.99")
    assert Session(0.0, "here", MACHINE, gpus=8).rate == Decimal("23.92")


def in_session(rate: str, **changes: Any) -> tuple[Costs, Run]:
    """A run on one of two GPUs from second 1,800 on, an hour after a session began."""
    state = StateDirectory().create()
    session = Session(0.0, host_name(), Price(rate, "gpu", "flag"), gpus=2, id="s")
    state.session.write_bytes(msgspec.json.encode(session))
    gpu = AssignedGpu(0, "GPU-0", "H100", 0)
    plan = make_plan(origin=HERE, gpus=(gpu,), forecast=Estimate(3600.0, "7", "a guess"))
    run_id = "20261120-101500-demo-7f3a"
    fields = {"started": 1800.0, "plan": plan, "directory": str(state.run(run_id).path)}
    run = make_run(id=run_id, **(fields | changes))
    return costs_of(state, [run], Moment(3600.0)), run


@pytest.mark.parametrize(
    ("epoch", "projected"),
    [(None, ("7", "estimate")), (2, ("7", "estimate")), (3, ("1.500278", "pace"))],
)
def test_a_run_s_own_pace_counts_after_two_epochs(
    epoch: int | None, projected: tuple[str, str]
) -> None:
    costs, run = in_session("1")
    found = costs.of(run, eta_s=3601.0, epoch=epoch)
    assert (found.projected, found.basis) == (Decimal(projected[0]), projected[1])
    assert found.remaining_s == 3601.0
    assert costs.session_projected(found) == Decimal("4.000556"), "an hour of two GPUs is behind it"
    assert costs.spent_on(run) == found.cost == Decimal("0.5")


def test_what_is_projected_is_of_what_is_known() -> None:
    costs, run = in_session("1")
    assert costs.session_projected(costs.of(run)) is None, "nobody knows when it ends"
    unknown = make_run(State.RUNNING, id="20261120-101500-demo-0000")
    assert costs.spent_on(unknown) is None
    apart = costs_of(StateDirectory(Path("elsewhere")), [run], Moment(3600.0))
    assert apart.session_projected(RunCost(remaining_s=60.0)) is None
    free, run = in_session("0")
    assert free.of(run, eta_s=3600.0, epoch=3).projected == 0


def test_a_run_that_has_not_begun_costs_by_its_plan_what_it_holds() -> None:
    gpu = AssignedGpu(0, "GPU-0", "H100", 0)
    plan = make_plan(origin=HERE, gpus=(gpu,), price=PER_GPU)
    held, waits = (
        make_run(state, plan=plan, started=None, record=RunRecord(state))
        for state in (State.STARTING, State.QUEUED)
    )
    paid, _ = in_session("1")
    by_plan = RunCost(rate=Decimal("1.99"))
    assert paid.of(msgspec.structs.replace(held, id="another")) == by_plan
    alone = costs_of(StateDirectory(Path("elsewhere")), [held, waits], Moment(3600.0))
    assert alone.of(held) == RunCost(would=by_plan)
    assert alone.of(waits) == RunCost()


@pytest.mark.parametrize(
    ("state", "rate", "per_epoch"),
    [
        (State.RUNNING, "1", "0.100278"),
        (State.DONE, "1", "0.100278"),
        (State.RUNNING, "0", "0"),
        (State.DONE, "0", None),
    ],
)
def test_what_an_epoch_costs(state: State, rate: str, per_epoch: str | None) -> None:
    costs, run = in_session(rate, state=state, ended=None if state.is_live else 3600.0)
    Path(run.directory).mkdir()
    ends = [{"time": 1800 + 361 * i, "type": "epoch", "epoch": i} for i in (1, 2, 3)]
    (Path(run.directory) / "events.jsonl").write_text(
        "".join(json.dumps(end) + "\n" for end in ends)
    )
    found = costs.of(run, eta_s=3600.0)
    assert found.per_epoch == (None if per_epoch is None else Decimal(per_epoch))
    assert (found.projected is None) != state.is_live


def test_a_session_ends_when_it_ends() -> None:
    session = Session(0.0, "here", MACHINE, gpus=8, ended=3600.0)
    assert to_decimal(account_of(session, Moment(9e9)).total) == Decimal("23.92")


def test_a_session_is_opened_once_and_ended_once() -> None:
    state = StateDirectory()
    assert read_session(state) is None
    opened = start_session(state, "amd-cloud-mi300x", 8, since="now", budget="$100")
    assert read_session(state) == opened and opened.budget == "100"
    assert "amd-cloud-mi300x" in opened.describe() and "2026-05-28" in opened.describe()
    assert "estimate" in opened.describe()
    with pytest.raises(WrongInput, match="a session is open already"):
        start_session(state, "1.99", 1)
    ended = end_session(state)
    assert ended.ended is not None and ended.ended >= opened.started
    assert read_session(state) is None
    with pytest.raises(NotFound, match="no session is open"):
        end_session(state)


def test_a_rate_for_the_whole_machine_is_not_multiplied_by_its_gpus() -> None:
    session = start_session(StateDirectory(), "15.92", 8, since="now", per="machine")
    assert session.rate == Decimal("15.92")


def test_a_session_counts_from_boot_or_a_stated_start() -> None:
    state = StateDirectory()
    by_boot = start_session(state, "1.99", 1)
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs((time.time() - by_boot.started) - uptime) < 60
    state.session.unlink()
    stated = start_session(state, "1.99", 1, since="2020-01-02T03:04:05+00:00")
    assert stated.started == 1577934245.0


@pytest.mark.parametrize(
    ("since", "budget", "words"),
    [
        ("yesterday", None, "--since yesterday: expected boot, now, or a time"),
        ("2999-01-01T00:00", None, "that is in the future"),
        ("now", "lots", "--budget lots: expected US dollars"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused(
    since: str, budget: str | None, words: str
) -> None:
    with pytest.raises(WrongInput) as caught:
        start_session(StateDirectory(), "1.99", 1, since, budget)
    assert words in str(caught.value)
    assert read_session(StateDirectory()) is None


def test_a_damaged_session_file_is_no_session() -> None:
    state = StateDirectory().create()
    state.session.write_text('{"started": 1')
    assert read_session(state) is None
    state.session.write_text(json.dumps({"price": msgspec.to_builtins(PER_GPU)}))
    assert read_session(state) is None
