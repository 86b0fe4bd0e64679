"""A sweep's watcher on runs as they lie on disk: whom it stops, by what, and how often."""

import errno
import json
import math
import os
import select
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from runners.guard.hopeless import Course, _SweepWatcher, hopeless, main
from runners.guard.sweep_watch import SweepWatch, ensure_sweep_watches, lock_of
from runners.host import helpers
from runners.host.identity import boot_id, host_name
from runners.host.locks import acquire, claim, is_held
from runners.model.plan import Origin
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state.codec import read_intent
from runners.state.layout import RunDirectory, StateDirectory
from tests.support import CEILING_S, begun, make_plan

GOOD = (0.5, 0.4, 0.3, 0.2, 0.1)
BAD = (0.9, 0.9, 0.9, 0.9, 0.9)
Write = Callable[[int, Sequence[float], bool], RunDirectory]


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").create()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A helper's `main` in this process leaves its terminal and folder as they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("runners.host.alone.leave_terminal", lambda _: None)


@pytest.fixture
def write(state: StateDirectory) -> Iterator[Write]:
    """Writes a run with values of its loss an accuracy that says the opposite, and a
    wobble of which nobody knows what is good; live or ended."""
    with ExitStack() as held:

        def run_of(number: int, losses: Sequence[float], live: bool) -> RunDirectory:
            run = state.run(f"20261120-101500-demo-{number:04x}")
            run.path.mkdir(parents=True)
            origin = Origin("anna", host_name(), boot_id(), 1000.0)
            run.plan.write_bytes(
                msgspec.json.encode(make_plan(run.id, origin=origin, directory=str(run.path)))
            )
            begun = RunRecord(State.RUNNING, host=host_name(), boot_id=boot_id(), started=1000.0)
            done = RunRecord(State.DONE, started=1000.0, ended=2000.0)
            run.state.write_bytes(msgspec.json.encode(begun if live else done))
            if live:
                for lock in (run.supervisor_lock, run.run_lock):
                    descriptor = acquire(lock)
                    assert descriptor is not None
                    held.callback(os.close, descriptor)
            say(run, losses)
            return run

        yield run_of


def say(run: RunDirectory, losses: Sequence[float]) -> None:
    """Have a run report a loss a step, and others that rise with it."""
    with run.events.open("a") as out:
        for step, loss in enumerate(losses, 1):
            values = {"loss": loss, "accuracy": loss, "wobble": loss}
            fields = {"time": step, "type": "metrics", "step": step, "values": values}
            out.write(json.dumps(fields) + "\n")


def watcher_of(state: StateDirectory, runs: Sequence[RunDirectory], metric: str) -> _SweepWatcher:
    return _SweepWatcher(state, SweepWatch("g", tuple(run.id for run in runs), host_name(), metric))


@pytest.mark.parametrize(
    ("metric", "stopped"), [("", True), ("loss", True), ("accuracy", False), ("wobble", False)]
)
def test_the_rule_s_metric_or_else_the_headline_decides(
    state: StateDirectory, write: Write, metric: str, stopped: bool
) -> None:
    others = [write(number, GOOD, False) for number in range(3)]
    bad = write(3, BAD, True)
    watcher = watcher_of(state, [*others, bad], metric)
    assert watcher.step(), "one of them lives"
    intent = read_intent(bad)
    assert (intent is not None) == stopped
    if intent is not None:
        assert intent.ending["detail"].startswith(
            "hopeless by the median rule: best loss 0.9 at step"
        )
        (event,) = [json.loads(line) for line in bad.supervisor_events.read_text().splitlines()]
        assert event["type"] == "hopeless" and event["reason"] in intent.ending["detail"]
        watcher.step()
        again = read_intent(bad)
        assert again is not None and again.requests == 1, "asked once"


def test_a_live_run_is_read_on_and_a_removed_one_passed_over(
    state: StateDirectory, write: Write
) -> None:
    others = [write(number, GOOD, False) for number in range(3)]
    live = write(3, BAD[:4], True)
    gone = state.run("20261120-101500-demo-00ff")
    watcher = watcher_of(state, [gone, *others, live], "loss")
    assert watcher.step() and read_intent(live) is None, "four values are too few"
    say(live, BAD)
    assert watcher.step() and read_intent(live) is not None


def test_the_watch_ends_with_the_last_run(state: StateDirectory, write: Write) -> None:
    runs = [write(number, values, False) for number, values in enumerate((GOOD, GOOD, GOOD, BAD))]
    assert not watcher_of(state, runs, "loss").step()
    assert all(read_intent(run) is None for run in runs), "nobody is left to stop"
    assert not watcher_of(state, [], "").step()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_watch_that_is_over_leaves_nothing(
    state: StateDirectory, write: Write, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    run = write(0, GOOD, False)
    state.sweeps.mkdir(exist_ok=True)
    path = state.sweeps / "g.json"
    path.write_bytes(msgspec.json.encode(SweepWatch("g", (run.id,), host_name(), "loss")))
    if is_damaged:
        path.write_text("{")
    monkeypatch.setattr("sys.argv", ["watch-sweep", str(state.root), "g"])
    held = acquire(lock_of(path), 0.0)
    assert held is not None
    main()
    assert path.exists(), "another process watches it"
    os.close(held)
    main()
    assert not list(state.sweeps.iterdir())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EMFILE])
