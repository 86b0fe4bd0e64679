"""A clock that is set, back or forth: no time that cannot be true is shown, and order is kept."""

import json
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from runners.host.clock import Moment, moment_now, time_of_day
from runners.lifecycle.launch.planner import plan_runs
from runners.lifecycle.supervisor.pollers import NEVER, TimeLimit
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.stop_escalation import Ladder, StopEscalation
from runners.model.gpus import GpuUse, Xid
from runners.model.run import Run, RunRecord
from runners.model.run_ids import launch_stamp, stamp_of
from runners.model.spec import GpuRequest
from runners.model.states import State
from runners.places.remote import as_of
from runners.places.ssh.link import LinkState, LinkStatus, link_text
from runners.places.ssh.thinning import thin_row
from runners.presets.load import command_spec
from runners.scheduling.allocation import _runs
from runners.scheduling.queue_order import Candidate, in_order
from runners.state.layout import StateDirectory
from runners.state.leases import Lease
from runners.state.records import plan_fields
from runners.state.runs import find_run
from runners.watch.metrics.live import LiveReport
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_columns import COLUMNS, TableContext
from tui.views.runs.run_text import describe_use
from tui.views.runs.run_view import view_run

NOW = 1_795_000_000.0
UNSET = 86_400.0
"""A clock that nobody has set yet."""
YEARS = 3 * 365 * 86_400.0


def run_of(state: State = State.RUNNING, **fields: object) -> Run:
    record = msgspec.convert({"state": state, **fields}, RunRecord)
    return Run("20261120-100000-a-0001", "", "a", state, "", "/nowhere", NOW, None, record)


@pytest.mark.parametrize("wall", [UNSET, NOW + YEARS])
def test_the_time_since_a_wrong_clock_is_not_known(wall: float) -> None:
    live = run_of(started=wall)
    assert live.seconds(NOW) is None
    row = row_of_view(view_run(live, now=NOW))
    assert COLUMNS["elapsed"].text(row, TableContext(NOW), 8) in ("", "—")


def test_a_run_whose_end_nobody_saw_lasted_as_long_as_its_boot_says() -> None:
    """It began before the clock was set; it was last seen 10 s before it was found dead."""
    run = run_of(
        State.UNSEEN,
        started=UNSET,
        began=Moment(UNSET, "boot", 5_000_000_000),
        seen=NOW - 10.0,
        ended=NOW,
        finished=Moment(NOW, "boot", 65_000_000_000),
    )
    assert run.seconds(NOW) == 50.0


def test_an_end_before_its_start_is_the_start() -> None:
    """The clock was set forward after the last sign of life: it is no part of the run."""
    run = run_of(
        State.UNSEEN,
        started=NOW,
        began=Moment(NOW, "boot", 5_000_000_000),
        seen=NOW + 5.0,
        ended=NOW + YEARS,
        finished=Moment(NOW + YEARS, "boot", 65_000_000_000),
    )
    assert run.seconds(NOW) == 0.0


def test_a_row_of_another_machine_lasts_as_long_as_that_machine_counted() -> None:
    """Its clock was set after the start; the boot there knows that it runs for a minute."""
    view = view_run(run_of(started=UNSET), now=NOW)
    row = row_of_view(view)
    row.seconds = 60.0
    (shown,) = as_of([thin_row(row)], time.time())
    assert shown.seconds == 60.0
    row.started = time.time() - 60.0
    thin = thin_row(row)
    assert thin.seconds is None, "told by its start, and not sent again every second"
    (shown,) = as_of([thin], time.time() + 5.0)
    assert shown.seconds is not None and 64.0 < shown.seconds < 67.0


def test_an_age_is_not_known_where_the_clock_was_wrong() -> None:
    row = row_of_view(view_run(run_of(started=NOW), now=NOW))
    ages = []
    for created in (UNSET, NOW + YEARS, NOW - 120.0):
        row.created = created
        ages.append(COLUMNS["age"].text(row, TableContext(NOW), 4))
    assert ages == ["—", "—", "2m"]


