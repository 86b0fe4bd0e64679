"""What a run tells: lines, events, TensorBoard, wandb, history, curves, previews, progress."""

from __future__ import annotations

import io
import json
import math
import os
import pty
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402

from tests.support import eventually  # noqa: E402
from trainers.common.bar import bar  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.meters import ThroughputMeter  # noqa: E402
from trainers.common.preview import write_preview  # noqa: E402
from trainers.common.ranks import Ranks  # noqa: E402
from trainers.common.reporter import Reporter  # noqa: E402

pytestmark = pytest.mark.trainers
CPU = torch.device("cpu")
FIRST: dict[str, Any] = {
    "found": {"skulls": 12, "points": 4096},
    "batch": "effective batch 8",
    "rate": "learning rate 1",
    "epochs": 3,
    "steps": 6,
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    return tmp_path


def make_reporter(run: Path, rank: int = 0, tensorboard: bool = False, **more: Any) -> Reporter:
    return Reporter(Ranks(rank, 2, CPU), run, "toy", {"width": 8, "data": run}, tensorboard, **more)


def train(reporter: Reporter, steps: range) -> None:
    for step in steps:
        values = {"loss": 1 / step, "learning_rate": 0.1}
        reporter.step((step + 1) // 2, step, values, always=True)
        if step % 2 == 0:
            reporter.epoch(step // 2, step, 1.5, {"loss": 1 / step, "psnr": math.inf})


def test_a_run_is_told_to_the_panel_and_the_user(run: Path, read_events, capsys) -> None:
    reporter = make_reporter(run)
    reporter.phase("loading", "12 skulls")
    reporter.start(**FIRST)
    reporter.phase("training")
    reporter.phase("training")
    train(reporter, range(1, 7))
    reporter.checkpoint((run / "c.pt", 5), 3, 6, best=True)
    reporter.warn("batch_size was 4 and is 2")
    reporter.finish({"loss": 0.25})
    kinds = [event["type"] for event in read_events(run)]
    assert kinds[:4] == ["phase", "start", "phase", "metrics"]
    assert kinds[-3:] == ["checkpoint", "alert", "summary"]
    start = read_events(run, "start")[0]
    assert (start["epochs"], start["steps"], start["settings"]["skulls"]) == (3, 6, 12)
    assert [event["phase"] for event in read_events(run, "phase")] == ["loading", "training"]
    saved = read_events(run, "checkpoint")[0]
    assert (saved["path"], saved["bytes"], saved["best"]) == (str(run / "c.pt"), 5, True)
    told = capsys.readouterr()
    for words in ("skulls 12, points 4096", "2 x CPU", "effective batch 8", "learning rate 1"):
        assert words in told.out
    assert "warning: batch_size was 4 and is 2" in told.err


def test_history_and_curves_go_on_after_a_resume(run: Path, read_events, curves) -> None:
    first = make_reporter(run / "first")
    first.start(**FIRST)
    train(first, range(1, 6))
    first.finish()
    # The checkpoint was written after step 4: what came later never happened.
    second = make_reporter(run / "second")
    resumed = run / "first" / "checkpoints" / "epoch_0002.pt"
    second.start(**FIRST, step=4, resumed_from=resumed)
    train(second, range(5, 7))
    second.finish()
    # A third that begins anew in the first's folder says whose files it replaces.
    assert read_events(run, "alert") == []
    make_reporter(run / "first").start(**FIRST)
    assert "first holds an earlier run" in read_events(run, "alert")[0]["text"]
    told = json.loads((run / "second" / "history.json").read_text())
    assert [one["step"] for one in told["steps"]] == [1, 2, 3, 4, 5, 6]
    assert [one["epoch"] for one in told["epochs"]] == [1, 2, 3]
    assert told["epochs"][0]["values"] == {"loss": 0.5, "psnr": None}
    with Image.open(run / "second" / "curves.png") as picture:
        assert picture.width > 600 and len(picture.convert("RGB").getcolors(1 << 20)) > 10


def test_ranks_that_do_not_lead_tell_nothing(run: Path, capsys) -> None:
    reporter = make_reporter(run, rank=1, tensorboard=True, wandb="project")
    reporter.phase("loading", "x")
    reporter.start(**FIRST)
    train(reporter, range(1, 7))
    reporter.checkpoint(None, 1, 1)
    reporter.finish({"loss": 1.0})
    assert list(run.iterdir()) == [] and capsys.readouterr() == ("", "")


def test_tensorboard_reads_what_was_told(run: Path) -> None:
    pytest.importorskip("tensorboardX")
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    reporter = make_reporter(run, tensorboard=True)
    reporter.start(**FIRST)
    train(reporter, range(1, 3))
    reporter.image(write_preview(run / "p.png", {"input": [np.eye(4)]}), "inputs", 2)
    reporter.finish()
    (file,) = (run / "tensorboard").iterdir()
    told = [
        (value.tag, event.step)
        for event in loading.EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]
    assert {("loss", 1), ("loss", 2), ("epoch/loss", 2), ("inputs", 2)} <= set(told)


def test_tensorboard_on_a_full_disk_does_not_hold_a_run_up(run: Path, capsys) -> None:
    """The thread of its own writer dies, and what waits for that thread waits for ever."""
    pytest.importorskip("tensorboardX")
    reporter = make_reporter(run, tensorboard=True)
    reporter.start(**FIRST)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        for step in range(1, 200):
            for board in reporter._boards:
                board.values(step, {f"value {number}": 1.0 for number in range(40)})
        for board in reporter._boards:
            board.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    told = capsys.readouterr().err
    assert told.count("warning: TensorBoard's files are no longer written: [Errno 27]") == 1


def test_without_tensorboard_it_is_said(run: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    reporter = make_reporter(run, tensorboard=True)
    reporter.start(**FIRST)
    train(reporter, range(1, 3))
    reporter.finish()
    assert "pip install tensorboardX" in capsys.readouterr().out


def test_wandb_that_is_not_installed_is_an_error(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SettingsError, match="--wandb project: wandb is not installed; pip"):
        make_reporter(run, wandb="project")


def test_wandb_works_offline(run: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(run))
    reporter = make_reporter(run, wandb="project")
    reporter.start(**FIRST)
    train(reporter, range(1, 3))
    reporter.finish({"loss": 0.5})
    assert "wandb        project project, offline" in capsys.readouterr().out
    files = "wandb/offline-run-*/run-*.wandb"  # a process of wandb's own writes it
    eventually(lambda: any(b"learning_rate" in file.read_bytes() for file in run.glob(files)))
    # Its process is a child of this one, where the tests of signals look for strangers.
    wandb.teardown()


def test_a_meter_tells_pace_waiting_and_memory() -> None:
    meter = ThroughputMeter(CPU, 2)
    assert list(meter.waiting([1, 2, 3])) == [1, 2, 3]
    meter.count(10)
    values = meter.values()
    assert values["samples_per_second"] == 2 * values["samples_per_second_per_device"] > 0
    assert 0 <= values["data_wait_share"] <= 1 and values["peak_memory_bytes"] > 1e6


def test_a_preview_shows_every_array_in_its_place(tmp_path: Path) -> None:
    red = np.zeros((3, 4, 4), np.float32)
    red[0] = 1
    rows = {"input": [red, torch.zeros(8, 8)], "target": [np.array([[-1000.0, 1000.0]]), np.ones(
        (5, 5, 3))]}  # fmt: skip
    path = write_preview(tmp_path / "a" / "p.png", rows, "first batch", ["one", "two"])
    with Image.open(path) as picture:
        colours = {colour: n for n, colour in picture.convert("RGB").getcolors(1 << 20)}
    assert colours[(255, 0, 0)] >= 160 * 160
    assert colours[(0, 0, 0)] >= 160 * 160
    assert colours[(255, 255, 255)] > 1000
    with pytest.raises(ValueError, match=r"\(2, 3, 4, 5\) is no picture"):
        write_preview(path, {"input": [np.zeros((2, 3, 4, 5))]})


def test_progress_in_a_log_is_a_line_now_and_then() -> None:
    log = io.StringIO()
    assert list(bar(range(50), "skulls", every=0, stream=log)) == list(range(50))
    lines = log.getvalue().splitlines()
    assert len(lines) == 50 and "\r" not in log.getvalue()
    assert lines[9].startswith("skulls  10/50 (20 %)") and "50/50  done in" in lines[-1]
    quiet = io.StringIO()
    list(bar(range(50), "skulls", every=1e9, stream=quiet))
    list(bar(range(50), "skulls", every=0, stream=quiet, shown=False))
    assert quiet.getvalue().count("\n") == 1
    endless = io.StringIO()
    assert sum(bar((n for n in range(3)), "files", every=0, stream=endless)) == 3
    assert "files  2  " in endless.getvalue()


def test_progress_on_a_terminal_rewrites_its_line() -> None:
    reading, writing = pty.openpty()
    with os.fdopen(writing, "w") as terminal:
        list(bar(range(5), "skulls", every=0, stream=terminal))
        told = ""
        while "\n" not in told:
            told += os.read(reading, 4096).decode()
    os.close(reading)
    assert told.count("\r\x1b[2K") == 5 and told.count("\n") == 1
