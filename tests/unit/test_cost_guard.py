"""The guard's decisions, with a clock that runs as fast as it is told to; nothing here starts or
ends anything.
"""

import math
import os
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cost.rates import SECOND_NS
from runners.guard.claims import Claim
from runners.guard.idleness import by_uptime, is_unmeasured, judge_idleness, trains_since
from runners.guard.keeper import guard_lock, keeper_lock
from runners.guard.next_step import Action, Observation, _name, next_step, retry_pause
from runners.guard.observe import GuardObserver
from runners.guard.rule import (
    GuardRule,
    GuardState,
    GuardView,
    Stage,
    lift,
    new_rule,
    postpone,
    read_guard,
    write_guard_state,
    write_rule,
)
from runners.guard.triggers import Measurements, find_problems, is_blind, triggered
from runners.host.clock import Moment
from runners.host.locks import locked
from runners.model.errors import NotFound
from runners.model.gpus import GpuInterval, UsageInterval
from runners.model.spec import Price
from runners.state.layout import StateDirectory
from tui.views.money.guard_text import guard_alarm, guard_json, guard_text

HOUR = 3600


def at(second: float) -> Moment:
    """A moment of one boot, whose wall clock jumps to and fro and must not matter."""
    return Moment(1e9 + (second * 7919 % 100_000), "boot", round(second * 1e9))


def rule(**told: Any) -> GuardRule:
    return GuardRule("rule-1", "anna", at(0), **told)


# ── reasons ───────────────────────────────────────────────────────────────────────────────────────


def test_the_countdown_of_a_budget_ends_when_it_is_spent() -> None:
    told = rule(budget_stop="100", countdown_s=600.0)
    spent = [Decimal("1.99") * second / HOUR for second in range(200_000)]
    first = next(
        i
        for i in range(200_000)
        if triggered(told, Measurements(spent=spent[i], rate=Decimal("1.99")))
    )
    assert spent[first - 1] + Decimal("1.99") / 6 < 100 <= spent[first] + Decimal("1.99") / 6
    assert triggered(told, Measurements(spent=spent[first], rate=Decimal("1.99"))) == (
        "budget: $99.67 of $100.00 spent",
    )


def test_a_part_of_a_budget_needs_a_budget() -> None:
    told = rule(budget_stop="95%", countdown_s=0.0)
    facts = Measurements(spent=Decimal(95), rate=Decimal(1), budget=Decimal(100))
    assert triggered(told, facts) and not find_problems(told, facts)
    assert not triggered(told, msgspec.structs.replace(facts, spent=Decimal("94.99")))
    unknown = msgspec.structs.replace(facts, budget=None)
    assert not triggered(told, unknown)
    assert find_problems(told, unknown) == (
        "the budget cannot be guarded: no session with a known rate and budget is open",
    )


@pytest.mark.parametrize(
    ("told", "facts", "acts"),
    [
        ({"budget_stop": "1"}, Measurements(spent=Decimal(9)), False),
        ({"budget_stop": "1"}, Measurements(rate=Decimal(9)), False),
        ({"max_age_s": 8.0 * HOUR}, Measurements(age_s=8.0 * HOUR - 601), False),
        ({"max_age_s": 8.0 * HOUR}, Measurements(age_s=8.0 * HOUR - 600), True),
        ({"no_run_s": 1800.0}, Measurements(quiet_s=1799.0), False),
        ({"no_run_s": 1800.0}, Measurements(quiet_s=1800.0), True),
        ({"idle_s": 1200.0}, Measurements(idle=False), False),
        ({"idle_s": 1200.0}, Measurements(idle=True), True),
        (
            {"idle_s": 1200.0},
            Measurements(spent=Decimal(10**6), rate=Decimal(9), age_s=1e9, quiet_s=1e9),
            False,
        ),
        (
            {"budget_stop": "1", "max_age_s": 1.0, "no_run_s": 1.0, "idle_s": 1.0},
            Measurements(),
            False,
        ),
    ],
)
def test_what_is_not_told_or_not_known_is_no_reason(
    told: dict[str, Any], facts: Measurements, acts: bool
) -> None:
    assert bool(triggered(rule(**told), facts)) is acts


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({"budget_stop": "95%"}, {"spent": Decimal(1), "budget": Decimal(100)}),
        ({"budget_stop": "95"}, {"spent": Decimal(1)}),
        ({"max_age_s": 1.0}, {"age_s": 0.0}),
        ({"no_run_s": 1.0}, {"quiet_s": 0.0}),
    ],
)
def test_a_guard_that_knows_nothing_of_what_it_watches_is_blind(
    told: dict[str, Any], known: dict[str, Any]
) -> None:
    assert is_blind(rule(**told), Measurements())
    assert not is_blind(rule(**told), Measurements(**known))
    # One thing that it sees is enough to act at all.
    assert not is_blind(rule(**{"max_age_s": 1.0, "no_run_s": 1.0} | told), Measurements(**known))
    assert is_blind(rule(idle_s=1.0), Measurements(unmeasured=("a",), **known))


