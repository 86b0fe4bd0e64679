"""Which checkpoints a supervisor deletes, and when it warns of a full disk."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from math import log2
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest import MonkeyPatch

from runners.host.newest_file import NewestFile
from runners.lifecycle.supervisor import checkpoint_retention
from runners.lifecycle.supervisor.checkpoint_retention import (
    CheckpointKeeper,
    DiskForecast,
    superfluous,
)
from runners.state.layout import StateDirectory
from runners.state.records import plan_fields
from tests import disk_habits

HOUR = 3600.0
DAY_S = 24 * HOUR


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


def test_a_run_that_is_done_before_the_disk_is_full_raises_no_alarm(ten_gigabytes: None) -> None:
    def said(left_s: float | None) -> str:
        forecast = DiskForecast()
        return [forecast.warning(n * 600.0, numbered(0, n), left_s) for n in range(5)][-1]

    assert said(HOUR) == "" and "1.7 h" in said(2 * HOUR) and "1.7 h" in said(None)


def test_what_stopped_growing_has_no_pace(ten_gigabytes: None) -> None:
    forecast = DiskForecast()
    said = [forecast.warning(n * 600.0, numbered(0, min(n, 3), 2 * 10**9)) for n in range(40)]
    assert said == [""] * 40


def test_quick_first_checkpoints_are_no_pace(ten_gigabytes: None) -> None:
    forecast = DiskForecast()
    said = [forecast.warning(n * 10.0, numbered(0, n, 10**7)) for n in range(60)]
    assert said == [""] * 60


class Watched:
    """A program's folder on a small disk, and the keeper that looks at it, a minute at a time."""

    def __init__(self, keeper: CheckpointKeeper, folder: Path, monkeypatch: MonkeyPatch) -> None:
        self._folder, self._now, self._megabytes = folder, 0.0, 0
        alerts: list[str] = []
        self._alerts, self._keeper = alerts, keeper
        monkeypatch.setattr(keeper, "_keep", None)
        monkeypatch.setattr(keeper, "_started", 0.0)
        monkeypatch.setattr(keeper, "_alert", alerts.append)
        monkeypatch.setattr(disk_habits, "MB", 1000)
        monkeypatch.setattr(checkpoint_retention.os, "statvfs", lambda path: self._disk())
        clock = SimpleNamespace(monotonic=lambda: self._now)
        monkeypatch.setattr(checkpoint_retention, "time", clock)

    def _disk(self) -> SimpleNamespace:
        taken = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        return SimpleNamespace(f_bavail=self._megabytes * 1000 - taken, f_frsize=1)

    def alarm(self, habit: disk_habits.Habit, megabytes: int, minutes: int) -> int | None:
        """In which minute there was an alarm."""
        self._megabytes = megabytes
        for minute in range(minutes):
            with suppress(SystemExit):
                habit(self._folder, minute)
            self._now = 60.0 * minute
            for path in self._folder.rglob("*"):
                if path.stat().st_mtime > DAY_S:
                    os.utime(path, (self._now, self._now))
            self._now += 15.0
            self._keeper.check(self._now)
            if self._alerts:
                return minute
        return None


@pytest.fixture
def watched(keeper: CheckpointKeeper, tmp_path: Path, monkeypatch: MonkeyPatch) -> Watched:
    return Watched(keeper, tmp_path / "c", monkeypatch)


@pytest.mark.parametrize("habit", disk_habits.QUIET.values(), ids=disk_habits.QUIET.keys())
def test_no_way_to_write_that_fills_no_disk_raises_an_alarm(
    watched: Watched, habit: disk_habits.Habit
) -> None:
    assert watched.alarm(habit, 300, 40) is None


def test_a_disk_that_fills_is_told_an_hour_before(watched: Watched) -> None:
    minute = watched.alarm(disk_habits.all_kept, 75 * disk_habits.ALL_KEPT_MB, 75)
    assert minute is not None and minute <= 75 - 60


@pytest.mark.parametrize(("age_s", "said"), [(10.0, None), (1000.0, 12)])
def test_the_watcher_s_word_of_the_end_counts_while_it_is_fresh(
    watched: Watched, tmp_path: Path, age_s: float, said: int | None
) -> None:
    def judged(folder: Path, minute: int) -> None:
        health = {"time": 60.0 * minute - age_s, "eta_s": 1800.0}
        (tmp_path / "state" / "runs" / "mine" / "health.json").write_text(json.dumps(health))
        disk_habits.all_kept(folder, minute)

    assert watched.alarm(judged, 75 * disk_habits.ALL_KEPT_MB, 18) == said
