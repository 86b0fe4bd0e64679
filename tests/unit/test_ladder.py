"""The stop ladder: which rung, and when the next."""

from hypothesis import given
from hypothesis import strategies as st

from runners.lifecycle.supervisor.stop_escalation import Ladder

RUNGS: list[dict[str, object]] = [
    {"how": "stop-file", "wait_s": 100},
    {"how": "SIGINT", "wait_s": 10},
    {"how": "SIGTERM", "wait_s": 5},
    {"how": "SIGKILL", "wait_s": 5},
]


def climb(ladder: Ladder, now: float, requests: int = 1, force: bool = False) -> list[str]:
    """Every rung taken at this moment."""
    taken = []
    while ladder.due(now, requests, force):
        taken.append(ladder.advance(now, force))
    return taken


def test_a_ladder_stands_before_its_first_rung() -> None:
    ladder = Ladder(RUNGS)
    assert (ladder.how, ladder.wait_s) == ("", 0.0) and not ladder.is_last
    assert not ladder.due(1e9, 0, False), "nobody has asked"


def test_time_takes_one_rung_after_another_and_stops_at_the_last() -> None:
    ladder = Ladder(RUNGS)
    assert climb(ladder, 0.0) == ["stop-file"]
    assert climb(ladder, 99.9) == []
    assert climb(ladder, 100.0) == ["SIGINT"] and ladder.until == 110.0
    assert climb(ladder, 109.9) == []
    assert climb(ladder, 110.0) == ["SIGTERM"]
    assert climb(ladder, 115.0) == ["SIGKILL"] and ladder.is_last
    assert climb(ladder, 1e9) == []


def test_another_press_takes_the_next_rung_at_once() -> None:
    ladder = Ladder(RUNGS)
    assert climb(ladder, 0.0, requests=1) == ["stop-file"]
    assert climb(ladder, 1.0, requests=2) == ["SIGINT"]
    assert climb(ladder, 1.0, requests=2) == []
    assert climb(ladder, 2.0, requests=9) == ["SIGTERM", "SIGKILL"]


def test_requests_do_not_add_to_what_time_did_already() -> None:
    ladder = Ladder(RUNGS)
    climb(ladder, 0.0)
    climb(ladder, 100.0)
    assert climb(ladder, 101.0, requests=2) == [], (
        "two requests mean the second rung, where it stands"
    )


def test_what_is_left_of_a_ladder_is_shortened_in_proportion() -> None:
    ladder = Ladder(RUNGS)
    ladder.clip(0.0, 60.0)
    assert [wait_s for _, wait_s in ladder.rungs] == [50.0, 5.0, 2.5, 2.5]
    climb(ladder, 0.0)
    ladder.clip(20.0, 20.0)
    assert ladder.until == 35.0 and [wait_s for _, wait_s in ladder.rungs[1:]] == [2.5, 1.25, 1.25]
    ladder.clip(40.0, 2.5)
    assert ladder.until == 40.0 and [wait_s for _, wait_s in ladder.rungs[1:]] == [
        1.25,
        0.625,
        0.625,
    ]


def test_force_goes_to_the_last_rung_alone() -> None:
    ladder = Ladder(RUNGS)
    assert climb(ladder, 0.0, force=True) == ["SIGKILL"]
    assert climb(ladder, 1.0, force=True) == []
    begun = Ladder(RUNGS)
    climb(begun, 0.0)
    assert climb(begun, 0.0, force=True) == ["SIGKILL"]


def test_a_ladder_goes_on_where_another_supervisor_left_it() -> None:
    ladder = Ladder(RUNGS)
    ladder.step, ladder.until = 1, 50.0
    assert climb(ladder, 49.0) == []
    assert climb(ladder, 50.0) == ["SIGTERM"]


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 6), st.booleans()), max_size=30))
def test_no_rung_is_taken_twice_and_none_backwards(asks: list[tuple[float, int, bool]]) -> None:
    ladder, now, taken = Ladder(RUNGS), 0.0, []
    for passed, requests, force in asks:
        now += passed
        taken += climb(ladder, now, requests, force)
    names = [str(rung["how"]) for rung in RUNGS]
    places = [names.index(how) for how in taken]
    assert places == sorted(set(places))