def test_units_count_only_where_the_age_is_known() -> None:
    told, price = (
        rule(budget_stop="100", countdown_s=0.0),
        Price("1", "machine", "session", unit_s=HOUR),
    )
    facts = Measurements(spent=Decimal("99.9"), rate=Decimal(1), price=price)
    assert not triggered(told, facts)
    assert triggered(told, msgspec.structs.replace(facts, age_s=HOUR - 1.0))


def test_what_is_not_known_is_a_problem() -> None:
    told = rule(budget_stop="1", max_age_s=1.0, no_run_s=1.0)
    assert len(find_problems(told, Measurements(problems=("x", "x")))) == 4
    assert not find_problems(rule(idle_s=1.0), Measurements()), "a run that warms up is no problem"


@pytest.mark.parametrize(
    ("limit", "acts_at"), [("90", 45), ("120", 105), ("179", 105), ("180", 165)]
)
def test_the_unit_that_would_break_the_budget_does_not_begin(limit: str, acts_at: int) -> None:
    price = Price("3600", "machine", "session", unit_s=60)

    def acts(second: int) -> bool:
        spent = Decimal(math.ceil(second / 60) * 60)
        facts = Measurements(spent=spent, rate=Decimal(3600), age_s=second, price=price)
        return bool(triggered(rule(budget_stop=limit, countdown_s=10.0), facts))

    first = next(second for second in range(1, 600) if acts(second))
    assert first in (acts_at, acts_at + 1), "its countdown, and a look, before the next minute"


def test_hours_without_power_are_not_idle_hours(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").create()
    told = msgspec.structs.replace(
        rule(no_run_s=3600.0), set_at=Moment(1e9, "the boot before", 7 * SECOND_NS)
    )
    for up, acts in ((20, False), (3599, False), (3600, True)):
        now = Moment(1e9 + 36_000 + up, "boot", up * SECOND_NS)
        assert bool(GuardObserver(state).observe(told, None, now, ()).reasons) is acts


@pytest.mark.parametrize("step", [-10_800.0, -60.0, 0.0, 86_400.0])
@pytest.mark.parametrize("stepped_after", [50.0, 150.0, 2000.0, 2500.0])
def test_a_clock_that_is_set_does_not_disarm_idleness(step: float, stepped_after: float) -> None:
    def wall(up: float) -> float:
        return 1e9 + up + (step if up > stepped_after else 0.0)

    def moment(up: float) -> Moment:
        return Moment(wall(up), "boot", round(up * SECOND_NS))

    written = [
        UsageInterval(wall(up), 10.0, (GpuInterval(0, "a", utilization=1.0),), uptime=float(up))
        for up in range(10, 3000, 10)
    ]
    warm = trains_since(moment(10.0), wall(100.0), 1800.0, moment(2995.0))
    assert 99.9 < warm < 160.1, "later rather than earlier, where both clocks are possible"
    found = by_uptime(written, moment(2995.0))
    assert judge_idleness(found, "a", 2995.0, 900.0, warm) is True


def test_use_that_an_earlier_boot_wrote_down_does_not_count() -> None:
    use = [UsageInterval(1e9, 10.0, (), uptime=float(up)) for up in (5000, 5010, 20, 30)]
    assert [found.time for found in by_uptime(use, at(40))] == [20, 30]
    # Two samplers in turn, or one that was held up: the same boot.
    use = [UsageInterval(1e9, 10.0, (), uptime=up) for up in (100.0, 40.0, 110.0)]
    assert [found.time for found in by_uptime(use, at(120))] == [100, 40, 110]


# ── idleness ──────────────────────────────────────────────────────────────────────────────────────


def use(
    now: float, percents: list[float | None], uuids: str = "ab", step: float = 10.0
) -> list[UsageInterval]:
    """One interval of 10 s for each percent, the last of which ends at `now`."""
    return [
        UsageInterval(
            now - (len(percents) - 1 - i) * step,
            step,
            tuple(GpuInterval(0, u, percent) for u in uuids),
        )
        for i, percent in enumerate(percents)
    ]


def test_lines_of_one_boot_are_kept_and_those_before_it_are_not() -> None:
    lines = use(1000.0, [1.0] * 3)
    booted = [
        msgspec.structs.replace(line, uptime=up)
        for line, up in zip(lines, (900.0, 5.0, 15.0), strict=True)
    ]
    assert [line.time for line in by_uptime(booted, Moment(1000.0, "b", 15_000_000_000))] == [
        5.0,
        15.0,
    ]
    # Written by something else than a sampler: placed by the clock.
    (placed,) = by_uptime(lines[-1:], Moment(1000.0, "b", 15_000_000_000))
    assert placed.time == 15.0


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "a is"), (3, "a, b, c are"), (4, "a, b, c and 1 more are"), (5, "a, b, c and 2 more are")],
)
def test_what_is_not_fetched_is_named(count: int, said: str) -> None:
    assert _name(tuple("abcde"[:count])) == said


