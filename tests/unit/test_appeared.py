"""Checkpoints and metric files of which a program prints nothing: whose they are."""

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runners.host.printed_paths import PrintedScan
from runners.model.course import RestartRule
from runners.model.run import Run, RunRecord
from runners.model.states import State
from runners.watch.appeared import Appearing, alone_in
from runners.watch.metrics.checkpoints import run_checkpoint
from runners.watch.metrics.final_maker import add_noted, keep_final
from runners.watch.metrics.run_metrics import RunMetrics
from tests.support import make_plan, make_run

LIGHTNING = "lightning_logs/version_0"
BEGAN = 5000.0


def working_in(folder: Path, name: str = "a", **spec: Any) -> Run:
    own = folder.parent / f"run-{name}"
    own.mkdir(exist_ok=True)
    plan = make_plan(working_directory=str(folder))
    plan = replace(plan, spec=replace(plan.spec, **spec))
    return make_run(State.RUNNING, id=name, plan=plan, directory=str(own), started=BEGAN)


def written(path: Path, at: float, text: str = "") -> None:
    """A file, or a checkpoint as torch.save writes it, of that moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        path.write_text(text)
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("data.pkl", text)
    os.utime(path, (at, at))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_a_silent_program_s_metrics_and_checkpoints_are_its_own_where_it_works_alone(
    work: Path,
) -> None:
    run = working_in(work)
    appearing, scan = Appearing(run), PrintedScan(run.directory, str(work))
    written(work / LIGHTNING / "metrics.csv", BEGAN + 1, "epoch,step,loss\n0,49,0.5\n0,99,0.25\n")
    written(work / LIGHTNING / "checkpoints/epoch=0-step=100.ckpt", BEGAN + 1)
    scan.add(appearing.poll(True, BEGAN + 5))
    scan.save()
    # Who looked before the watcher noted them, and who looks for the first time.
    for kept in (scan, PrintedScan(run.directory, str(work))):
        found = run_checkpoint(run, kept)
        assert found is not None and found.path.endswith("step=100.ckpt")
    metrics = RunMetrics(run)
    while metrics.poll():
        pass
    assert metrics.series()["loss"].values.tolist() == [0.5, 0.25]
    # Of a known folder a later one is seen at once, also after the last look.
    written(work / LIGHTNING / "checkpoints/epoch=1-step=200.ckpt", BEGAN + 20)
    latest = run_checkpoint(run)
    assert latest is not None and latest.path.endswith("step=200.ckpt")


def test_what_was_saved_last_is_found_after_the_report_was_made(work: Path) -> None:
    run, ended = working_in(work), BEGAN + 60
    appearing, scan = Appearing(run), PrintedScan(run.directory, str(work))
    written(work / "model_1.pt", BEGAN + 1)
    scan.add(appearing.poll(True, BEGAN + 5))
    scan.save()
    written(work / "model_final.pt", ended)
    record = RunRecord(State.DONE, started=BEGAN, ended=ended, exit_code=0)
    run = replace(run, state=State.DONE, record=record)
    keep_final(run)
    # The watcher looks some seconds later; what another run writes then is none of its.
    scan.add(appearing.poll(True, ended + 5, last=True))
    scan.save()
    add_noted(run)
    written(work / "model_later.pt", ended + 30)
    found = run_checkpoint(run)
    assert found is not None and found.path == str(work / "model_final.pt")


def test_whoever_makes_a_short_run_s_report_finds_what_it_saved_in_silence(work: Path) -> None:
    ended = BEGAN + 9
    record = RunRecord(State.DONE, started=BEGAN, ended=ended, exit_code=0)
    run = replace(working_in(work), state=State.DONE, record=record)
    written(work / "model_final.pt", ended)
    # Long after: what came later is none of its.
    written(work / "model_later.pt", ended + 30)
    keep_final(run)
    found = run_checkpoint(run)
    assert found is not None and found.path == str(work / "model_final.pt")


def test_what_the_trainer_saves_and_what_lies_beside_the_script(work: Path) -> None:
    appearing = Appearing(working_in(work))
    for name in ("out/checkpoint-50/optimizer.pt", "model_best.pt", "policy.pth", "net.keras"):
        written(work / name, BEGAN + 1)
    for name in ("data/train.pt", "features.safetensors", ".cache/model.pt", "venv/model.pt"):
        written(work / name, BEGAN + 1)
    written(work / "model_old.pt", BEGAN - 100)
    found = {os.path.relpath(path, work) for path in appearing.poll(True, BEGAN + 5)}
    assert found == {"out", "model_best.pt", "policy.pth", "net.keras"}


def test_what_stable_baselines3_saves_is_told_from_other_archives(work: Path) -> None:
    run = working_in(work)
    appearing, scan = Appearing(run), PrintedScan(run.directory, str(work))
    for name, last in (("ppo.zip", "_stable_baselines3_version"), ("tiny-imagenet.zip", "a.png")):
        with zipfile.ZipFile(work / name, "w") as file:
            for content in ("data", "policy.pth", last):
                file.writestr(content, "2.3.0")
        os.utime(work / name, (BEGAN + 1, BEGAN + 1))
    scan.add(appearing.poll(True, BEGAN + 5))
    scan.save()
    found = run_checkpoint(run, scan)
    assert found is not None and found.path == str(work / "ppo.zip")
    assert not any("imagenet" in path for path in appearing.poll(True, BEGAN + 6))


def test_what_lightning_writes_under_hydra_is_found_beside_a_large_folder_of_data(
    work: Path,
) -> None:
    (work / "data").mkdir()
    for number in range(12_000):
        (work / "data" / f"{number}.npy").touch()
    appearing, run = Appearing(working_in(work)), work / "logs/train/runs/2026-11-26_13-20-01"
    written(run / "csv/version_0/metrics.csv", BEGAN + 1, "epoch,step,loss\n0,49,0.5\n")
    written(run / "checkpoints/epoch_000.ckpt", BEGAN + 1)
    found = appearing.poll(True, BEGAN + 5)
    assert sorted(found) == [str(run / "checkpoints"), str(run / "csv/version_0/metrics.csv")]


def test_what_a_search_had_no_time_for_is_found_by_the_next(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appearing = Appearing(working_in(work))
    written(work / "out" / "model_1.pt", BEGAN + 1)
    with monkeypatch.context() as hurried:
        hurried.setattr("runners.watch.appeared._MOST_NAMES", 1)
        assert appearing.poll(True, BEGAN + 5) == []
    assert appearing.poll(True, BEGAN + 60, last=True) == [str(work / "out")]


def test_nothing_is_claimed_of_a_time_when_another_run_worked_there(work: Path) -> None:
    appearing = Appearing(working_in(work))
    assert appearing.poll(True, BEGAN + 5) == []
    written(work / "model_1.pt", BEGAN + 8)
    assert appearing.poll(False, BEGAN + 15) == []
    written(work / "model_2.pt", BEGAN + 18)
    assert appearing.poll(True, BEGAN + 25) == []
    written(work / "model_3.pt", BEGAN + 28)
    assert appearing.poll(True, BEGAN + 35) == [str(work / "model_3.pt")]


def test_a_search_that_takes_its_time_is_made_more_rarely_but_for_the_last(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appearing, clock = Appearing(working_in(work)), iter(range(100))
    monkeypatch.setattr("runners.watch.appeared.time.thread_time", lambda: next(clock))
    assert appearing.poll(True, BEGAN + 5) == []
    written(work / "model_1.pt", BEGAN + 8)
    assert appearing.poll(True, BEGAN + 15) == []
    assert appearing.poll(True, BEGAN + 16, last=True) == [str(work / "model_1.pt")]


def test_nothing_is_claimed_of_a_time_that_nobody_saw(work: Path) -> None:
    appearing = Appearing(working_in(work))
    written(work / "model_1.pt", BEGAN + 1)
    assert appearing.poll(True, BEGAN + 3600) == []


def test_nothing_is_looked_for_where_a_preset_says_where_or_goes_on_from_it(work: Path) -> None:
    written(work / "model_1.pt", BEGAN + 1)
    for spec in ({"checkpoints": ("out/*.pt",)}, {"restart": RestartRule(times=1)}):
        assert Appearing(working_in(work, **spec)).poll(True, BEGAN + 5) == []
    assert Appearing(working_in(work)).poll(True, BEGAN + 5)


def test_what_lies_below_a_home_is_other_people_s(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(work))
    written(work / "model_1.pt", BEGAN + 1)
    written(work / "other/model_2.pt", BEGAN + 1)
    found = Appearing(working_in(work)).poll(True, BEGAN + 5)
    assert found == [str(work / "model_1.pt")]


def test_alone_is_who_shares_no_directory_above_below_or_by_a_link(tmp_path: Path) -> None:
    for name in ("a/b/c", "d", "e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "e")
    places = {"1": "a", "2": "a/b/c", "3": "d", "4": "e", "5": "link", "6": "a/b"}
    runs = [working_in(tmp_path / place, name) for name, place in places.items()]
    assert set(alone_in(runs)) == {"3"}
    assert set(alone_in(runs[1:5])) == {"2", "3"}
