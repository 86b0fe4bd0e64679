"""Which checkpoints a supervisor deletes, and when it warns of a full disk."""

import os
import time
from collections.abc import Callable
from math import log2
from pathlib import Path

import pytest

from runners.host.newest_file import NewestFile
from runners.lifecycle.supervisor import checkpoint_retention
from runners.lifecycle.supervisor.checkpoint_retention import (
    CheckpointKeeper,
    DiskForecast,
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


@pytest.fixture
def ten_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Disk:
        f_bavail, f_frsize = 10, 10**9

    monkeypatch.setattr(checkpoint_retention.os, "statvfs", lambda path: Disk)


def numbered(first: int, last: int, size: int = 10**9) -> list[NewestFile]:
    return [NewestFile(f"/d/e_{n}.pt", size, n * 600.0) for n in range(first, last + 1)]


def test_the_disk_s_end_is_foreseen_more_than_an_hour_ahead(ten_gigabytes: None) -> None:
    forecast = DiskForecast()
    said = [forecast.warning(n * 600.0, numbered(0, n)) for n in range(5)]
    assert said[:4] == [""] * 4
    assert "full in about 1.7 h" in said[4] and "6.00 GB an hour, 10.0 GB are free" in said[4]


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(lambda n: numbered(0, min(n, 2)), id="no more after the third"),
        pytest.param(lambda n: numbered(max(0, n - 2), n), id="the last three are kept"),
        pytest.param(lambda n: [NewestFile("/d/last.pt", 10**9, n * 600.0)], id="replaced"),
        pytest.param(lambda n: numbered(0, int(log2(n + 1)), 10**8), id="ever more rarely"),
        pytest.param(lambda n: numbered(0, n, 10**6), id="small beside the disk"),
        pytest.param(lambda n: [], id="none"),
    ],
)
def test_checkpoints_that_do_not_fill_a_disk_raise_no_alarm(
    ten_gigabytes: None, at: Callable[[int], list[NewestFile]]
) -> None:
    forecast = DiskForecast()
    assert [forecast.warning(n * 600.0, at(n)) for n in range(40)] == [""] * 40


def test_quick_first_checkpoints_are_no_pace(ten_gigabytes: None) -> None:
    forecast = DiskForecast()
    said = [forecast.warning(n * 10.0, numbered(0, n, 10**7)) for n in range(60)]
    assert said == [""] * 60
