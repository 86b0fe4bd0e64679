"""A helper that dies while a queued run is prepared is asked again; what it says is believed."""

import json
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from runners.host import helpers
from runners.lifecycle.supervisor import queue_wait
from runners.lifecycle.supervisor.queue_wait import LaunchRefused, replan, wait_for_grant
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.state.layout import RunDirectory, StateDirectory


@pytest.fixture
def run() -> RunDirectory:
    run = StateDirectory().create().run("20261121-101500-demo-7f3a")
    run.path.mkdir(parents=True)
    return run


@pytest.fixture
def wakeups() -> WakeupLoop:
    return WakeupLoop()


def answer_with(monkeypatch: pytest.MonkeyPatch, answers: Sequence[tuple[int, str]]) -> list[str]:
    """Have the helper answer so, one after another, without pauses; which helpers were asked."""
    asked: list[str] = []

    def run_helper(name: str, *_: object, **__: object) -> tuple[int, str]:
        asked.append(name)
        return answers[len(asked) - 1]

    monkeypatch.setattr(helpers, "run", run_helper)
    monkeypatch.setattr(queue_wait, "_AGAIN_AFTER_S", (0.0,))
    return asked


def test_one_that_was_killed_is_asked_again_with_the_reason_told(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    good = json.dumps({"environment": {"A": "b"}})
    asked = answer_with(monkeypatch, [(-9, ""), (-9, '{"environ'), (0, good)])
    told: list[str] = []
    assert replan(run, {}, wakeups, told.append) == {"A": "b"}
    assert asked == ["replan"] * 3
    assert ["exit code -9" in text for text in told] == [True, True]


def test_a_refusal_is_believed_at_once(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    asked = answer_with(monkeypatch, [(0, json.dumps({"error": "the data is gone"}))])
    with pytest.raises(LaunchRefused, match="the data is gone"):
        replan(run, {}, wakeups, lambda _: None)
    assert len(asked) == 1


def test_a_stop_ends_the_waiting(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    answer_with(monkeypatch, [(-9, "")] * 5)
    assert replan(run, {}, wakeups, lambda _: run.stop.touch()) is None


def test_what_ends_a_sleep_early_starts_no_look_at_the_queue(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    """The end of the look before does: looks would follow one another without a pause."""
    clock, looks = [0.0], [0.0]

    def wake_early(_: float) -> None:
        clock[0] += 1.0

    def look(*_: object) -> None:
        looks.append(clock[0])
        if len(looks) == 4:
            run.stop.touch()

    monkeypatch.setattr(queue_wait, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(wakeups, "sleep", wake_early)
    monkeypatch.setattr(helpers, "run", look)
    assert not wait_for_grant(run, wakeups)
    assert looks == [0.0, 5.0, 10.0, 15.0]