def test_three_idle_windows_in_a_row_are_idleness() -> None:
    idle = use(1000.0, [1.0] * 90)
    assert judge_idleness(idle, "ab", 1000.0, 900.0, trains_since=0.0) is True
    busy = use(1000.0, [1.0] * 40 + [60.0] * 3 + [1.0] * 47)
    assert judge_idleness(busy, "ab", 1000.0, 900.0, trains_since=0.0) is False, (
        "30 busy seconds in the middle window"
    )
    assert (
        judge_idleness(use(1000.0, [1.0] * 29 + [99.0] + [1.0] * 60), "ab", 1000.0, 900.0, 0.0)
        is True
    ), "one blip"
    gaps: list[float | None] = ([None] * 6 + [1.0] * 24) * 3
    assert judge_idleness(use(1000.0, gaps), "ab", 1000.0, 900.0, 0.0) is True, "80 % is enough"
    assert judge_idleness(use(1000.0, [5.0] * 90), "ab", 1000.0, 900.0, 0.0) is False, (
        "5 % is not below 5 %"
    )


@pytest.mark.parametrize(
    ("intervals", "uuids", "since"),
    [
        (use(1000.0, [1.0] * 90), "ab", 101.0),  # a second of the warm-up is in it
        (use(1000.0, [1.0] * 60), "ab", 0.0),  # the first window has no readings
        (use(1000.0, [1.0] * 40 + [None] * 10 + [1.0] * 40), "ab", 0.0),
        (use(1000.0, [1.0] * 90, "a"), "ab", 0.0),  # nothing is known of the second GPU
        (use(1000.0, [1.0] * 90), "", 0.0),
        ([], "ab", 0.0),
    ],
)
def test_where_readings_are_missing_nothing_is_said(
    intervals: list[UsageInterval], uuids: str, since: float
) -> None:
    assert judge_idleness(intervals, uuids, 1000.0, 900.0, since) is None


def test_a_run_whose_use_nobody_measures_is_said_to_be_unguarded() -> None:
    unknown = use(1000.0, [None] * 90)
    assert is_unmeasured(unknown, 1000.0, 600.0, trains_since=0.0)
    assert is_unmeasured([], 1000.0, 600.0, trains_since=0.0)
    ended = use(1000.0, [1.0] * 30 + [None] * 60)
    assert is_unmeasured(ended, 1000.0, 600.0, trains_since=0.0), "what was known before"
    assert not is_unmeasured(unknown, 1000.0, 600.0, trains_since=500.0), "it warms up"
    assert is_unmeasured(unknown, 1000.0, 600.0, trains_since=400.0), "it has trained all the time"
    assert not is_unmeasured(use(1000.0, [1.0] * 90), 1000.0, 600.0, 0.0)
    (problem,) = find_problems(rule(idle_s=600.0), Measurements(unmeasured=("run-1",)))
    assert problem.startswith("idleness cannot be guarded for run-1: the use of its GPUs")


def test_one_busy_gpu_is_work() -> None:
    both = [
        UsageInterval(float(t), 10.0, (GpuInterval(0, "a", 0.0), GpuInterval(1, "b", 40.0)))
        for t in range(10, 1001, 10)
    ]
    assert judge_idleness(both, "ab", 1000.0, 900.0, 0.0) is False


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────


