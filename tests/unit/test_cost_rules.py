"""Rules of money that hold in general: parts of cards, billed units, corrected clocks,
models that are no other's.
"""

from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cost.accounting import Period, Usage, apportion, idle_of_cards
from runners.cost.ledger import RunEntry
from runners.cost.meter import spent_at
from runners.cost.opening import Per, rate_caveat
from runners.cost.prices import (
    choose_price,
    fitting_prices,
    list_prices,
    matches_model,
    price_caveat,
    stopping_text,
)
from runners.cost.rates import HOUR_NS, SECOND_NS, device_count, hourly_rate, price_age
from runners.cost.sessions import Session, change_price, end_session, read_session, start_session
from runners.cost.statement import Statement
from runners.gpus.cards import card_models, fraction_of, list_cards, part_of
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.errors import WrongInput
from runners.model.gpus import UNREAD, GpuReading, GpuSnapshot
from runners.model.plan import AssignedGpu
from runners.model.spec import GpuRequest, Price
from runners.scheduling.allocation import Allocation, allocate
from runners.state.layout import StateDirectory
from tests.support import account_of

H100 = GpuSnapshot(0, "GPU-0", "NVIDIA H100 80GB HBM3", "nvidia", "0000:01:00.0")


def instances(*profiles: str) -> tuple[GpuSnapshot, ...]:
    """One H100 cut in instances: the card's row, and one for each."""
    return (
        H100,
        *(
            GpuSnapshot(0, f"MIG-{i}", f"{H100.name} MIG {one}", "nvidia", mig_parent="GPU-0")
            for i, one in enumerate(profiles)
        ),
    )


def partitions(count: int) -> tuple[GpuSnapshot, ...]:
    """One MI300X in CPX."""
    return tuple(
        GpuSnapshot(
            i,
            f"GPU-{i:016x}",
            "AMD Instinct MI300X CPX",
            "amd",
            "0000:05:00.0",
            partition=f"CPX {i}/{count}",
        )
        for i in range(count)
    )


# ── cards and their parts ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("gpus", "cards"),
    [(instances("1g.10gb", "1g.10gb", "1g.10gb"), 1), (partitions(8), 1), ((H100,), 1)],
)
def test_a_card_that_is_cut_is_billed_once(gpus: tuple[GpuSnapshot, ...], cards: int) -> None:
    assert len(list_cards(gpus)) == cards == len(card_models(gpus))
    price = Price("3.39", "gpu", "session")
    assert hourly_rate(price, len(list_cards(gpus))) == Decimal("3.39")


@given(
    st.lists(st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"]), min_size=1, max_size=7)
)
def test_the_instances_of_a_card_are_the_whole_card(profiles: list[str]) -> None:
    gpus = instances(*profiles)
    parts = [fraction_of(gpu, gpus) for gpu in gpus[1:]]
    assert sum(parts) == 1 and all(part > 0 for part in parts)


def test_a_run_on_one_of_three_instances_pays_a_third_and_the_rest_is_idle() -> None:
    gpus = instances("1g.10gb", "1g.10gb", "1g.10gb")
    granted = allocate(GpuRequest(1), GpuReading(0.0, "here", "nvml", gpus), {})
    assert isinstance(granted, Allocation)
    (held,) = granted.assigned(None)
    assert (held.card, held.part) == ("GPU-0", (1, 3))
    assert device_count((held,)) == Fraction(1, 3)
    line = entry("a", (held,), Moment(0.0, "b", 0), Moment(3600.0, "b", HOUR_NS))
    session = Session(
        0.0,
        host_name(),
        Price("3.39", "gpu", "session"),
        1,
        id="s",
        uuids=("GPU-0",),
        began=Moment(0.0, "b", 0),
    )
    books = Statement([session], [line], Moment(3600.0, "b", HOUR_NS))
    account = books.account(session)
    assert account.total == Fraction("3.39") and account.shares == {"a": Fraction("1.13")}
    assert account.idle == Fraction("2.26") and books.gpu_hours("a") == Fraction(1, 3)
    eighth = part_of(partitions(8)[3], partitions(8))
    assert eighth == ("0000:05:00.0", (1, 8))


usages = st.lists(
    st.builds(
        lambda run, units, start, length: Usage(
            run,
            tuple(units),
            start,
            start + length,
            {unit: (f"card-{unit[0]}", 1, int(unit[1])) for unit in units if unit[1] != "1"},
        ),
        st.sampled_from("abcd"),
        st.sets(st.sampled_from(["a1", "b2", "b3", "b7", "c3", "c4"]), min_size=1, max_size=4),
        st.integers(0, 3 * HOUR_NS),
        st.integers(0, 3 * HOUR_NS),
    ),
    max_size=8,
)


@given(usages, st.integers(1, 4))
def test_parts_and_idle_make_up_the_total_whatever_is_held(found: list[Usage], cards: int) -> None:
    period = Period(0, 2 * HOUR_NS, Decimal("6"), cards)
    account = apportion(period, found)
    assert sum(account.shares.values()) + account.idle == account.total
    assert account.idle >= 0 and all(share > 0 for share in account.shares.values())
    idle = idle_of_cards(period, found)
    assert idle is None or idle == account.idle


# ── billed units ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("seconds", "unit", "minimum", "billed"),
    [
        (61, 60, 0, 120),
        (60, 60, 0, 60),
        (1, 3600, 0, 3600),
        (5, 1, 60, 60),
        (61.5, 1, 60, 62),
        (0, 60, 60, 0),
        (61, 0, 0, 61),
    ],
)
def test_a_begun_unit_is_billed_whole(seconds: float, unit: int, minimum: int, billed: int) -> None:
    whole = Period(
        0, round(seconds * SECOND_NS), Decimal(3600), 1, unit * SECOND_NS, minimum * SECOND_NS
    )
    assert whole.total == billed
    price = Price("3600", "machine", "session", unit_s=unit, minimum_s=minimum)
    session = Session(0.0, "here", price)
    assert account_of(session, Moment(float(seconds))).total == billed


