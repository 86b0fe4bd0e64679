"""What the clouds announce of a machine's end, in their documented formats, asked of a real local
server; how long a run's ladder is then; what becomes of the session.
"""

from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cost.cloud_notices import CloudNotice, Unanswered, ask_notice
from runners.cost.meter import Meter
from runners.cost.preemption import Preemption, read_preemption, write_preemption
from runners.cost.sessions import load_session, read_session, settle_preemption, start_session
from runners.cost.statement import open_statement
from runners.guard.keeper import ensure_preemption_watch
from runners.guard.preemption_watch import EVERY_S, PreemptionWatch
from runners.guard.rule import GuardView
from runners.host.clock import Moment, moment_now
from runners.host.identity import boot_id, host_name
from runners.host.locks import locked
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.supervisor.stop_escalation import Ladder
from runners.model.endings import Ending, EndingCause
from runners.model.plan import Origin
from runners.model.run import StopIntent
from runners.model.units import duration_text
from runners.presets.reading.user_settings import NoticeKeys
from runners.state.codec import read_intent
from runners.state.layout import StateDirectory, settings_file
from tests.clouds import Cloud, serving
from tests.support import CEILING_S, make_plan, make_run
from tui.panel.notifications import changes_between
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.money.guard_text import guard_alarm, guard_json, guard_text

NOW = 1_790_000_000.0
NOTHING = Meter(None, None, None, None, "")


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with serving() as server:
        yield server


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def http(moment: float) -> str:
    return format_datetime(datetime.fromtimestamp(moment, timezone.utc), usegmt=True)


@pytest.mark.parametrize(
    ("action", "risk", "found"),
    [
        (None, None, None),
        ({"action": "terminate", "time": iso(NOW + 118)}, None, ("terminate", 118.0, True)),
        ({"action": "stop", "time": iso(NOW + 40)}, None, ("stop", 40.0, True)),
        ({"action": "hibernate", "time": iso(NOW + 40)}, None, ("hibernate", None, False)),
        (None, {"noticeTime": iso(NOW)}, ("rebalance recommendation", None, False)),
        # A clock that is hours off: the documented two minutes count from now.
        ({"action": "terminate", "time": iso(NOW - 7200)}, None, ("terminate", 120.0, True)),
        ({"action": "terminate", "time": iso(NOW + 7200)}, None, ("terminate", 120.0, True)),
        ({"action": "terminate", "time": "soon"}, None, ("terminate", 120.0, True)),
        ("<html>a captive portal</html>", None, None),
        ({"action": "an unheard-of word"}, None, None),
    ],
)
def test_aws_gives_two_minutes(
    cloud: Cloud, action: object, risk: object, found: tuple[str, float | None, bool] | None
) -> None:
    cloud.is_aws(action, risk)
    assert ask_notice("AWS", cloud.url, NOW) == (None if found is None else CloudNotice(*found))


@pytest.mark.parametrize(("word", "left"), [("FALSE", None), ("TRUE", 30.0), ("TRUE\n", 30.0)])
def test_google_gives_half_a_minute(cloud: Cloud, word: str, left: float | None) -> None:
    cloud.is_google(word)
    found = ask_notice("Google Cloud", cloud.url, NOW)
    assert (None if found is None else found.left_s) == left


