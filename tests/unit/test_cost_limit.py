"""A limit of cost follows the session's price; what waits holds no guard off silently."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.cost.sessions import Session, SessionLine, change_price, end_session, start_session
from runners.guard.rule import GuardRule
from runners.guard.triggers import Measurements, find_problems
from runners.host.clock import Moment, moment_now
from runners.host.files import append_line
from runners.host.identity import host_name
from runners.lifecycle.supervisor.pollers import TimeLimit
from runners.model.spec import Price
from runners.state.layout import StateDirectory
from runners.state.records import PlanFields, plan_fields

RUN = "20261120-101500-a-0001"


def plan_of(**spec: Any) -> PlanFields:
    """A run on one and a half GPUs in a session of $2/h per GPU, limited to $6: two hours."""
    price = {"usd_per_hour": "2", "per": "gpu", "basis": "session"}
    gpus = [{"uuid": "GPU-0"}, {"uuid": "GPU-1", "part": [1, 2]}]
    limits = {"limits": {"cost": "6", "time": None, **spec}}
    return plan_fields(
        {"limit_s": 7200.0, "limit_usd": "6", "price": price, "gpus": gpus, "spec": limits}
    )


@pytest.mark.parametrize(
    ("price", "per", "hours"), [("4", "gpu", 1.0), ("1", "gpu", 4.0), ("32", "machine", 1.0)]
)
def test_a_limit_of_cost_follows_a_corrected_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, price: str, per: Any, hours: float
) -> None:
    state = StateDirectory(tmp_path).create()
    start_session(state, "2", 8, since="now")
    limit = TimeLimit(state.run(RUN), plan_of(), moment_now(), lambda _: None)
    now = time.monotonic()
    assert limit._ends_at - now == pytest.approx(7200, abs=60)
    change_price(state, price, per)
    limit.poll(now + 11)
    assert limit._ends_at - now == pytest.approx(hours * 3600, abs=60)


@pytest.mark.parametrize(
    ("held", "price", "hours"),
    # Of a machine at $6/h: all of it for an hour, or one and a half of its eight GPUs.
    [("machine", "6", 1.0), ("gpu", "6", 8 / 1.5)],
)
def test_a_run_pays_for_the_machine_or_for_its_gpus(
    tmp_path: Path, held: str, price: str, hours: float
) -> None:
    state = StateDirectory(tmp_path).create()
    gpus = 1 if held == "machine" else 8
    start_session(state, price, gpus, since="now", per="machine")
    plan = plan_of()
    assert plan["price"] is not None
    plan["price"]["per"] = held
    limit = TimeLimit(state.run(RUN), plan, moment_now(), lambda _: None)
    assert limit._limit.seconds == pytest.approx(hours * 3600, abs=60)


def test_the_earlier_of_both_limits_counts_after_a_correction(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    start_session(state, "0.01", 8, since="now")
    limit = TimeLimit(state.run(RUN), plan_of(time=1800.0), moment_now(), lambda _: None)
    assert limit._limit == (1800.0, "")
    change_price(state, "20")
    limit.poll(time.monotonic() + 11)
    assert limit._limit == (pytest.approx(720.0), "6")


def test_a_limit_stays_where_no_session_says_another_price(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    start_session(state, "4", 8, since="now")
    end_session(state)
    limit = TimeLimit(state.run(RUN), plan_of(), moment_now(), lambda _: None)
    assert limit._limit == (7200.0, "6")
    state.session.write_text("{damaged")
    limit.poll(time.monotonic() + 11)
    assert limit._limit == (7200.0, "6")


@pytest.mark.parametrize(
    ("before", "after", "hours"),
    # $3/h for an hour, then half or four times as much for what is left of the $6; $9/h: nothing.
    [("2", "1", 1 + 3 / 1.5), ("2", "8", 1 + 3 / 12), ("6", "2", 1.0)],
)
def test_what_an_earlier_session_cost_counts_by_its_own_price(
    tmp_path: Path, before: str, after: str, hours: float
) -> None:
    state, now = StateDirectory(tmp_path).create(), moment_now()
    write_session(state, now, 5.0, 4.0, "500")
    write_session(state, now, 3.0, 1.0, before)
    # Half an hour between them: nothing was paid in it.
    write_session(state, now, 0.5, None, after)
    run = state.run(RUN)
    limit = TimeLimit(run, plan_of(), ago(now, 2.0), lambda _: None)
    assert limit._limit == (pytest.approx(3600 * (hours + 0.5)), "6")
    began_since = TimeLimit(run, plan_of(), ago(now, 0.1), lambda _: None)
    assert began_since._limit.seconds == pytest.approx(3600 * 4 / float(after))


def ago(now: Moment, hours: float) -> Moment:
    return Moment(now.wall - hours * 3600, now.boot, (now.boot_ns or 0) - round(hours * 3600e9))


def write_session(
    state: StateDirectory, now: Moment, began: float, ended: float | None, price: str
) -> None:
    """A session that began and ended so many hours ago, in session.json and in the ledger."""
    start, end = ago(now, began), None if ended is None else ago(now, ended)
    session = Session(
        start.wall,
        host_name(),
        Price(price, "gpu", "session"),
        8,
        ended=None if end is None else end.wall,
        id=f"session-{began}",
        began=start,
        finished=end,
    )
    state.session.write_bytes(msgspec.json.encode(session))
    append_line(state.ledger, msgspec.json.encode(SessionLine(session)))


def test_only_a_queue_that_keeps_the_guard_from_acting_is_a_problem_of_it() -> None:
    rule = GuardRule("a", "anna", moment_now(), no_run_s=60.0)
    (problem,) = find_problems(rule, Measurements(quiet_s=0.0, queued=(RUN,)))
    assert RUN in problem
    assert not find_problems(rule, Measurements(quiet_s=61.0, queued=(RUN,))), "drained: it acts"
    assert not find_problems(rule, Measurements(quiet_s=0.0))