@given(
    st.integers(0, 4 * 86_400), st.sampled_from([0, 1, 60, 3600]), st.sampled_from([0, 60, 7200])
)
def test_the_days_of_a_session_add_up_to_its_bill(lasts: int, unit: int, minimum: int) -> None:
    price = Price("2.5", "machine", "session", unit_s=unit, minimum_s=minimum)
    begin = Moment(1_795_000_000.0, "b", 0)
    now = Moment(begin.wall + lasts, "b", lasts * SECOND_NS)
    session = Session(begin.wall, host_name(), price, 2, id="s", began=begin, uuids=("GPU-0",))
    held = entry("a", (AssignedGpu(0, "GPU-0", "H100", 0),), begin, None)
    books = Statement([session], [held], now)
    account, days = books.account(session), books.days(session)
    assert sum(spent for _, spent, _ in days) == account.total == books.period(session).total
    assert sum(idle for _, _, idle in days) == account.idle
    assert account.total >= Fraction("2.5") * lasts / 3600


def test_what_a_provider_bills_has_a_source() -> None:
    billed = [entry for entry in list_prices() if entry.unit_s or entry.minimum_s]
    assert billed and all(entry.billing_source for entry in billed)
    assert choose_price("runpod-secure-h100-sxm", "session").unit_s == 1
    assert "billed per second (docs.runpod.io" in stopping_text("runpod-secure-h100-sxm")


# ── clocks ────────────────────────────────────────────────────────────────────────────────────────


def entry(
    run: str,
    gpus: tuple[AssignedGpu, ...],
    began: Moment,
    finished: Moment | None,
    seen: float | None = None,
) -> RunEntry:
    return RunEntry(
        run,
        host_name(),
        "demo",
        "demo",
        "done",
        gpus,
        Price("1", "gpu", "flag"),
        began,
        finished,
        seen,
    )


@given(
    st.integers(-4 * 3600, 4 * 3600),
    st.integers(1, 20_000),
    st.integers(0, 20_000),
    st.integers(1, 20_000),
)
def test_a_clock_corrected_after_a_crash_makes_no_hours(
    step: int, ran: int, until_adopted: int, until_now: int
) -> None:
    """The clock is wrong by `step` until a moment between the crash and now."""

    def at(second: int, wrong: int) -> Moment:
        return Moment(1_795_000_000.0 + second + wrong, "boot", second * SECOND_NS)

    crash, adopted = 100 + ran, 100 + ran + until_adopted
    for wrong_at_adoption in (0, step):
        line = entry(
            "a", (), at(100, step), at(adopted, wrong_at_adoption), seen=at(crash, step).wall
        )
        books = Statement([], [line], at(adopted + until_now, 0))
        start, end = books.span("a")
        assert end - start == ran * SECOND_NS, (step, wrong_at_adoption)


def test_a_budget_that_lasts_beyond_every_date_has_none() -> None:
    session = Session(0.0, "here", Price("0.01", "machine", "session"), budget="1000000")
    now = Moment(1.8e9)
    assert spent_at(session, Decimal(1_000_000), now, 0.0) is None
    assert spent_at(session, Decimal(1), now, 0.0) == 1.8e9 + 360_000


@pytest.mark.parametrize(
    ("budget", "lasts"), [(72, 3579), (100, 3579), (144, 7179), (200, 7179), (71, 0)]
)
def test_a_budget_lasts_until_a_unit_begins_that_it_does_not_pay(budget: int, lasts: int) -> None:
    session = Session(0.0, "here", Price("72", "machine", "session", unit_s=3600))
    now = Moment(21.0)
    assert spent_at(session, Decimal(budget - 72), now, 21.0) == 21.0 + lasts


