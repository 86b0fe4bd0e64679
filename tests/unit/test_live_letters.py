"""A letter is one run's for as long as that lives, in every panel."""

from pathlib import Path

from runners.state.layout import StateDirectory
from runners.state.live_letters import live_letters


def test_letters_stay_and_come_back_late(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    first = live_letters(state, ["a", "b"])
    assert first == {"a": "A", "b": "B"}
    assert live_letters(StateDirectory(tmp_path), ["b", "c"]) == {"b": "B", "c": "C"}
    assert live_letters(state, ["b", "c", "d"])["d"] == "D", "A is free, and was another's just now"


def test_more_runs_than_letters_are_still_told_apart(tmp_path: Path) -> None:
    letters = live_letters(StateDirectory(tmp_path), [f"{i:03}" for i in range(60)])
    assert len(set(letters.values())) == 60 and letters["026"] == "A2"


def test_where_nothing_may_be_written_nothing_is(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert live_letters(state, ["a"], may_write=False) == {"a": "A"}
    assert not list(tmp_path.iterdir())
