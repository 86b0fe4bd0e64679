"""A helper that dies while a queued run is prepared is asked again; what it says is believed."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace

import pytest

from runners.host import helpers
from runners.host.identity import boot_id
from runners.host.locks import acquire
from runners.lifecycle.supervisor import queue_wait
from runners.lifecycle.supervisor.queue_wait import (
    LaunchRefused,
    has_stepped,
    is_awaited,
    notify,
    replan,
    requeue,
    wait_for_grant,
)
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.state.layout import RunDirectory, config_dir


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


def test_one_that_hangs_is_killed_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    asleep = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]
    monkeypatch.setattr(helpers, "command", lambda *_: asleep)
    monkeypatch.setattr(helpers, "LONGEST_S", 0.1)
    assert has_stepped(run) is None
    assert replan(run, {}, wakeups, lambda _: run.stop.touch()) is None


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

    def look(*_: object, **__: object) -> None:
        looks.append(clock[0])
        if len(looks) == 4:
            run.stop.touch()

    monkeypatch.setattr(queue_wait, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(wakeups, "sleep", wake_early)
    monkeypatch.setattr(helpers, "run", look)
    assert not wait_for_grant(run, wakeups)
    assert looks == [0.0, 5.0, 10.0, 15.0]


class Clock:
    """Time that goes on only while somebody sleeps; a sleep may end early, as a poke ends it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wakeups: WakeupLoop) -> None:
        self.now, self.longest, self.slept = 100.0, 1e9, list[float]()
        monkeypatch.setattr(queue_wait, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(wakeups, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += min(seconds, self.longest)


def test_it_waits_while_it_is_queued_and_as_long_as_its_plan_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    clock = Clock(monkeypatch, wakeups)
    run.plan.write_text("{dam")
    plans = iter(['{"phase": "queued"}', '{"phase": "granted"}'])
    monkeypatch.setattr(helpers, "run", lambda *_, **__: run.plan.write_text(next(plans)))
    assert wait_for_grant(run, wakeups)
    assert clock.now == 110.0 and next(plans, None) is None


@pytest.mark.parametrize(("place", "every_s"), [(1, 5.0), (2, 60.0), (9, 60.0)])
def test_the_first_in_line_looks_often_the_others_rarely(
    monkeypatch: pytest.MonkeyPatch,
    run: RunDirectory,
    wakeups: WakeupLoop,
    place: int,
    every_s: float,
) -> None:
    clock = Clock(monkeypatch, wakeups)
    run.waits.write_text(json.dumps({"place": place}))
    monkeypatch.setattr(helpers, "run", lambda *_, **__: run.stop.touch())
    assert wait_for_grant(run, wakeups) is False
    assert clock.slept == [every_s]


def test_what_can_never_start_is_refused_with_the_reason(
    run: RunDirectory, wakeups: WakeupLoop
) -> None:
    run.waits.write_text(json.dumps({"never": True, "reason": "the GPU was removed"}))
    with pytest.raises(LaunchRefused, match="the GPU was removed"):
        wait_for_grant(run, wakeups)
    run.plan.write_text('{"phase": "granted"}')
    assert wait_for_grant(run, wakeups)


def test_a_helper_that_dies_again_and_again_is_asked_after_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    clock = Clock(monkeypatch, wakeups)
    clock.longest = 2.0  # pokes end the pauses in parts
    asked: list[float] = []

    def die(*_: object, **__: object) -> tuple[int, str]:
        asked.append(clock.now)
        if len(asked) == 6:
            run.stop.touch()
        return -9, ""

    told: list[str] = []
    monkeypatch.setattr(helpers, "run", die)
    assert replan(run, {}, wakeups, told.append) is None
    waited = [after - before for before, after in pairwise(asked)]
    assert waited == [1.0, 5.0, 15.0, 60.0, 60.0]
    assert ["try 1)" in told[0], "try 5)" in told[4], "in 60 s" in told[4]] == [True] * 3
    assert clock.now == asked[-1]  # a stop: no pause after it


def test_one_that_waits_again_gives_its_gpus_back_in_this_boot(run: RunDirectory) -> None:
    plan = {"phase": "final", "gpus": [{"index": 1}], "origin": {"boot_id": "old", "host": "a"}}
    run.plan.write_text(json.dumps(plan | {"argv": ["train"]}))
    changed = requeue(run)
    assert (changed["phase"], changed["gpus"], changed["argv"]) == ("queued", [], ["train"])
    origin = json.loads(run.plan.read_text())["origin"]
    assert origin == {"boot_id": boot_id(), "host": "a"}
    run.plan.write_text(json.dumps(plan | {"origin": "damaged"}))
    assert requeue(run)["origin"] == {"boot_id": boot_id()}
    run.plan.unlink()
    with pytest.raises(OSError, match=r"missing or damaged"):
        requeue(run)


@pytest.mark.parametrize(
    ("answer", "stepped"),
    [('{"stepped": true}', True), ('{"stepped": false}', False), ("{}", None), ("", None)],
)
def test_whether_it_stepped_is_known_or_not(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, answer: str, stepped: bool | None
) -> None:
    monkeypatch.setattr(helpers, "run", lambda *_: (0, answer))
    assert has_stepped(run) is stepped


def test_who_waits_for_an_end_is_told_of_it(run: RunDirectory) -> None:
    assert is_awaited(run) is False
    (run.home.live / "another").touch()
    assert is_awaited(run) is True
    (run.home.live / "another").unlink()
    run.plan.write_text(json.dumps({"spec": {"group": "lr"}}))
    assert is_awaited(run) is False
    trials = run.home.sweeps / "lr" / "trials.json"
    trials.parent.mkdir(parents=True)
    trials.touch()
    assert is_awaited(run) is True
    trials.unlink()
    shutil.rmtree(run.home.live)
    assert is_awaited(run) is False


def test_runs_that_go_on_by_themselves_wait_for_no_end(run: RunDirectory) -> None:
    other = run.home.run("another")
    other.path.mkdir()
    (run.home.live / other.id).touch()
    other.plan.write_text(json.dumps({"phase": "final"}))
    # Nobody owns it: a pass over the queue adopts it.
    assert is_awaited(run) is True
    held = acquire(other.supervisor_lock)
    assert held is not None
    assert is_awaited(run) is False
    other.plan.write_text(json.dumps({"phase": "queued"}))
    assert is_awaited(run) is True
    other.plan.write_text(json.dumps({"phase": "granted"}))
    run.home.launching.mkdir()
    assert is_awaited(run) is False
    (run.home.launching / "of-another").touch()
    assert is_awaited(run) is True
    (run.home.launching / "of-another").unlink()
    run.home.slurm.mkdir()
    assert is_awaited(run) is True
    os.close(held)


def test_nobody_is_notified_without_settings_and_no_secret_is_told(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory
) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(helpers, "spawn", lambda *words: told.append(tuple(map(str, words))))
    notify(run, "failed", "exit code 1")
    assert not told
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "settings.yaml").write_text("{}")
    notify(run, "failed", "API_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 refused")
    ((name, root, id_, kind, text),) = told
    assert (name, root, id_, kind) == ("notify", str(run.home.root), run.id, "failed")
    assert "hf_abcdef" not in text and "refused" in text


def test_a_look_without_an_end_keeps_no_stop_from_being_heard(
    monkeypatch: pytest.MonkeyPatch, run: RunDirectory, wakeups: WakeupLoop
) -> None:
    """It waits for a lock, and who holds that may be suspended."""

    def look(*_: object, **__: object) -> None:
        run.stop.touch()
        signal.pause()

    run.plan.write_text('{"phase": "queued"}')
    monkeypatch.setattr(helpers, "become", look)
    monkeypatch.setattr(queue_wait, "_FIRST_POLLS_EVERY_S", 0.0)
    monkeypatch.setattr(queue_wait, "_DISPATCHED_WITHIN_S", 0.1)
    assert not wait_for_grant(run, wakeups)