class Machine:
    """A machine in accelerated time: what the guard told it to do is done, at most once where that
    is promised.
    """

    def __init__(self, told: GuardRule) -> None:
        self.rule = told
        self.progress: GuardState | None = None
        self.second = 0.0
        self.live = ("run-1",)
        self.done: list[tuple[float, Action]] = []
        self.ending = Claim()
        self.unfetched: tuple[str, ...] = ()

    def look(self, *reasons: str, problems: tuple[str, ...] = ()) -> Action:
        sight = Observation(
            at(self.second), reasons, problems, self.live, self.unfetched, self.ending
        )
        self.progress, act = next_step(self.rule, self.progress, sight)
        if act and (not self.done or self.done[-1][1] != act):
            self.done.append((self.second, act))
        if act == "end":
            self.ending = Claim(self.progress.attempt, alive=True)
        return act

    @property
    def stage(self) -> Stage:
        assert self.progress is not None
        return self.progress.stage


def test_eight_hours_in_accelerated_time() -> None:
    told = rule(max_age_s=8.0 * HOUR, countdown_s=600.0, end_command="the end")
    machine = Machine(told)
    for second in range(0, 9 * HOUR, 5):
        machine.second = second
        machine.look(*triggered(told, Measurements(age_s=float(second))))
        if machine.stage is Stage.STOPPING and second > 8 * HOUR + 300:
            machine.live = ()
        if machine.stage is Stage.ENDING and second > 8 * HOUR + 400:
            machine.ending = Claim(1, exit=0)
    assert machine.done == [
        (8 * HOUR - 600, "warn"),
        (8 * HOUR, "stop"),
        (8 * HOUR + 310, "end"),
        (8 * HOUR + 410, "finish"),
    ]
    assert (
        machine.stage is Stage.ENDED
        and machine.progress
        and machine.progress.note.endswith("exit code 0")
    )


def test_a_warning_is_called_off_when_its_reason_goes_or_cannot_be_seen() -> None:
    machine = Machine(rule(no_run_s=60.0, countdown_s=600.0))
    assert machine.look("no run") == "warn" and machine.look("no run") == "warn"
    machine.second = 599.0
    assert machine.look(problems=("blind",)) == "cancel"
    assert (
        machine.stage is Stage.WATCHING
        and machine.progress
        and machine.progress.problems == ("blind",)
    )
    machine.second = 700.0
    assert machine.look("no run") == "warn" and machine.progress.cycle == 2
    machine.second = 1200.0
    assert machine.look("no run") == "warn", "the countdown began anew"
    machine.second = 1300.0
    assert machine.look("no run") == "stop"


def test_a_postponed_guard_holds_back_and_then_warns_again() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=60.0))
    machine.look("age")
    machine.rule = msgspec.structs.replace(machine.rule, postponed_at=at(10), postponed_s=3600.0)
    machine.second = 11.0
    assert machine.look("age") == "cancel" and machine.look("age") == "cancel"
    machine.second = 3609.0
    assert machine.look("age") == "cancel" and machine.stage is Stage.WATCHING
    machine.second = 3611.0
    assert machine.look("age") == "warn"


def test_the_end_command_can_be_held_back_after_the_runs_have_stopped() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=0.0, end_command="x"))
    machine.look("age")
    assert machine.look("age") == "stop"
    machine.rule = msgspec.structs.replace(machine.rule, postponed_at=at(0), postponed_s=100.0)
    machine.live = ()
    assert machine.look() == "" and machine.stage is Stage.STOPPING
    machine.second = 101.0
    assert machine.look() == "end"


def test_without_an_end_command_it_ends_with_the_runs() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=0.0))
    machine.look("age")
    machine.look("age")
    machine.live = ()
    assert machine.look() == "finish" and machine.stage is Stage.ENDED
    machine.live = ("run-2",)
    assert machine.look("age") == "finish" and machine.stage is Stage.ENDED, (
        "it acts once; what is started afterwards is somebody's decision"
    )


def test_an_end_command_that_destroys_waits_until_all_is_fetched() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=0.0, end_command="destroy", destroys=True))
    machine.live, machine.unfetched = (), ("run-1", "run-2")
    machine.look("age")
    machine.look("age")
    assert machine.look() == "hold" and machine.look() == "hold" and machine.stage is Stage.HOLDING
    assert machine.progress and "run-1, run-2 are not fetched" in machine.progress.note
    machine.unfetched = ("run-2",)
    assert (
        machine.look() == "hold"
        and machine.progress
        and "run-2 is not fetched" in machine.progress.note
    )
    machine.unfetched = ()
    assert machine.look() == "end"


