"""`prune`: what goes, what stays and why, and what a crash leaves to the next call."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runners.host.identity import boot_id, host_name
from runners.host.locks import acquire
from runners.host.procfs import MARK
from runners.lifecycle.control.prune import Criteria, choose, prune
from runners.model.plan import Origin
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import list_run_ids
from tests.process.conftest import CommandLine
from tests.support import begun, eventually, make_plan, make_run

DAY = 86_400.0
Ended = Callable[..., RunDirectory]


@pytest.fixture
def ended(cli: CommandLine) -> Ended:
    """Make the directory of a run that ended `days` ago."""
    cli.state.create()

    def make(
        name: str, days: float = 0.0, state: State = State.DONE, host: str = ""
    ) -> RunDirectory:
        now = cli.state.root.stat().st_mtime
        run = cli.state.run(f"20261120-101500-{name}-7f3a")
        run.path.mkdir(mode=0o700)
        origin = Origin("anna", host or host_name(), boot_id(), now - days * DAY - 60)
        run.plan.write_bytes(msgspec.json.encode(make_plan(run.id, origin=origin)))
        record = RunRecord(
            state, host=host or host_name(), boot_id=boot_id(), ended=now - days * DAY
        )
        run.state.write_bytes(msgspec.json.encode(record))
        run.output.write_bytes(bytes(100_000))
        return run

    return make


def test_runs_go_by_age_number_and_ending(cli: CommandLine, ended: Ended) -> None:
    ended("a", 40)
    ended("b", 40, State.FAILED)
    ended("c", 20)
    ended("d")
    assert _names(cli.json("prune", "--older-than", "30d", "--dry-run")) == ["a", "b"]
    assert _names(cli.json("prune", "--state", "failed,lost", "--dry-run")) == ["b"]
    assert _names(cli.json("prune", "--keep", "1", "--dry-run")) == ["a", "b", "c"]
    assert _names(
        cli.json("prune", "--keep", "1", "--older-than", "30d", "--state", "done", "--dry-run")
    ) == ["a"]
    assert len(list_run_ids(cli.state)) == 4, "a dry run removes nothing"
    done = cli.run("prune", "--older-than", "30d")
    assert "removed 2 runs" in done.stderr and "freed" in done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert [name.split("-")[2] for name in list_run_ids(cli.state)] == ["c", "d"]
    freed = cli.json("prune", "--keep", "0")
    assert freed["bytes"] >= 200_000 and freed["bytes"] == sum(
        run["bytes"] for run in freed["removed"]
    )
    assert list(cli.state.runs.iterdir()) == []


def test_without_a_criterion_nothing_goes(cli: CommandLine, ended: Ended) -> None:
    ended("a", 400)
    said = cli.run("prune", exits=2).stderr
    assert all(flag in said for flag in ("--older-than", "--keep", "--state", "--dry-run"))
    for words in (
        ["--state", "running"],
        ["--older-than", "soon"],
        ["--keep", "-1"],
        ["--state", ""],
    ):
        cli.run("prune", *words, exits=2)
    assert len(list_run_ids(cli.state)) == 1


def test_a_live_run_stays_and_so_does_what_looks_ended_but_is_not(
    cli: CommandLine, ended: Ended
) -> None:
    live = cli.command("sleep", "60")
    locked, marked, unrecorded, gone = (
        ended(name) for name in ("locked", "marked", "unrecorded", "gone")
    )
    lock = acquire(locked.run_lock)
    cli.state.live_marker(unrecorded.id).touch()
    child = begun(["sleep", "60"], env={**os.environ, MARK: marked.id})
    try:
        # Called here and not as a command, which would adopt the unrecorded one first.
        found = prune(cli.state, Criteria(keep=0))
    finally:
        child.kill()
        child.wait()
        os.close(lock or -1)
        cli.state.live_marker(unrecorded.id).unlink()
    assert [run.run for run in found.removed] == [gone.id]
    assert "locks" in found.left[locked.id] and f"pid {child.pid}" in found.left[marked.id]
    assert "not recorded" in found.left[unrecorded.id] and live.id not in found.left
    assert (
        all(run.path.is_dir() for run in (live, locked, marked, unrecorded))
        and not gone.path.exists()
    )


def test_a_run_that_another_waits_for_stays(cli: CommandLine) -> None:
    first = cli.command("echo", "over", ready="over")
    cli.ended(first)
    cli.run("drain", "on")
    second = cli.launch("--gpus", "0", "--after", first.id, "--", "true")
    eventually(lambda: cli.status(second)["state"] == "queued", what="a queued run")
    found = cli.json("prune", "--keep", "0")
    assert found["removed"] == [] and found["kept"] == [
        {"run": first.id, "reason": f"{second.id} waits for it"}
    ]
    cli.run("drain", "off")
    assert cli.ended(second)["state"] == "done"
    removed: set[str] = set()

    def both() -> bool:  # one whose last process is not quite gone stays for another time
        removed.update(run["run"] for run in cli.json("prune", "--keep", "0")["removed"])
        return removed == {first.id, second.id}

    eventually(both, what="both removed")


def test_another_host_s_runs_and_half_made_ones_stay(cli: CommandLine, ended: Ended) -> None:
    theirs = ended("theirs", 40, host="gpu-box-9")
    half = cli.state.run("20261120-101500-half-7f3a")
    half.path.mkdir(mode=0o700)
    ours = ended("ours", 40)
    found = cli.json("prune", "--keep", "0")
    assert [run["run"] for run in found["removed"]] == [ours.id]
    assert {left["run"]: left["reason"] for left in found["kept"]} == {
        theirs.id: "belongs to host gpu-box-9",
        half.id: "half made, perhaps just now by another host",
    }
    assert (
        theirs.id in cli.run("prune", "--keep", "0", FRESNEL_HOST="gpu-box-9").stdout
        and not theirs.path.exists()
    )


def test_a_link_in_place_of_a_run_is_not_followed(cli: CommandLine, ended: Ended) -> None:
    run = ended("linked", 40)
    elsewhere = cli.folder / "elsewhere"
    run.path.rename(elsewhere)
    run.path.symlink_to(elsewhere)
    found = cli.json("prune", "--keep", "0")
    assert found["removed"] == [] and "is a link" in found["kept"][0]["reason"]
    assert (elsewhere / "plan.json").exists()


def test_what_a_crash_left_is_finished_by_the_next_call(
    cli: CommandLine, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [ended(name, 40) for name in ("a", "b")]

    def crash(place: Path) -> None:
        (place / "plan.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", crash)
    with pytest.raises(KeyboardInterrupt):
        prune(cli.state, Criteria(keep=0))
    monkeypatch.undo()
    state = StateDirectory(cli.state.root)
    assert list_run_ids(state) == [], "nobody sees half a run"
    assert {path.name for path in state.runs.iterdir()} == {f".pruned-{run.id}" for run in runs}
    finished = prune(state, Criteria(older_than_s=DAY))
    assert finished.removed == [] and finished.leftover_bytes > 100_000
    assert list(state.runs.iterdir()) == []


def test_what_cannot_be_deleted_is_said_and_fails(
    cli: CommandLine, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended("stuck", 40)

    def refuse(place: Path) -> None:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    found = prune(cli.state, Criteria(keep=0))
    assert found.removed == [] and "Permission denied" in found.failed[run.id]


def test_the_newest_are_kept_among_those_that_ended_so() -> None:
    runs = [make_run(State.DONE, ended=float(i), id=f"r{i}") for i in range(4)]
    runs[1] = make_run(State.FAILED, ended=1.0, id="r1")
    runs.append(make_run(State.RUNNING, id="live"))
    assert [run.id for run in choose(runs, Criteria(keep=1), 100.0)] == ["r0", "r1", "r2"]
    assert [
        run.id for run in choose(runs, Criteria(keep=1, states=frozenset({State.DONE})), 100.0)
    ] == ["r0", "r2"]
    assert [run.id for run in choose(runs, Criteria(older_than_s=98.0), 100.0)] == ["r0", "r1"]
    assert choose(runs, Criteria(keep=9), 100.0) == []


def _names(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [run["run"].split("-")[2] for run in answer["removed"]]