def test_a_rule_that_cannot_be_read_for_a_moment_stays(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    state.sweeps.mkdir(exist_ok=True)
    path = state.sweeps / "g.json"
    path.write_bytes(msgspec.json.encode(SweepWatch("g", ("a",), host_name(), "loss")))

    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("sys.argv", ["watch-sweep", str(state.root), "g"])
    monkeypatch.setattr("runners.state.decoding.read_plain", refuse)
    with suppress(OSError):
        main()
    assert path.exists()


def test_what_cannot_be_judged_is_said_once_and_ends_with_its_runs(
    state: StateDirectory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(0, GOOD, True)
    state.live_marker(run.id).touch()
    watcher = watcher_of(state, [run], "loss")

    def odd(*_: object) -> bool:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(watcher, "step", odd)
    assert watcher.observe() and watcher.observe()
    (event,) = [json.loads(line) for line in run.supervisor_events.read_text().splitlines()]
    assert event["type"] == "alert" and "odd" in event["text"]

    # Where nobody can tell which live, it looks again too.
    def silent(_: object) -> list[str]:
        raise OSError(errno.EIO, "no answer")

    with monkeypatch.context() as there:
        there.setattr("runners.guard.hopeless.live_run_ids", silent)
        assert watcher.observe()
    state.live_marker(run.id).unlink()
    assert not watcher.observe()


def test_a_watch_that_dies_young_is_not_started_by_every_look(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.sweeps.mkdir(exist_ok=True)
    path = state.sweeps / "g.json"
    path.write_bytes(msgspec.json.encode(SweepWatch("g", ("a",), host_name(), "loss")))
    started: list[str] = []

    def dies(_name: str, _root: Path, group: str) -> None:
        descriptor = claim(lock_of(path))
        assert descriptor is not None
        os.close(descriptor)
        started.append(group)

    monkeypatch.setattr(helpers, "spawn", dies)
    for _ in range(3):
        ensure_sweep_watches(state)
    assert started == ["g"]


def test_a_watch_does_not_keep_the_output_of_whoever_starts_it(
    state: StateDirectory, write: Write
) -> None:
    run = write(0, GOOD, True)
    state.sweeps.mkdir(exist_ok=True)
    path = state.sweeps / "g.json"
    path.write_bytes(msgspec.json.encode(SweepWatch("g", (run.id,), host_name(), "loss")))
    with begun(helpers.command("watch-sweep", state.root, "g"), stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        try:
            ready, _, _ = select.select([watching.stdout], [], [], CEILING_S)
            assert ready and watching.stdout.read() == b"", "it is closed while the watch goes on"
            assert watching.poll() is None and is_held(lock_of(path))
        finally:
            path.unlink()


@pytest.mark.usefixtures("here")
def test_a_watch_whose_file_was_removed_ends(
    state: StateDirectory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(0, GOOD, True)
    state.sweeps.mkdir(exist_ok=True)
    path = state.sweeps / "g.json"
    path.write_bytes(msgspec.json.encode(SweepWatch("g", (run.id,), host_name(), "loss")))
    monkeypatch.setattr("sys.argv", ["watch-sweep", str(state.root), "g"])
    monkeypatch.setattr("runners.guard.hopeless.time.sleep", lambda _: path.unlink())
    main()
    assert not list(state.sweeps.iterdir())


def test_as_good_as_the_median_is_not_hopeless() -> None:
    steps = [1, 2, 3, 4, 5]
    others = {f"other{i}": Course(steps, [2.0] * 5) for i in range(3)}
    for higher in (False, True):
        for best, found in ((2.0, set()), (3.0 if not higher else 1.0, {"mine"})):
            mine = {"mine": Course(steps, [best] * 5)}
            assert hopeless({**others, **mine}, ["mine"], higher, "m").keys() == found
    assert hopeless(others, ["unknown"], False, "m") == {}


def test_one_good_value_is_a_run_s_best_wherever_it_came() -> None:
    steps = [1, 2, 3, 4, 5]
    others = {f"other{i}": Course(steps, [2.0] * 5) for i in range(3)}
    for higher, good, bad in ((False, 1.0, 9.0), (True, 9.0, 1.0)):
        mine = {"mine": Course(steps, [bad, good, bad, bad, math.nan])}
        assert hopeless({**others, **mine}, ["mine"], higher, "m") == {}


def test_who_cannot_be_judged_does_not_keep_the_next_from_it() -> None:
    steps = [1, 2, 3, 4, 5]
    courses = {f"other{i}": Course(steps, [1.0] * 5) for i in range(3)}
    courses |= {"short": Course([1], [9.0]), "bad": Course(steps, [9.0] * 5)}
    ahead = {"ahead": Course([9] * 5, [9.0] * 5)}
    live = ["unknown", "short", "ahead", "bad"]
    assert hopeless(courses | ahead, live, False, "m").keys() == {"bad"}


def test_each_sweep_of_this_host_is_watched_once(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(helpers, "spawn", lambda _name, _root, group: started.append(group))
    state.sweeps.mkdir(exist_ok=True)
    for group, host in (("mine", host_name()), ("theirs", "elsewhere"), ("watched", host_name())):
        rule = SweepWatch(group, ("a",), host)
        (state.sweeps / f"{group}.json").write_bytes(msgspec.json.encode(rule))
    (state.sweeps / "damaged.json").write_text("{")
    lock = acquire(lock_of(state.sweeps / "watched.json"))
    assert lock is not None
    ensure_sweep_watches(state)
    os.close(lock)
    assert started == ["mine"]
