"""Sharing money out: exact sums whatever happens, and a day with everything in it, reckoned again
by seconds.
"""

import random
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cost.accounting import Period, Usage, apportion, local_days, round_to_sum, to_decimal
from runners.cost.cost_reader import CostReader
from runners.cost.ledger import RunEntry
from runners.cost.rates import SECOND_NS as SECOND
from runners.cost.sessions import Session, SessionLine
from runners.cost.statement import Statement, open_statement
from runners.cost.timeline import Timeline, wall_ns
from runners.host.clock import Moment, seconds_between
from runners.host.identity import host_name
from runners.model.plan import AssignedGpu
from runners.model.run import RunRecord
from runners.model.spec import Price
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import account_of, make_plan, make_run

HOUR = 3600 * SECOND
RATE = Decimal("15.92")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time with a daylight-saving change at 03:00 on 25 October 2026."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# ── sharing ───────────────────────────────────────────────────────────────────────────────────────


def test_a_run_pays_for_the_gpus_it_holds_and_the_rest_is_idle() -> None:
    account = apportion(Period(0, HOUR, RATE, 8), [Usage("a", ("0", "1"), 0, HOUR // 2)])
    assert account.shares == {"a": Fraction("1.99")} and account.gpu_hours == {"a": 1}
    assert (account.total, account.idle) == (Fraction("15.92"), Fraction("13.93"))


def test_a_gpu_that_three_share_is_paid_by_each_with_a_third() -> None:
    account = apportion(
        Period(0, HOUR, Decimal(1), 1), [Usage(run, ("0",), 0, HOUR) for run in "abc"]
    )
    assert account.shares == dict.fromkeys("abc", Fraction(1, 3)) and account.idle == 0
    assert round_to_sum(account.total, {**account.shares, "": account.idle}) == {
        "a": Decimal("0.34"),
        "b": Decimal("0.33"),
        "c": Decimal("0.33"),
        "": Decimal("0.00"),
    }


def test_what_lies_outside_of_the_period_is_not_its_money() -> None:
    held = [Usage("a", ("0",), 0, HOUR), Usage("b", ("0",), 0, 9 * HOUR)]
    account = apportion(Period(HOUR, 2 * HOUR, RATE, 8), held)
    assert account.shares == {"b": Fraction("1.99")}


holdings = st.lists(
    st.builds(
        lambda run, gpus, start, length: Usage(run, tuple(sorted(gpus)), start, start + length),
        st.sampled_from("abcdef"),
        st.sets(st.sampled_from("0123"), max_size=4),
        st.integers(0, 3 * HOUR),
        st.integers(0, 3 * HOUR),
    ),
    max_size=12,
)


@given(holdings, st.integers(0, 4 * HOUR), st.integers(1, 6), st.decimals("0.01", "99", places=2))
def test_shares_and_idle_are_the_total_however_it_is_cut(
    held: list[Usage], cut: int, gpus: int, rate: Decimal
) -> None:
    whole = apportion(Period(0, 4 * HOUR, rate, gpus), held)
    first, second = (
        apportion(Period(0, cut, rate, gpus), held),
        apportion(Period(cut, 4 * HOUR, rate, gpus), held),
    )
    assert sum(whole.shares.values(), whole.idle) == whole.total == Fraction(rate) * 4
    assert min([whole.idle, *whole.shares.values()]) >= 0
    assert first.idle + second.idle == whole.idle
    for run, share in whole.shares.items():
        assert first.shares.get(run, 0) + second.shares.get(run, 0) == share
    shown = round_to_sum(whole.total, {**whole.shares, "": whole.idle})
    assert sum(shown.values()) == to_decimal(whole.total, 2)


# ── time ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_changed_clock_neither_adds_nor_takes_time_within_a_boot() -> None:
    start, back, forward = (
        Moment(1000.0, "a", 0),
        Moment(500.0, "a", 60 * SECOND),
        Moment(9e9, "a", 61 * SECOND),
    )
    assert (seconds_between(start, back), seconds_between(start, forward)) == (60.0, 61.0)
    assert seconds_between(start, Moment(1200.0, "b", 5)) == 200.0, (
        "another boot: only the wall clock knows both"
    )
    assert seconds_between(start, Moment(900.0, "b", 5)) == 0.0


def test_a_live_run_and_a_session_do_not_pay_for_a_changed_clock() -> None:
    session = Session(1000.0, "here", Price("1", "gpu", "session"), began=Moment(1000.0, "a", 0))
    later = Moment(999_999.0, "a", 3600 * SECOND)
    assert account_of(session, later).total == 1
    run = make_run(State.RUNNING, Price("1", "gpu", "flag"), 1, record=None)
    record = RunRecord(State.RUNNING, started=1000.0, began=Moment(1000.0, "a", 0))
    assert msgspec.structs.replace(run, record=record).seconds(later) == 3600


def test_a_boot_lies_where_its_latest_moment_puts_it() -> None:
    line = Timeline(
        [Moment(100.0, "a", 0), Moment(50.0, "a", 10 * SECOND), Moment(200.0, "b", SECOND)]
    )
    assert line.place(Moment(100.0, "a", 0)) == 40 * SECOND
    assert line.next_boot("a") == 199 * SECOND and line.next_boot("b") is None
    assert line.place(Moment(7.5)) == 7_500_000_000


def test_a_day_has_25_hours_when_the_clocks_go_back(berlin: None) -> None:
    midnight = 1_792_879_200  # 25 October 2026, 00:00 CEST
    days = local_days((midnight - 3600) * SECOND, (midnight + 26 * 3600) * SECOND)
    assert [day for day, _, _ in days] == ["2026-10-24", "2026-10-25", "2026-10-26"]
    assert [(end - start) // HOUR for _, start, end in days] == [1, 25, 1]


# ── a day ─────────────────────────────────────────────────────────────────────────────────────────

BEGIN = 1_792_879_200 - 2 * 3600  # two hours before the long day
END = BEGIN + 28 * 3600
CORRECTED = BEGIN + 5 * 3600 + 123  # until then, the clock of the first boot is 47 minutes fast
REBOOT = BEGIN + 15 * 3600 + 77
UP_AGAIN = REBOOT + 95
CRASHES = BEGIN + 9 * 3600 + 11


def wall_of(second: int) -> float:
    """What the machine's clock shows at a true unix second."""
    return float(second + (47 * 60 if second < CORRECTED else 0))


def moment_at(second: int) -> Moment:
    """What the machine notes of a moment."""
    first = second < UP_AGAIN
    return Moment(
        wall_of(second),
        "boot-1" if first else "boot-2",
        (second - (BEGIN if first else UP_AGAIN)) * SECOND,
    )


class Truth(msgspec.Struct):
    """A run as it really was: its GPUs, and the true seconds between which it held them."""

    run: str
    gpus: tuple[int, ...]
    start: int
    end: int
    lost: bool = False


SESSIONS = [
    (BEGIN + 60, BEGIN + 8 * 3600 + 1, Price("1.99", "gpu", "session"), 8),
    (BEGIN + 9 * 3600, BEGIN + 20 * 3600 + 59, Price("23.92", "machine", "session"), 8),
    (BEGIN + 21 * 3600, None, Price("3.39", "gpu", "session"), 8),
]


def invent_runs() -> list[Truth]:
    """40 runs that overlap, share GPUs, cross the ends of sessions, one that crashes and some that
    a reboot ends.
    """
    dice = random.Random(20261025)
    runs = []
    for i in range(40):
        start = BEGIN + dice.randrange(27 * 3600)
        if REBOOT <= start < UP_AGAIN:
            start = UP_AGAIN
        end = min(END, start + dice.randrange(1, 4 * 3600))
        gpus = tuple(sorted(dice.sample(range(8), dice.choice((1, 1, 1, 2, 3, 8)))))
        rebooted = start < REBOOT < end
        runs.append(Truth(f"run-{i:02d}", gpus, start, REBOOT if rebooted else end, lost=rebooted))
    crashed = next(run for run in runs if run.start < CRASHES < run.end)
    crashed.end, crashed.lost = CRASHES, True
    assert sum(run.lost for run in runs) >= 3 and runs.index(crashed) >= 0
    return runs


def line_for(truth: Truth) -> RunEntry:
    """What the ledger knows of a run: of a lost one, its last sign of life, and a record written
    much later.
    """
    noted = max(truth.end + 5000, UP_AGAIN + 50) if truth.lost else truth.end
    return RunEntry(
        truth.run,
        host_name(),
        f"preset-{int(truth.run[-1]) % 3}",
        truth.run,
        "lost" if truth.lost else "done",
        tuple(AssignedGpu(gpu, f"GPU-{gpu}", "H100", i) for i, gpu in enumerate(truth.gpus)),
        Price("2.50", "gpu", "preset"),
        moment_at(truth.start),
        moment_at(noted),
        wall_of(truth.end) if truth.lost else None,
    )


def session_of(start: int, end: int | None, price: Price, gpus: int) -> Session:
    return Session(
        started=wall_of(start),
        host=host_name(),
        price=price,
        gpus=gpus,
        id=f"session-{start}",
        began=moment_at(start),
        ended=None if end is None else wall_of(end),
        finished=None if end is None else moment_at(end),
        uuids=tuple(f"GPU-{gpu}" for gpu in range(gpus)),
    )


def reckon(
    start: int, end: int, rate: Decimal, gpus: int, runs: list[Truth]
) -> dict[str, Fraction]:
    """Second by second, GPU by GPU: who pays for it; `idle` where nobody holds it. Counted in
    840ths of a second.
    """
    paid: dict[str, int] = {"idle": 0}
    for second in range(start, end):
        present = [run for run in runs if run.start <= second < run.end]
        for gpu in range(gpus):
            holders = [run.run for run in present if gpu in run.gpus]
            for holder in holders or ["idle"]:
                paid[holder] = paid.get(holder, 0) + 840 // max(1, len(holders))
    return {run: Fraction(count, 840) * Fraction(rate) / gpus / 3600 for run, count in paid.items()}


def test_a_day_of_three_sessions_and_forty_runs_agrees_with_a_second_reckoning(
    berlin: None, tmp_path: Path
) -> None:
    truths = invent_runs()
    sharers = [
        sum(a.start <= t.start < a.end and bool({*a.gpus} & {*t.gpus}) for a in truths)
        for t in truths
    ]
    assert 2 <= max(sharers) <= 8, "some share a GPU, and no more than 840 can be divided by"
    state = StateDirectory().create()
    sessions = [session_of(*session) for session in SESSIONS]
    written = [*map(line_for, truths), line_for(truths[0]), *map(SessionLine, sessions)]
    state.ledger.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in written))
    state.session.write_bytes(msgspec.json.encode(sessions[-1]))
    books = open_statement(state, [], moment_at(END))
    assert len(books.lines) == 40 and len(books.sessions) == 3
    spent = Fraction(0)
    for session, (start, stated_end, _, gpus) in zip(books.sessions, SESSIONS, strict=True):
        end = END if stated_end is None else stated_end
        expected = reckon(start, end, session.rate, gpus, truths)
        account = books.account(session)
        assert sum(account.shares.values(), account.idle) == account.total
        assert account.total == Fraction(session.rate) * (end - start) / 3600
        assert {**account.shares, "idle": account.idle} == {
            run: sum_ for run, sum_ in expected.items() if sum_
        }
        shown = round_to_sum(account.total, {**account.shares, "idle": account.idle})
        assert sum(shown.values()) == to_decimal(account.total, 2)
        assert all(
            abs(shown[run] - to_decimal(expected[run], 6)) < Decimal("0.01") for run in shown
        )
        spent += account.total
    spending = books.spending()
    assert [*spending.days] == ["2026-10-24", "2026-10-25", "2026-10-26"]
    assert sum((sum_ for sum_, _ in spending.days.values()), Fraction(0)) == spent
    outside = sum((books.would_cost(run) or Fraction(0) for run in books.lines), Fraction(0))
    idle = sum((idle for _, idle in spending.days.values()), Fraction(0))
    assert outside > 0 and sum(spending.runs.values()) + idle == spent
    assert sum(spending.presets.values()) == sum(spending.runs.values())


def test_the_panel_s_account_is_the_book_s_at_every_moment() -> None:
    state = StateDirectory().create()
    session = session_of(BEGIN, None, Price("1.99", "gpu", "session"), 8)
    state.session.write_bytes(msgspec.json.encode(session))
    state.ledger.write_bytes(
        msgspec.json.encode(line_for(Truth("run-00", (0,), BEGIN, BEGIN + 600))) + b"\n"
    )
    gpus = (AssignedGpu(0, "GPU-0", "H100", 0), AssignedGpu(1, "GPU-1", "H100", 1))
    origin = msgspec.structs.replace(make_plan().origin, host=host_name())
    record = RunRecord(State.RUNNING, started=wall_of(BEGIN + 300), began=moment_at(BEGIN + 300))
    live = make_run(id="run-01", plan=make_plan(gpus=gpus, origin=origin), record=record)
    keeper = CostReader(state)
    for second in (BEGIN + 600, BEGIN + 601, BEGIN + 3600):
        now = moment_at(second)
        kept, fresh = (
            keeper.read([live], now, whole=True).account,
            open_statement(state, [live], now).account(session),
        )
        assert kept is not None and (kept.total, kept.shares, kept.idle) == (
            fresh.total,
            fresh.shares,
            fresh.idle,
        )
    ended = RunRecord(State.DONE, started=wall_of(BEGIN + 300), ended=wall_of(BEGIN + 3700))
    done = msgspec.structs.replace(live, state=State.DONE, record=ended)
    line = line_for(Truth("run-01", (0, 1), BEGIN + 300, BEGIN + 3700))
    with state.ledger.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
    kept = keeper.read([done], moment_at(BEGIN + 7200), whole=True).account
    assert kept is not None
    assert kept.shares["run-01"] == Fraction("1.99") * (3400 + 150 + 3100) / 3600, (
        "it shared GPU 0 for 300 s"
    )
    assert sum(kept.shares.values(), kept.idle) == kept.total == Fraction(RATE) * 2


def test_damaged_and_foreign_lines_of_the_ledger_are_passed_over() -> None:
    state = StateDirectory().create()
    mine = line_for(Truth("run-00", (0,), BEGIN, BEGIN + 3600))
    other = msgspec.structs.replace(mine, run="run-01", host="elsewhere")
    state.ledger.write_bytes(
        b'{"half": \n' + msgspec.json.encode(mine) + b"\n\n" + msgspec.json.encode(other) + b"\n"
    )
    assert [*open_statement(state, [], moment_at(END)).lines] == ["run-00"]


def test_a_run_outside_of_every_session_costs_nothing_and_would_cost_its_own_price() -> None:
    line = line_for(Truth("run-00", (0, 1), BEGIN, BEGIN + 1800))
    books = Statement([], [line], moment_at(END))
    assert books.run_costs() == {} and books.spending().presets == {}
    assert books.would_cost("run-00") == Fraction("2.5")
    free = Statement([], [msgspec.structs.replace(line, price=None)], moment_at(END))
    assert free.run_costs() == {} and free.would_cost("run-00") is None


@pytest.mark.parametrize("moment", [1e308, -1e308, 0.0, 1_790_000_000.25])
def test_an_absurd_time_of_one_record_is_still_a_time(moment: float) -> None:
    assert 0 <= wall_ns(moment) < wall_ns(300_000_000_000.0) + 1
    assert wall_ns(1_790_000_000.25) == 1_790_000_000_250_000_000


def test_a_wall_time_is_placed_by_the_clock_that_it_was_read_by() -> None:
    since, corrected = Moment(1000.0, "b", 100 * SECOND), Moment(5100.0, "b", 200 * SECOND)
    timeline = Timeline([corrected, since])
    later, elsewhere = Moment(5200.0, "b", 300 * SECOND), Moment(9000.0, "c", SECOND)

    def placed(wall: float, until: Moment) -> float:
        return timeline.place_in_boot(wall, since, until) / SECOND

    assert placed(1050.0, corrected) == placed(1050.0, later) == placed(1050.0, elsewhere) == 5050
    assert placed(1100.0, corrected) == 5100
    assert placed(5150.0, later) == placed(5150.0, elsewhere) == 5150
    assert placed(950.0, later) == 4950  # before what is known: as far from it as it says
    unknown = Moment(1000.0)
    assert timeline.place_in_boot(1050.0, unknown, later) == wall_ns(1050.0)