def test_a_session_after_a_boot_whose_clock_was_fast_begins_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = StateDirectory().create()
    fast, wall = 10_800.0, 1_795_000_000.0

    def at(moment: Moment) -> None:
        monkeypatch.setattr("runners.cost.sessions.moment_now", lambda: moment)

    at(Moment(wall + fast, "fast", 600 * SECOND_NS))
    start_session(state, "3600", 1, "now")
    at(Moment(wall + fast + 60, "fast", 660 * SECOND_NS))
    end_session(state)
    now = Moment(wall + 120, "right", 30 * SECOND_NS)
    at(now)
    assert account_of(start_session(state, "3600", 1, "boot"), now).lasted_s == 30
    at(Moment(wall + 130, "right", 40 * SECOND_NS))
    end_session(state)
    at(Moment(wall + 140, "right", 50 * SECOND_NS))
    assert account_of(start_session(state, "3600", 1, "now"), moment_now()).lasted_s >= 0


# ── prices ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("driver", "match", "fits"),
    [
        ("NVIDIA GH200 480GB", "H200", False),
        ("NVIDIA GB200", "B200", False),
        ("NVIDIA H100 PCIe", "H100 SXM", False),
        ("NVIDIA H100 PCIe", "H100 PCIe", True),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", True),
        ("NVIDIA H100 NVL", "H100 SXM", False),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 80GB", False),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB", True),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB", True),
        ("NVIDIA A10G", "A10", False),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", True),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090", False),
        ("AMD Instinct MI300X CPX", "MI300X", True),
        ("AMD Instinct MI300X", "", False),
    ],
)
def test_models_are_compared_and_not_parts_of_words(driver: str, match: str, fits: bool) -> None:
    assert matches_model(match, driver) is fits


def test_what_does_not_fit_is_said() -> None:
    eight = next(one for one in list_prices() if one.name == "digitalocean-8xh100")
    mi300x = ["AMD Instinct MI300X"]
    assert "is for 8 × H100 SXM, and this machine has 1 × AMD" in price_caveat(eight, mi300x)
    assert "for a machine of 8, this one has 2 ×" in price_caveat(eight, [H100.name] * 2)
    assert price_caveat(eight, [H100.name] * 8) == ""
    assert [one.name for one in fitting_prices("", "NVIDIA GH200 480GB", 1)] == ["lambda-gh200"]


@pytest.mark.parametrize("per", ["gpu", "machine"])
def test_a_rate_for_gpus_that_nobody_reads_waits_for_their_number(per: Per) -> None:
    unread = msgspec.structs.replace(H100, unread="not read since noon")
    hung = GpuReading(0.0, "box", "nvml", (unread,))
    never = GpuReading(0.0, "box", UNREAD, problem="the driver does not answer")
    for reading in (hung, never):
        assert rate_caveat("2", per, reading)
        assert not rate_caveat("2", per, reading, gpus=1)
    # A machine without a driver has no GPUs, as far as is known: its own rate is no doubt.
    none = GpuReading(0.0, "box", "none", problem="no driver")
    assert bool(rate_caveat("2", per, none)) == (per == "gpu")


def test_a_market_price_is_old_after_a_fortnight_and_a_list_price_after_a_quarter() -> None:
    market = choose_price("vast-h100-sxm", "session")
    listed = choose_price("hyperstack-h100-sxm", "session")
    assert (market.kind, market.date, listed.date) == ("market", "2026-10-19", "2026-08-26")
    assert price_age(market, date(2026, 11, 2)) == ""
    assert price_age(market, date(2026, 11, 3)) == "15 days old"
    assert price_age(listed, date(2026, 11, 24)) == ""
    assert price_age(listed, date(2026, 11, 25)) == "91 days old"
    assert price_age(choose_price("runpod-mi300x", "session")) == "of unknown age"


def test_an_entry_of_your_own_may_give_only_what_differs(tmp_path: Path) -> None:
    own = tmp_path / "config" / "fresnel-tui" / "prices.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("prices:\n  amd-cloud-mi300x: {usd_per_hour: 1.70, date: 2026-11-20}\n")
    price = choose_price("amd-cloud-mi300x", "session")
    assert (price.usd_per_hour, price.source) == ("1.7", "prices.yaml of your own")
    assert "a powered-off machine is still billed" in stopping_text("amd-cloud-mi300x")


def test_a_date_that_is_none_is_refused_and_a_bare_amount_needs_no_list(tmp_path: Path) -> None:
    own = tmp_path / "config" / "fresnel-tui" / "prices.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("prices:\n  amd-cloud-mi300x: {usd_per_hour: 1.70, date: yesterday}\n")
    assert choose_price("2.5", "session", "machine").usd_per_hour == "2.5", "needs no list"
    with pytest.raises(WrongInput, match="date: expected a day such as"):
        choose_price("amd-cloud-mi300x", "session")


def test_a_price_is_corrected_for_the_whole_session_also_afterwards() -> None:
    state = StateDirectory()
    before = start_session(state, "2", 1, "now", per="machine")
    change_price(state, "3.50", "machine", 8)
    session = read_session(state)
    assert session is not None and (session.rate, session.gpus) == (Decimal("3.50"), 8)
    assert (session.id, session.began) == (before.id, before.began)
    assert msgspec.json.decode(state.session.read_bytes())["price"]["usd_per_hour"] == "3.50"