def test_a_limit_is_counted_by_the_boot(tmp_path: Path) -> None:
    """A clock that was set by decades since the start stops nothing."""
    run = StateDirectory(tmp_path).run("20261120-100000-a-0001")
    plan = plan_fields({})
    plan["limit_s"] = 3600.0
    now = moment_now()
    limit = TimeLimit(run, plan, now._replace(wall=UNSET), lambda _: pytest.fail("stopped"))
    assert 3500.0 < limit.poll(time.monotonic()) <= 3600.0 < NEVER


def test_an_adopted_rung_is_no_longer_than_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_fields({})
    run = StateDirectory(tmp_path).run("20261120-100000-a-0001")
    stop = StopEscalation(run, plan, RunProcesses(run), lambda _: True)
    stop.ladder = Ladder([{"how": "SIGINT", "wait_s": 30.0}, {"how": "SIGKILL", "wait_s": 5.0}])
    stop.continue_from(
        {"rung": "SIGINT", "step": 1, "steps": 2, "until": time.time() + YEARS,
         "asked_by": "", "asked_at": 0.0}
    )  # fmt: skip
    assert stop.ladder.until <= time.monotonic() + 30.0


# ── order ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_launch_after_the_clock_was_set_back_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = StateDirectory(tmp_path / "state").create()
    old = "20291231-235959-zzz-ffff"
    state.run(old).path.mkdir()
    ids = [old]
    for _ in range(3):
        (planned,) = plan_runs(state, [command_spec(["true"], ["gpus=0"])])
        ids.append(planned.planned.plan.run)
        state.run(ids[-1]).path.mkdir()
        assert find_run(state, "last").id == ids[-1]
    assert ids == sorted(ids) and stamp_of(ids[1]) == "20300101-000000"


@pytest.mark.parametrize(
    "newest", ["", "no-run", "20261399-999999-a-0001", "99991231-235959-a-0001"]
)
def test_an_id_that_is_no_time_changes_nothing(newest: str) -> None:
    before = time.strftime("%Y%m%d-%H%M%S")
    assert before <= launch_stamp(newest) <= time.strftime("%Y%m%d-%H%M%S")


def test_the_queue_keeps_its_order_when_the_clock_is_set_back() -> None:
    first = Candidate("20261120-100000-b-0001", GpuRequest(), created=NOW)
    second = Candidate("20261120-100001-a-0001", GpuRequest(), created=NOW - YEARS)
    assert in_order([second, first]) == [first, second]