@pytest.mark.parametrize(
    ("kind", "status", "begins", "names", "left"),
    [
        ("Preempt", "Scheduled", http(NOW + 31), ["box-1"], 31.0),
        ("Preempt", "Started", "", ["box-1"], 0.0),
        ("Preempt", "Scheduled", http(NOW + 31), ["another"], None),
        ("Terminate", "Scheduled", iso(NOW + 600), ["another", "box-1"], 600.0),
        ("Reboot", "Scheduled", http(NOW + 890), ["box-1"], 890.0),
        ("Preempt", "Scheduled", "", ["box-1"], 30.0),
        ("Freeze", "Scheduled", http(NOW + 31), ["box-1"], None),
    ],
)
def test_azure_schedules_events_of_a_machine(
    cloud: Cloud, kind: str, status: str, begins: str, names: list[str], left: float | None
) -> None:
    cloud.is_azure(
        {
            "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
            "EventStatus": status,
            "EventType": kind,
            "ResourceType": "VirtualMachine",
            "Resources": names,
            "NotBefore": begins,
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
    )
    found = ask_notice("Azure", cloud.url, NOW)
    assert (None if found is None else found.left_s) == left
    assert found is None or found.ends_bill is (kind != "Reboot")


@pytest.mark.parametrize("provider", ["AWS", "Google Cloud", "Azure"])
def test_a_service_that_is_gone_announces_nothing_and_is_said_to_be_gone(
    cloud: Cloud, provider: str
) -> None:
    cloud.shutdown()
    cloud.server_close()
    with pytest.raises(Unanswered):
        ask_notice(provider, cloud.url, NOW)


def test_who_gets_no_answer_asks_less_often(
    cloud: Cloud, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_METADATA", cloud.url)
    watch = PreemptionWatch(state)
    pauses = [watch.step(cloud.url) for _ in range(9)]
    assert pauses == sorted(pauses) and pauses[0] == EVERY_S and pauses[-1] == 300.0
    cloud.is_aws()
    assert watch.step(cloud.url) == EVERY_S and read_preemption(state) is None
    cloud.pages = {}
    assert [watch.step(cloud.url) for _ in range(4)] == [EVERY_S, 2 * EVERY_S, 20.0, 20.0]


@pytest.fixture
def state() -> StateDirectory:
    return StateDirectory().create()


def test_a_notice_that_is_withdrawn_is_forgotten(
    cloud: Cloud, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_METADATA", cloud.url)
    watch, now = PreemptionWatch(state), moment_now().wall
    cloud.is_aws({"action": "terminate", "time": iso(now + 100)})
    watch.step(cloud.url)
    found = read_preemption(state)
    assert found is not None and found.announced and found.action == "terminate"
    assert found.ends is not None and abs(found.ends.wall - now - 100) < 1.5
    cloud.is_aws()
    watch.step(cloud.url)
    assert read_preemption(state) is None


def test_nobody_is_asked_where_the_settings_say_nothing_of_it(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    monkeypatch.setattr("runners.host.helpers.spawn", lambda name, *_: spawned.append(name))
    start_session(state, "1", 1, "now")
    assert not ensure_preemption_watch(state)
    settings_file().parent.mkdir(parents=True)
    for text in ("cost: {metadata: false}\n", "cost: {metadata: perhaps}\n"):
        settings_file().write_text(text)
        assert not ensure_preemption_watch(state) and not spawned
    settings_file().write_text("cost: {metadata: true}\n")
    assert ensure_preemption_watch(state) and spawned == ["preemption"]


# ── the ladder ────────────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.floats(0.0, 1e4), min_size=1, max_size=6),
    st.floats(0.0, 1e4),
    st.integers(0, 7),
    st.floats(0.0, 1.0),
)
def test_a_clipped_ladder_is_over_in_time_and_keeps_its_order(
    waits: list[float], left: float, taken: int, part: float
) -> None:
    ladder = Ladder([{"how": f"rung {i}", "wait_s": wait} for i, wait in enumerate(waits)])
    now = 1000.0
    for _ in range(min(taken, len(waits))):
        ladder.advance(now, False)
        now += part * ladder.wait_s
    before = max(0.0, ladder.until - now) + sum(waits[ladder.step + 1 :])
    ladder.clip(now, left)
    at = max(now, ladder.until) if ladder.step >= 0 else now
    while not ladder.is_last:
        ladder.advance(at, False)
        at = ladder.until
    assert at - now == pytest.approx(min(left, before), abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ({}, EndingCause.STOPPED),
        ({"ending": Ending(cause=EndingCause.LIMIT)}, EndingCause.LIMIT),
        ({"deadline": Moment(9e9)}, EndingCause.PREEMPTED),
    ],
)
def test_who_stops_a_run_while_its_machine_is_taken_away_stops_it_for_good(
    tmp_path: Path, asked: dict[str, Any], cause: EndingCause
) -> None:
    state = StateDirectory(tmp_path / "state").create()
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir()
    origin = Origin("anna", host_name(), boot_id(), 1000.0)
    live = make_run(directory=str(run.path), plan=make_plan(origin=origin))
    for_machine = StopIntent(1000.0, "guard", ending=Ending(cause=EndingCause.PREEMPTED))
    run.stop.write_bytes(msgspec.json.encode(for_machine))
    with locked(run.supervisor_lock):
        request_stop(state, live, **asked)
    intent = read_intent(run)
    assert intent is not None and intent.ending["cause"] is cause
    assert intent.requests == (1 if "deadline" in asked else 2)


# ── the session ───────────────────────────────────────────────────────────────────────────────────


def notice_of(state: StateDirectory, boot: str, begun: Moment, **changes: object) -> Preemption:
    seen = Moment(begun.wall + 60, boot, (begun.boot_ns or 0) + 60 * 10**9)
    ends = Moment(seen.wall + 120, boot, (seen.boot_ns or 0) + 120 * 10**9)
    found = Preemption("AWS", "stop", seen, ends, ends_bill=True, last_seen=seen)
    found = msgspec.structs.replace(found, **changes)
    write_preemption(state, found)
    return found


def in_an_earlier_boot(state: StateDirectory) -> Moment:
    """A session that was opened an hour ago, in another boot."""
    session = start_session(state, "3600", 1, "now")
    began = Moment(session.started - 3600, "another boot", 5 * 10**9)
    earlier = msgspec.structs.replace(session, started=began.wall, began=began)
    state.session.write_bytes(msgspec.json.encode(earlier))
    return began


def test_a_machine_that_came_back_is_not_billed_for_the_time_it_was_away(
    state: StateDirectory,
) -> None:
    began = in_an_earlier_boot(state)
    notice_of(state, "another boot", began)
    assert settle_preemption(state)
    statement = open_statement(state, [])
    (session,) = statement.sessions
    assert float(statement.account(session).total) == pytest.approx(180.0)
    assert read_session(state) is None
    start_session(state, "1", 1, "now")
    assert not settle_preemption(state), "the next session is its own"
    assert read_session(state) is not None


def test_who_may_only_look_sees_the_session_of_a_machine_that_came_back_as_over(
    state: StateDirectory,
) -> None:
    notice_of(state, "another boot", in_an_earlier_boot(state))
    before = {path: path.read_bytes() for path in (state.session, state.ledger, state.preemption)}
    snapshot = SnapshotFeed(state, read_only=True).first_snapshot(CEILING_S)
    assert snapshot is not None
    assert (snapshot.meter.per_hour, snapshot.meter.session) == (None, None), "nothing is rented"
    (session,) = open_statement(state, []).sessions
    assert session.end is not None
    assert float(open_statement(state, []).account(session).total) == pytest.approx(180.0)
    assert before == {path: path.read_bytes() for path in before}, "and nothing is written"
    # The next one begins beside it, and both are in the ledger, settled or not.
    start_session(state, "1", 1, "now")
    sessions = open_statement(state, []).sessions
    assert [found.end is None for found in sessions] == [False, True]
    assert sessions[0] == session


def test_a_machine_that_was_alive_after_the_announced_moment_is_paid_until_then(
    state: StateDirectory,
) -> None:
    began = in_an_earlier_boot(state)
    later = Moment(began.wall + 500, "another boot", 505 * 10**9)
    notice_of(state, "another boot", began, last_seen=later)
    assert settle_preemption(state)
    session = load_session(state)
    assert session is not None and session.finished == later


@pytest.mark.parametrize("changes", [{"ends": None}, {"ends_bill": False}])
def test_what_does_not_end_the_bill_ends_no_session(
    state: StateDirectory, changes: dict[str, object]
) -> None:
    notice_of(state, "another boot", in_an_earlier_boot(state), **changes)
    assert not settle_preemption(state) and read_session(state) is not None


def test_in_the_boot_of_the_notice_the_session_goes_on(state: StateDirectory) -> None:
    session = start_session(state, "3600", 1, "now")
    notice_of(state, session.start.boot, session.start)
    assert not settle_preemption(state) and read_session(state) is not None


def test_the_words_name_provider_moment_and_what_is_not_fetched() -> None:
    seen = moment_now()
    ends = Moment(seen.wall + 100, seen.boot, (seen.boot_ns or 0) + 100 * 10**9)
    runs = tuple(f"run-{i}" for i in range(5))
    found = Preemption("AWS", "terminate", seen, ends, ends_bill=True, unfetched=runs)
    text = found.describe(seen)
    assert all(part in text for part in ("AWS", "terminate", "run-0", "run-2", duration_text(100)))
    assert "run-3" not in text and "2 more" in text


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────


def snapshot(guard: GuardView) -> PanelSnapshot:
    return PanelSnapshot(NOW, "box", (), {}, None, {}, None, NOTHING, 0, guard=guard)


def announced(**changes: object) -> GuardView:
    """A guard's view, none set, of a machine that ends in a minute and a half."""
    seen = moment_now()
    ends = Moment(seen.wall + 90, seen.boot, (seen.boot_ns or 0) + 90 * 10**9)
    found = Preemption("AWS", "terminate", seen, ends, ends_bill=True, unfetched=("run-1",))
    return GuardView(None, None, False, preemption=msgspec.structs.replace(found, **changes))


def test_the_panel_tells_of_a_notice_once_and_keeps_it_in_sight() -> None:
    quiet, noisy = snapshot(GuardView(None, None, False)), snapshot(announced())
    wanted = NoticeKeys().on
    (notice,) = changes_between(quiet, noisy, wanted)
    assert (notice.kind, notice.name, notice.severity) == ("preempted", "box", "error")
    assert "run-1" in notice.text
    assert not changes_between(noisy, noisy, wanted)
    assert not changes_between(noisy, quiet, wanted)
    assert not changes_between(quiet, noisy, ["done"])
    # A recommendation first, then the notice itself: that is news again.
    risk = snapshot(announced(action="rebalance recommendation", ends=None))
    assert len(changes_between(risk, noisy, wanted)) == 1


def test_the_view_of_the_guard_is_urgent_and_says_it_with_no_guard_set() -> None:
    view, now = announced(), moment_now()
    assert view.is_urgent and "AWS" in guard_text(view, now)
    assert guard_alarm(view, now).startswith("⚠ machine ends 1m")
    shown = guard_json(view)
    assert shown is not None and shown["preemption"]["unfetched"] == ["run-1"]
    assert shown["rule"] is None and shown["preemption"]["ends"] is not None
    risk = announced(ends=None)
    assert guard_alarm(risk, now) and guard_json(risk) is not None