def test_a_guard_killed_before_its_end_command_began_asks_for_it_again() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=0.0, end_command="x"))
    machine.live = ()
    for _ in range(3):
        machine.look("age")
    machine.ending = Claim()
    assert machine.stage is Stage.ENDING and machine.look() == "end"
    machine.ending = Claim(1)
    assert machine.look() == "failed" and machine.look() == "failed"
    assert machine.progress and "exit code unknown" in machine.progress.note
    assert machine.stage is Stage.ENDING, "an alarm, and nothing is run a second time"


def test_a_failed_end_command_is_tried_again_ever_less_often_and_never_has_acted() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=0.0, end_command="x"))
    machine.live = ()
    for _ in range(3):
        machine.look("age")
    tried = []
    for _ in range(20_000):
        assert machine.progress is not None
        if machine.ending.attempt < machine.progress.attempt or machine.ending.alive:
            machine.ending = Claim(machine.progress.attempt, exit=7)
        before = machine.progress.attempt
        machine.look()
        if machine.progress.attempt > before:
            tried.append(machine.second)
        view = GuardView(machine.rule, machine.progress, True)
        assert machine.stage is Stage.ENDING and view.is_urgent
        assert "has acted" not in guard_text(view, at(machine.second))
        machine.second += 1.0
    gaps = [round(after - before, -1) for before, after in pairwise(tried)]
    assert gaps[:6] == [60, 120, 240, 480, 960, 1920] and set(gaps[7:]) <= {3600}
    assert retry_pause(1) == 30 and retry_pause(99) == 3600
    machine.ending = Claim(machine.progress.attempt, exit=0) if machine.progress else Claim()
    machine.progress = msgspec.structs.replace(machine.progress, failed=None)
    assert machine.look() == "finish" and machine.stage is Stage.ENDED


@pytest.mark.parametrize("stage", [Stage.WARNED, Stage.STOPPING, Stage.HOLDING, Stage.ENDING])
def test_a_new_boot_begins_again_at_the_warning_with_a_whole_countdown(stage: Stage) -> None:
    told = rule(max_age_s=1.0, countdown_s=600.0, end_command="x")
    machine = Machine(told)
    machine.live = ()
    yesterday = Moment(1e9 - 86_400, "boot before", 10**15)
    machine.progress = GuardState(told.id, stage, yesterday, "age", cycle=1, attempt=1)
    assert machine.look("age") == "warn" and machine.progress.cycle == 2
    machine.second = 599.0
    assert machine.look("age") == "warn", "the time without power is no countdown"
    machine.second = 601.0
    assert machine.look("age") == "stop"
    machine.progress = GuardState(told.id, stage, yesterday, "age", cycle=1, attempt=1)
    machine.ending = Claim()
    assert machine.look() == "cancel" and machine.stage is Stage.WATCHING


@pytest.mark.parametrize(
    ("ending", "act"),
    [
        (Claim(1, boot="boot before", exit=0), "finish"),
        (Claim(1, boot="boot before"), "finish"),
        (Claim(1, boot="boot before", exit=7), "warn"),
        (Claim(0), "warn"),
    ],
)
def test_an_end_command_of_an_earlier_boot_is_judged_by_how_it_ended(
    ending: Claim, act: str
) -> None:
    machine = Machine(rule(max_age_s=1.0, end_command="x"))
    machine.live, machine.ending = (), ending
    machine.progress = GuardState(
        "rule-1", Stage.ENDING, Moment(1e9, "boot before", 10**15), "age", attempt=1
    )
    assert machine.look("age") == act


def test_a_stage_whose_boot_nobody_knows_goes_on() -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=600.0))
    for since in (None, Moment(1e9)):
        machine.progress = GuardState("rule-1", Stage.STOPPING, since, "age", cycle=1)
        assert machine.look("age") == "stop" and machine.progress.cycle == 1


def test_a_damaged_marker_is_said_once_and_nothing_is_run_again() -> None:
    machine = Machine(rule(max_age_s=1.0, end_command="x"))
    machine.live, machine.ending = (), Claim(damaged=True)
    machine.progress = GuardState("rule-1", Stage.ENDING, at(0), "age", attempt=1)
    assert machine.look("age") == "failed" and machine.look("age") == "failed"
    assert machine.progress.note and machine.stage is Stage.ENDING
    machine.ending = Claim(1, alive=True, damaged=True)
    assert machine.look("age") == ""


