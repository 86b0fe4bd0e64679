"""A full disk, or one without inodes: a run can still be stopped, from the command line and the
panel.
"""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.host import files
from runners.lifecycle.control import stop as stop_module
from runners.lifecycle.control.stop import request_stop
from runners.model.endings import Ending, EndingCause
from runners.model.states import State
from runners.places.actions import PauseRuns
from runners.places.here import carry_out
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.process.conftest import CommandLine, events, record
from tests.support import eventually
from tui.panel.widgets.run_lines import RunLines
from tui.snapshot.feed import SnapshotFeed


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be made or grow in this process, as on a full disk; others may be written."""

    def refuse(path: Path, content: bytes, sync: bool = True) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(files, "replace", refuse)
    monkeypatch.setattr(stop_module, "replace", refuse)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.system(f"mount -t tmpfs -o size=2m tmpfs {folder} 2>/dev/null"):
        pytest.skip("nothing may be mounted here")
    yield folder
    os.system(f"umount -l {folder}")


@pytest.mark.parametrize("force", [False, True])
def test_the_wish_is_written_into_the_room_set_aside(
    cli: CommandLine, full: None, force: bool
) -> None:
    run = cli.command(
        "sh", "-c", "trap : TERM INT; echo up; while :; do sleep 0.1; done", ready="up"
    )
    ending = Ending(cause=EndingCause.PEER, detail="the disk is full")
    request_stop(cli.state, read_run(cli.state, run.id), force, ending)
    assert json.loads(run.stop.read_text())["ending"] == ending
    eventually(lambda: events(run, "stop"), what="the first rung")
    request_stop(cli.state, read_run(cli.state, run.id), True)
    assert json.loads(run.stop.read_text())["requests"] == 2
    found = cli.ended(run)
    assert (found["state"], found["reason"]) == ("stopped", "the disk is full")


@pytest.mark.parametrize("force", [False, True])
def test_without_room_set_aside_the_wish_is_handed_over_by_a_signal(
    cli: CommandLine, full: None, force: bool
) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    run.stop_reserve.unlink()
    request_stop(cli.state, read_run(cli.state, run.id), force)
    assert cli.ended(run)["state"] == "stopped"


def test_on_a_disk_that_is_really_full(cli: CommandLine, disk: Path) -> None:
    there = {"FRESNEL_STATE_DIR": str(disk / "state")}
    # Full once its start is recorded: before that, there may be no room for the record.
    started = "until grep -q running state/runs/*/state.json; do sleep 0.05; done"
    script = f"{started}; cat /dev/zero >>filler; echo >>filler2; exec sleep 600"
    line = cli.run("launch", "--gpus", "0", "--", "sh", "-c", f"cd {disk}; {script}", **there)
    run = disk / "state" / "runs" / line.stdout.strip()
    eventually(lambda: os.statvfs(disk).f_bavail == 0, what="a full disk")
    eventually(lambda: record_of(run).get("state") == "running")
    cli.run("stop", line.stdout.strip(), **there)
    eventually(lambda: not (disk / "state" / "live" / run.name).exists() or _is_free(disk))
    (disk / "filler").unlink()
    eventually(lambda: record_of(run).get("state") == "stopped", what="the ending recorded")


@pytest.mark.parametrize("free", [4 << 10, 20 << 10, 28 << 10])
def test_what_has_no_room_for_its_records_is_not_started(
    cli: CommandLine, disk: Path, free: int
) -> None:
    there = {"FRESNEL_STATE_DIR": str(disk / "state")}
    cli.run("list", **there)
    left = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(left.f_bavail * left.f_frsize - free))
    refused = cli.run("launch", "--gpus", "0", "--", "true", exits=1, **there)
    assert os.strerror(errno.ENOSPC) in refused.stderr
    assert json.loads(cli.run("list", "--json", **there).stdout) == []


def test_the_panel_says_that_the_disk_of_its_state_folder_is_full(
    cli: CommandLine, disk: Path
) -> None:
    """Above the readings of GPUs that do not come; and what is not done says why in words."""
    state = StateDirectory(disk / "state").create()
    feed = SnapshotFeed(state, read_only=True)
    try:
        assert feed.first_snapshot(60.0).problem == ""
        there = {"FRESNEL_STATE_DIR": str(state.root)}
        words = ("launch", "--gpus", "0", "--", "sleep", "600")
        ids = [cli.run(*words, **there).stdout.strip() for _ in range(2)]
        eventually(lambda: all(read_run(state, each).state is State.RUNNING for each in ids))
        (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        snapshot = feed._reader.submit(feed._take).result(60.0)
        assert str(state.root) in snapshot.problem
        assert snapshot.reading is not None and snapshot.reading.problem == snapshot.problem
        outcome = carry_out(state, PauseRuns(tuple(ids)))
        assert [run for run, _ in outcome.refused] == ids
        assert os.strerror(errno.ENOSPC) in outcome.problem and "Errno" not in outcome.problem
        (disk / "filler").unlink()
        cli.run("kill", *ids, "--wait", **there)
    finally:
        feed._reader.shutdown()


def test_a_state_folder_that_is_gone_is_not_taken_for_one_without_runs(tmp_path: Path) -> None:
    """And no sampler makes it anew; once it is back all is as it was."""
    state = StateDirectory(tmp_path / "state").create()
    feed = SnapshotFeed(state)
    lines = RunLines()
    try:
        assert feed.first_snapshot(60.0).problem == ""
        state.root.rename(tmp_path / "elsewhere")
        gone = feed._reader.submit(feed._take).result(60.0)
        assert str(state.root) in gone.problem and not state.root.exists()
        lines.show(gone)
        assert lines.nothing == gone.problem == gone.reading.problem
        (tmp_path / "elsewhere").rename(state.root)
        assert feed._reader.submit(feed._take).result(60.0).problem == ""
    finally:
        feed._reader.shutdown()


def _is_free(disk: Path) -> bool:
    from runners.host.procfs import marked_processes

    return not marked_processes(next((disk / "state" / "runs").iterdir()).name)


def record_of(run: Path) -> dict[str, object]:
    """state.json of a run in another state folder."""
    try:
        found = json.loads((run / "state.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def test_a_run_of_an_earlier_version_has_no_room_and_no_harm(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    run.stop_reserve.unlink()
    cli.run("stop", run.id, "--wait")
    assert record(run)["state"] == "stopped"


@pytest.mark.parametrize(
    "program",
    [
        "cat /dev/zero >filler 2>/dev/null; exit 1",
        "dd if=/dev/zero of=filler bs=64k",
        "tar cf filler /usr/bin",
        'python3 -c \'open("filler", "wb").write(bytes(9 << 20))\'',
    ],
)
def test_a_run_that_fails_for_want_of_room_says_which_disk(
    cli: CommandLine, disk: Path, program: str
) -> None:
    """In words of its own or without any; also after there is room again."""
    run = cli.command("sh", "-c", f"cd {disk} && {program}")
    found = cli.ended(run)
    assert found["state"] == "failed" and str(disk) in found["reason"]
    assert (found["ending"]["diagnosis"], found["ending"]["disk"]) == ("disk_full", str(disk))
    (disk / "filler").unlink()
    verdict = json.loads(cli.run("diagnose", run.id, "--json").stdout)["diagnosis"]
    assert verdict["class"] == "disk_full" and str(disk) in verdict["cause"]
    assert "resume" in verdict["remedies"] and verdict["remedy"]
