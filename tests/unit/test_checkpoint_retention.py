"""Which checkpoints a supervisor deletes, and when it warns of a full disk."""

import os
import time
from pathlib import Path

import pytest

from runners.host.newest_file import NewestFile
from runners.lifecycle.supervisor import checkpoint_retention
from runners.lifecycle.supervisor.checkpoint_retention import (
    CheckpointKeeper,
    disk_warning,
    superfluous,
)
from runners.state.layout import StateDirectory
from runners.state.records import plan_fields

HOUR = 3600.0


def files(*names: str) -> list[NewestFile]:
    return [NewestFile(name, 10, float(i)) for i, name in enumerate(names)]


def gone(found: list[NewestFile], last: int = 1, best: int = 0, every: int = 0) -> list[str]:
    return [one.path for one in superfluous(found, {"last": last, "best": best, "every": every})]


def test_the_newest_the_best_and_every_nth_stay() -> None:
    found = files("e_1.pt", "e_2.pt", "best_a.pt", "e_10.pt", "best_b.pt", "e_11.pt", "e_12.pt")
    assert gone(found, last=2, best=1, every=5) == ["e_1.pt", "e_2.pt", "best_a.pt"]
    assert gone(found, last=1, best=2) == ["e_1.pt", "e_2.pt", "e_10.pt", "e_11.pt"]
    assert gone([]) == [] and gone(files("only.pt")) == [] and gone(files("best.pt")) == []


@pytest.fixture
def keeper(tmp_path: Path) -> CheckpointKeeper:
    state = StateDirectory(tmp_path / "state").create()
    run = state.run("mine")
    run.path.mkdir()
    plan = plan_fields({"checkpoints": [str(tmp_path / "c" / "*")], "spec": {"keep": {"last": 2}}})
    (tmp_path / "c").mkdir()
    return CheckpointKeeper(run, plan, time.time() - HOUR, lambda text: None)


def put(folder: Path, name: str, age: float) -> Path:
    path = folder / "c" / name
    path.write_bytes(b"x" * 100)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_only_old_files_of_this_run_go(keeper: CheckpointKeeper, tmp_path: Path) -> None:
    before = put(tmp_path, "e_0.pt", 2 * HOUR)  # another run's: from before this one began
    paths = [put(tmp_path, f"e_{n}.pt", 1000 - 100 * n) for n in (1, 2, 3)]
    writing = put(tmp_path, "e_4.pt.tmp", 500)
    folder = tmp_path / "c" / "e_00"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "w.bin").write_bytes(b"x")
    os.utime(folder / "inner" / "w.bin", (time.time() - 1500,) * 2)
    keeper.check(time.time())
    assert before.exists() and writing.exists() and not folder.exists()
    assert [path.exists() for path in paths] == [False, True, True]


def test_what_another_live_run_goes_on_from_stays(keeper: CheckpointKeeper, tmp_path: Path) -> None:
    paths = [put(tmp_path, f"e_{n}.pt", 1000 - 100 * n) for n in (1, 2, 3)]
    state = StateDirectory(tmp_path / "state")
    state.run("other").path.mkdir()
    state.run("other").plan.write_text(f'{{"resumed_from": "{paths[0]}"}}')
    state.live_marker("other").touch()
    keeper.check(time.time())
    assert paths[0].exists()


def test_the_disk_s_end_is_foreseen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Disk:
        f_bavail, f_frsize = 10, 10**9

    monkeypatch.setattr(checkpoint_retention.os, "statvfs", lambda path: Disk)
    found = [NewestFile(f"/d/e_{n}.pt", 10**9, n * 600.0) for n in range(5)]
    assert "full in about 1.7 h: 1.00 GB every 10 min, 10.0 GB free" in disk_warning(found)
    small = [one._replace(bytes=10**6) for one in found]
    assert disk_warning(small) == "" and disk_warning(found[:2]) == ""