@pytest.mark.parametrize("step", [3600.0, -3600.0])
@pytest.mark.parametrize("by_events", [True, False], ids=["events", "output"])
def test_what_is_left_of_a_run_is_as_long_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float, by_events: bool
) -> None:
    """A step a second; the clock is set between two looks, an event of before is still unread."""
    wall, up = [NOW], [1000.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    monkeypatch.setattr(time, "clock_gettime", lambda _: up[0])
    run = msgspec.structs.replace(run_of(started=NOW), directory=str(tmp_path))
    file = tmp_path / ("events.jsonl" if by_events else "output.log")
    report, left = LiveReport(run), []

    def say(number: int) -> None:
        event = {"v": 1, "type": "metrics", "time": wall[0], "step": number, "loss": 1.0}
        line = f"step {number}/1000 loss 1.0"
        start = {"v": 1, "type": "start", "time": wall[0], "steps": 1000}
        with file.open("a") as output:
            if by_events and not number:
                output.write(json.dumps(start) + "\n")
            output.write((json.dumps(event) if by_events else line) + "\n")

    for number in range(60):
        say(number)
        wall[0], up[0] = wall[0] + 1.0, up[0] + 1.0
        if number == 30:
            wall[0] += step
        else:
            report.poll(run)
        left.append(report.course.progress(wall[0]).eta_s)
    assert all(
        value is not None and value == pytest.approx(1000 - at, abs=200)
        for at, value in enumerate(left)
        if at > 32
    ), left


@pytest.mark.parametrize("at", [5, 30, 59])
def test_a_look_that_begins_after_the_clock_was_set_takes_no_hour_for_a_pause(
    tmp_path: Path, at: int
) -> None:
    """A step takes ten seconds; an hour ago by the clock that is right now it was set forward."""
    now, each = moment_now(), 10.0
    assert now.boot_ns is not None
    began = Moment(now.wall - 3600.0 - 60 * each, now.boot, now.boot_ns - round(60 * each * 1e9))
    run = run_of(started=began.wall, began=began)
    events = [{"v": 1, "type": "start", "time": began.wall, "steps": 1000}]
    for number in range(60):
        time_ = began.wall + number * each + 3600.0 * (number >= at)
        events.append({"v": 1, "type": "metrics", "time": time_, "step": number, "loss": 1.0})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    report = LiveReport(msgspec.structs.replace(run, directory=str(tmp_path)))
    report.poll(run)
    report.poll(run)
    assert report.course.progress(now.wall).eta_s == pytest.approx(940 * each, rel=0.02)


@pytest.mark.parametrize("at", [5, 30, 59])
def test_a_pause_is_no_time_that_a_step_takes(tmp_path: Path, at: int) -> None:
    """A step takes ten seconds, an evaluation behind it five minutes, the pause before an hour."""
    now, each, evaluation = time.time(), 10.0, 300.0 * (at < 59)
    begun = now - 60 * each - 3600.0 - evaluation
    events: list[dict[str, object]] = [{"v": 1, "type": "start", "time": begun, "steps": 1000}]
    for number in range(60):
        moment = begun + number * each + 3600.0 * (number >= at) + evaluation * (number >= at + 3)
        events.append({"v": 1, "type": "metrics", "time": moment, "step": number, "loss": 1.0})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in events))
    run = msgspec.structs.replace(run_of(started=begun), directory=str(tmp_path))
    paused = begun + (at - 1) * each + 1.0
    report = LiveReport(run)
    report.poll(run)
    without = [list(report.events._pace.points)]
    lines = [("pause", paused), ("continue", paused + 3600.0)]
    (tmp_path / "supervisor.jsonl").write_text(
        "".join(json.dumps({"time": moment, "type": kind}) + "\n" for kind, moment in lines)
    )
    for follower in (report, LiveReport(run)):
        follower.poll(run)
        without.append(list(follower.events._pace.points))
    before, *after = ([point[0] for point in points] for points in without)
    assert max(b - a for a, b in pairwise(before)) == pytest.approx(3600.0 + each)
    assert all(max(b - a for a, b in pairwise(found)) <= 310.0 + 1e-3 for found in after)
    eta = report.course.progress(now).eta_s
    assert at < 59 or (eta is not None and eta < 2 * 940 * each)


def test_a_time_of_day_of_another_day_has_its_day() -> None:
    """`held since 07:30` is read as this morning, whoever holds it for three days."""
    now = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
    shown = [time_of_day(now - hours * 3600.0, now) for hours in (1, 13, 72, 30 * 24)]
    assert shown == ["11:00", "Thu 23:00", "Tue 12:00", "21 Oct 12:00"]
    assert time_of_day(float("inf"), now) == ""
    before = time.time() - 3 * 86_400.0
    day = time.strftime("%a ", time.localtime(before))
    lease = Lease("SIM-0", "20261120-101500-held-7f3a", 0, "demo", before)
    use = GpuUse(0, "SIM-0", "H100", 0, xids=(Xid(79, before, "fell off the bus"),))
    assert f"since {day}" in _runs([lease])
    assert f" at {day}" in describe_use(use)
    assert f"since {day}" in link_text(LinkStatus(LinkState.DOWN, before))
