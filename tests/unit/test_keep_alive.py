"""What died is started again: never beside a living one, not too often, only where wanted."""

import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

from runners.guard.daemon import LONGEST_PAUSE_S, next_look_s
from runners.guard.keeper import _ANEW_S, _LONGEST_S, _YOUNG_S
from runners.guard.rule import GuardRule, GuardState, Stage
from runners.host import shutdown
from runners.host.clock import Moment
from runners.host.keep_alive import KeepAlive
from runners.host.locks import acquire


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "some.lock"


def _die(lock: Path, ago_s: float) -> None:
    """One began `ago_s` seconds ago, and lives no more."""
    lock.touch()
    os.utime(lock, (0, time.time() - ago_s))


def test_nothing_is_begun_while_systemd_ends_the_machine(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    monkeypatch.setattr(shutdown, "what_ends", lambda: "machine")
    mine = KeepAlive(lock, lambda: begun.append(1), 20.0)
    mine.poll(1000.0)
    assert not begun
    monkeypatch.setattr(shutdown, "what_ends", lambda: "")
    mine.poll(1020.0)
    assert begun == [1]


def test_a_dead_one_is_followed_by_one_other_at_a_time(lock: Path) -> None:
    begun: list[int] = []
    _die(lock, 30)
    mine = KeepAlive(lock, lambda: begun.append(1), 20.0)
    assert mine.poll(1000.0) == 20.0 and mine.poll(1000.1) > 0
    assert begun == [1]
    _die(lock, 1)
    other = KeepAlive(lock, lambda: begun.append(2), 20.0)
    assert 0 < other.poll(5000.0) <= 20, "another run's supervisor has seen to it just now"
    assert begun == [1]


@pytest.mark.parametrize("ago_s", [21, -3600])
def test_a_long_life_or_a_server_s_clock_is_no_young_death(lock: Path, ago_s: float) -> None:
    begun: list[int] = []
    _die(lock, ago_s)
    KeepAlive(lock, lambda: begun.append(1), 20.0).poll(0.0)
    assert begun == [1]


def test_a_living_one_or_none_wanted_starts_nothing(lock: Path) -> None:
    begun: list[int] = []
    KeepAlive(lock, lambda: begun.append(1), 1.0, wanted=lambda: False).poll(0.0)
    held = acquire(lock)
    assert held is not None
    KeepAlive(lock, lambda: begun.append(1), 1.0).poll(100.0)
    os.close(held)
    assert begun == []


def test_no_process_to_be_had_is_no_error_and_is_tried_again(lock: Path) -> None:
    tries: list[int] = []

    def refuse() -> None:
        tries.append(1)
        raise BlockingIOError("no more processes")

    mine = KeepAlive(lock, refuse, 2.0)
    mine.poll(0.0)
    mine.poll(0.5)
    mine.poll(2.0)
    assert len(tries) == 2


def test_a_keeper_that_is_slow_to_start_is_not_started_without_end(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    mine = KeepAlive(lock, lambda: begun.append(now), _ANEW_S, _LONGEST_S, _YOUNG_S)
    while len(begun) < 8:
        mine.poll(now)
        now += 0.1
    pauses = [after - before for before, after in pairwise(begun)]
    assert begun[2] - begun[0] <= 6.1
    assert pauses[-1] >= 15.9


def test_a_countdown_is_looked_at_when_it_is_over() -> None:
    rule = GuardRule("a", "anna", Moment(0.0), max_age_s=7200.0, countdown_s=600.0)
    warned = GuardState("a", Stage.WARNED, since=Moment(1000.0))
    assert next_look_s(rule) == next_look_s(rule, warned, Moment(1100.0)) == LONGEST_PAUSE_S
    assert next_look_s(rule, warned, Moment(1598.5)) == pytest.approx(1.5)
    assert next_look_s(rule, warned, Moment(1601.0)) == LONGEST_PAUSE_S, "held off: as usual"
