"""What a supervisor looks at while its program runs: when it looks again, and what it does once."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runners.cost.sessions import start_session
from runners.host.clock import Moment, moment_now, seconds_between
from runners.lifecycle.supervisor import pollers
from runners.lifecycle.supervisor.pollers import (
    NEVER,
    LatePoller,
    OverrunNotice,
    ShutdownNotice,
    SuspensionAlert,
    TimeLimit,
    UnmarkedProcesses,
)
from runners.model.endings import EndingCause
from runners.state.layout import RunDirectory
from runners.state.limits import Limit, follows_price, limit_now
from runners.state.records import IntentFields, plan_fields


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is sent as a notification: kind and text."""
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(pollers, "notify", lambda _run, kind, text: sent.append((kind, text)))
    return sent


class Counted:
    """Polled every 7 s."""

    def __init__(self) -> None:
        self.polled: list[float] = []

    def poll(self, now: float) -> float:
        self.polled.append(now)
        return 7.0


def test_what_begins_late_is_not_polled_before() -> None:
    counted = Counted()
    made: list[Counted] = []

    def begin() -> Counted:
        made.append(counted)
        return counted

    late = LatePoller(begin, 60.0)
    begins = late._begins
    assert late.poll(begins - 5) == pytest.approx(5.0) and not made
    assert late.poll(begins) == 7.0 and late.poll(begins + 1) == 7.0
    assert counted.polled == [begins, begins + 1] and len(made) == 1


def test_an_overrun_is_told_once_whoever_found_it(
    run: RunDirectory, told: list[tuple[str, str]]
) -> None:
    notice = OverrunNotice(run)
    assert notice.poll(0.0) == 20.0 and not told
    run.overrun.write_text(json.dumps({"text": "too much"}))
    assert notice.poll(20.0) == notice.poll(40.0) == NEVER
    assert OverrunNotice(run).poll(60.0) == NEVER, "who adopts the run"
    assert told == [("alert", "too much")]


class Unmarked:
    """Processes of a run that have no mark, as they are found at each look."""

    def __init__(self) -> None:
        self.unmarked: dict[int, int] = {}
        self.looks = 0

    def find(self) -> None:
        self.looks += 1


def test_processes_without_a_mark_are_written_down_when_they_change() -> None:
    processes, written, is_full = Unmarked(), [], True

    def write(fields: Any) -> bool:
        written.append(fields["followed"])
        return not is_full

    look = UnmarkedProcesses(processes, write)  # type: ignore[arg-type]
    first = look._next
    assert look.poll(first - 0.5) == pytest.approx(0.5) and not processes.looks
    assert look.poll(first) == 20.0 and processes.looks == 1 and not written
    processes.unmarked = {8: 80, 7: 70}
    look.poll(first + 20)
    is_full = False
    look.poll(first + 40)
    assert written == [[(7, 70), (8, 80)]] * 2, "until the disk takes it"
    look.poll(first + 60)
    assert len(written) == 2 and processes.looks == 4


@pytest.mark.parametrize(
    ("limit", "usd", "ending"),
    [
        (60.0, "", {"cause": EndingCause.LIMIT, "seconds": 60.0}),
        (60.0, "5", {"cause": EndingCause.LIMIT, "seconds": 60.0, "usd": "5"}),
    ],
)
def test_a_limit_is_asked_for_once_and_leaves_a_user_s_stop_alone(
    run: RunDirectory, limit: float, usd: str, ending: dict[str, Any]
) -> None:
    plan = plan_fields({"limit_s": limit, "limit_usd": usd})
    asked: list[IntentFields] = []
    reached = TimeLimit(run, plan, moment_now(), asked.append)
    ends = reached._ends_at
    assert 50 < ends - time.monotonic() <= 60
    assert reached.poll(ends - 3) == pytest.approx(3.0) and not asked
    assert reached.poll(ends) == reached.poll(ends + 1) == NEVER
    assert [intent["ending"] for intent in asked] == [ending]
    run.stop.write_text("{}")
    assert TimeLimit(run, plan, Moment(0.0), asked.append).poll(ends) == NEVER
    assert len(asked) == 1
    assert TimeLimit(run, plan_fields({}), Moment(0.0), asked.append).poll(1e12) == NEVER