def test_an_end_command_that_took_the_machine_down_has_acted() -> None:
    told = rule(max_age_s=1.0, end_command="shutdown -h now")
    machine = Machine(told)
    machine.live, machine.ending = (), Claim(1, boot="boot before")
    machine.progress = GuardState(
        told.id, Stage.ENDING, Moment(1e9, "boot before", 10**15), "age", attempt=1
    )
    assert machine.look("age") == "finish" and machine.stage is Stage.ENDED


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.booleans(), st.integers(0, 400)), max_size=60
    ),
    st.booleans(),
)
def test_whatever_it_sees_the_order_holds_and_the_end_comes_once(
    course: list[tuple[bool, bool, bool, int]], destroys: bool
) -> None:
    machine = Machine(rule(max_age_s=1.0, countdown_s=300.0, end_command="x", destroys=destroys))
    warned_at = None
    for reason, lives, fetched, seconds in course:
        machine.second += seconds
        machine.live, machine.unfetched = ("run-1",) if lives else (), () if fetched else ("run-1",)
        before = machine.stage if machine.progress else Stage.WATCHING
        act = machine.look(*(["age"] if reason else []))
        if act == "warn" and before is Stage.WATCHING:
            warned_at = machine.second
        if act == "stop" and before is Stage.WARNED:
            assert reason and warned_at is not None and machine.second - warned_at >= 300
        if act == "end":
            assert not lives and (fetched or not destroys)
            assert before in (Stage.STOPPING, Stage.HOLDING)
    assert [act for _, act in machine.done].count("end") <= 1


def test_a_rule_set_anew_begins_from_nothing() -> None:
    machine = Machine(rule(max_age_s=1.0))
    machine.look("age")
    machine.rule = msgspec.structs.replace(machine.rule, id="rule-2")
    assert (
        machine.look() == ""
        and machine.stage is Stage.WATCHING
        and machine.progress
        and machine.progress.cycle == 0
    )


# ── what front ends say ───────────────────────────────────────────────────────────────────────────


def test_a_view_says_how_long_is_left_and_how_to_hold_it_back() -> None:
    told = rule(budget_stop="95", idle_s=1200.0, countdown_s=600.0)
    view = GuardView(
        told, GuardState("rule-1", Stage.WARNED, at(0), "budget: $94 of $95 spent", 1), True
    )
    assert (
        guard_text(view, at(55)) == "⚠ budget: $94 of $95 spent: runs stop in 9m05s"
        and view.is_urgent
    )
    assert guard_alarm(view, at(55)) == "⚠ guard 9m05s" and view.left_s(at(9999)) == 0
    calm = GuardView(told, GuardState("rule-1"), True)
    assert (
        guard_text(calm, at(0)) == "watches budget $95, idle GPUs for 20m00s"
        and not calm.is_urgent
        and not guard_alarm(calm, at(0))
    )
    assert "starts with the next command" in guard_text(GuardView(told, None, False), at(0))
    later = msgspec.structs.replace(told, postponed_at=at(0), postponed_s=3600.0)
    assert guard_text(GuardView(later, None, True), at(60)).endswith(
        "(59m00s): budget $95, idle GPUs for 20m00s"
    )
    assert (
        guard_text(GuardView(None, None, False), at(0)) == ""
        and guard_json(GuardView(None, None, False)) is None
    )


def test_files_that_cannot_be_read_are_problems_said_loudly() -> None:
    state = StateDirectory()
    assert read_guard(state) == GuardView(None, None, False)
    with pytest.raises(NotFound, match="no guard is set"):
        postpone(state, 1.0)
    told = new_rule(max_age_s=60.0)
    write_rule(state, told)
    write_guard_state(state, GuardState(told.id, Stage.WARNED, at(0), "age"))
    assert read_guard(state).rule == told and postpone(state, 5.0).postponed_s == 5.0
    (state.guard / "progress.json").write_text("{")
    view = read_guard(state)
    assert (
        view.is_urgent
        and "progress.json cannot be read" in guard_text(view, at(0))
        and "does nothing" in guard_text(view, at(0))
    )
    (state.guard / "guard.json").write_text('{"id": 1}')
    assert read_guard(state).rule is None and len(read_guard(state).problems) == 2
    assert lift(state) and not lift(state)


def test_a_guard_that_nothing_would_start_again_says_so() -> None:
    state = StateDirectory()
    write_rule(state, new_rule(max_age_s=60.0))
    with locked(guard_lock(state)):
        assert not read_guard(state).problems, "it has just begun"
        os.utime(guard_lock(state), (0, 0))
        assert read_guard(state).problems
        with locked(keeper_lock(state)):
            assert not read_guard(state).problems
    lift(state)