def test_a_price_is_looked_at_every_ten_seconds(run: RunDirectory) -> None:
    start_session(run.home, "2", 1, since="now")
    price = {"usd_per_hour": "2", "per": "gpu", "basis": "session"}
    limits: dict[str, Any] = {
        "limit_s": 7200.0,
        "limit_usd": "4",
        "spec": {"limits": {"cost": "4"}},
    }
    plan = plan_fields({"price": price, "gpus": [{"uuid": "GPU-0"}], **limits})
    limit = TimeLimit(run, plan, moment_now(), lambda _: None)
    now = limit._look_at
    assert limit.poll(now - 4) == pytest.approx(4.0)
    assert limit.poll(now) == pytest.approx(10.0) and limit._look_at == now + 10
    limits["limit_s"] = 3600.0  # by the price of its launch, which has been corrected since
    run.plan.write_text(json.dumps({"price": price, "gpus": [{"uuid": "GPU-0"}], **limits}))
    assert limit_now(run, moment_now()) == Limit(pytest.approx(7200.0, abs=60), "4")
    assert limit_now(run, None) == Limit(pytest.approx(7200.0, abs=60), "4"), "not begun yet"
    run.plan.write_text(json.dumps({"limit_s": 90.0}))
    assert limit_now(run, None) == Limit(90.0)
    assert follows_price(plan) and not follows_price(plan_fields({"price": price}))
    assert not follows_price(plan_fields({"price": price | {"basis": "preset"}, **limits}))


def test_a_suspended_machine_is_said(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    alert = SuspensionAlert(run)
    assert alert.poll(0.0) == 20.0 and not run.supervisor_events.exists()
    monkeypatch.setattr(alert._watch, "poll", lambda: 3600.0)
    assert alert.poll(20.0) == 20.0
    (event,) = [json.loads(line) for line in run.supervisor_events.read_text().splitlines()]
    assert event["type"] == "alert" and event["text"].endswith(" 1h00m")


@pytest.fixture
def default_term() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("default_term")
@pytest.mark.parametrize(("provider", "left_s"), [("AWS", 85.0), ("Google Cloud", 25.0)])
def test_a_machine_s_shutdown_stops_the_run_in_the_time_that_is_left(
    run: RunDirectory,
    told: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    left_s: float,
) -> None:
    monkeypatch.setattr(pollers, "what_ends", lambda: "machine")
    run.home.session.write_text(json.dumps({"provider": provider}))
    asked: list[Any] = []
    notice = ShutdownNotice(run, asked.append)
    assert notice.poll(0.0) == NEVER and not asked
    os.kill(os.getpid(), signal.SIGTERM)
    assert notice.poll(1.0) == notice.poll(2.0) == NEVER
    (intent,) = asked
    left = seconds_between(moment_now(), Moment(*intent["deadline"]))
    assert left_s - 5 < left <= left_s
    assert intent["ending"]["cause"] is EndingCause.PREEMPTED and len(told) == 1
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, "a second one ends nothing"
    notice.heed_end(by_sigterm=False)
    assert len(asked) == 1


@pytest.mark.usefixtures("default_term")
def test_a_user_s_stop_stays_the_reason_when_the_machine_is_shut_down(
    run: RunDirectory, told: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pollers, "what_ends", lambda: "machine")
    run.stop.write_text(json.dumps({"time": 1.0, "by": "me", "ending": {"cause": "stopped"}}))
    asked: list[Any] = []
    notice = ShutdownNotice(run, asked.append)
    os.kill(os.getpid(), signal.SIGTERM)
    notice.poll(0.0)
    assert (asked[0]["by"], asked[0]["ending"]["cause"]) == ("me", EndingCause.STOPPED)


@pytest.mark.usefixtures("default_term")
@pytest.mark.parametrize("has_come", [False, True])
def test_a_shutdown_that_has_come_ends_who_has_nothing_left_to_record(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, has_come: bool
) -> None:
    sent: list[tuple[int, int]] = []
    notice = ShutdownNotice(run, lambda _: None)
    notice._ends = "machine" if has_come else ""
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    notice.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert sent == ([(os.getpid(), signal.SIGTERM)] if has_come else [])


@pytest.mark.usefixtures("default_term")
def test_the_end_of_a_login_is_recorded_as_that_for_runs_that_survive_a_boot_too(
    run: RunDirectory, told: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pollers, "what_ends", lambda: "login")
    asked: list[Any] = []
    notice = ShutdownNotice(run, asked.append, survives_boot=True)
    os.kill(os.getpid(), signal.SIGTERM)
    notice.poll(0.0)
    assert asked[0]["ending"]["cause"] is EndingCause.LOGOUT and not told


@pytest.mark.usefixtures("default_term")
def test_a_run_that_survives_a_boot_is_left_to_it(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pollers, "what_ends", lambda: "machine")
    sent: list[tuple[int, int]] = []
    asked: list[Any] = []
    notice = ShutdownNotice(run, asked.append, survives_boot=True)
    received = signal.getsignal(signal.SIGTERM)
    notice.heed_end(by_sigterm=True)
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    assert callable(received)
    received(signal.SIGTERM, None)
    assert not asked and sent == [(os.getpid(), signal.SIGTERM)]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
