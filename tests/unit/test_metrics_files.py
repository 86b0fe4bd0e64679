"""Metrics in files of libraries: whose they are, what is read, and that nothing stands twice."""

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.host.bounded_glob import SearchBudget
from runners.model.run import Run, RunRecord
from runners.model.states import State
from runners.watch.metrics import log_files, metric_files
from runners.watch.metrics.final import read_final
from runners.watch.metrics.final_maker import keep_final, make_final
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.log_files import TrainerState
from runners.watch.metrics.run_metrics import RunMetrics
from tests.support import make_plan, make_run
from tests.unit.test_metrics_tensorboard import write


def run_in(folder: Path, state: State = State.DONE) -> Run:
    plan = make_plan(working_directory=str(folder))
    ended = time.time() if state is State.DONE else None
    return make_run(state, directory=str(folder), plan=plan, started=time.time() - 60, ended=ended)


def everything(run: Run) -> RunMetrics:
    metrics = RunMetrics(run)
    while metrics.poll():
        pass
    return metrics


LINES = "".join(f"step {i}/20 | train_loss: {1 / i:.3f}\n" for i in range(1, 21))


def test_what_tensorboard_holds_too_stands_once(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text(LINES)
    losses = [1 / i for i in range(1, 21)]
    write(tmp_path / "tb", {"train_loss": losses, "epoch": [0.0] * 20, "val_acc": [0.75] * 20}, 1)
    series = everything(run_in(tmp_path)).series()
    assert {name: one.source for name, one in series.items()} == {
        "train_loss": "output",
        "val_acc": "tensorboard",
    }


def test_a_run_that_writes_tensorboard_alone_shows_it_everywhere(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("Logging to tb/PPO_1\n")
    live, ended = run_in(tmp_path, State.RUNNING), run_in(tmp_path)
    write(tmp_path / "tb" / "PPO_1", {"train/loss": [2.0, 0.5, 1.0]}, 1)
    report = LiveReport(live)
    report.poll(live, thorough=True)
    assert report.metrics == {"train/loss": 1.0} and report.course.step == 3
    final = make_final(ended)
    assert final.headline == "train/loss" and final.progress.step == 3
    assert final.metrics["train/loss"].best == 0.5 and final.metrics["train/loss"].best_step == 2


def test_csv_files_of_lightning_and_keras(tmp_path: Path) -> None:
    folder = tmp_path / "lightning_logs"
    folder.mkdir()
    (folder / "metrics.csv").write_text(
        "epoch,step,train_loss,val_loss\n0,9,0.5,\n0,9,,0.6\n1,19,0.4,\n1,19,,0.55\n"
    )
    series = everything(run_in(tmp_path)).series()
    assert list(series["train_loss"].values) == [0.5, 0.4]
    assert list(series["val_loss"].steps) == [9, 19] and series["val_loss"].source == "file"
    assert list(series["val_loss"].epochs) == [1, 2]


def test_a_trainer_s_state_is_read_and_the_newest_counts(tmp_path: Path) -> None:
    history = [{"loss": 1.0 - i / 10, "step": 10 * i, "epoch": i / 2} for i in range(1, 4)]
    for count in (2, 3):
        folder = tmp_path / f"checkpoint-{count}0"
        folder.mkdir()
        state = {"global_step": count * 10, "log_history": history[:count]}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    loss = everything(run_in(tmp_path)).series()["loss"]
    assert list(loss.steps) == [10, 20, 30] and list(loss.values) == [0.9, 0.8, 0.7]


def test_final_values_cost_nothing_the_second_time(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text(LINES)
    run = run_in(tmp_path)
    assert read_final(run) is None
    kept = keep_final(run)
    (tmp_path / "output.log").write_text("")
    assert read_final(run) == kept and kept.last == {"train_loss": 0.05}
    assert read_final(run_in(tmp_path, State.RUNNING)) is None


def ended_run_in(folder: Path, top: Path, pid: int) -> Run:
    """An ended run whose folder is `folder`, and whose program `pid` stood in `top`."""
    started, ended = time.time() - 60, time.time()
    record = RunRecord(State.DONE, started=started, ended=ended, leader_pid=pid)
    plan = make_plan(working_directory=str(top))
    return make_run(State.DONE, directory=str(folder), plan=plan, record=record)


def test_an_ended_run_s_boards_are_found_by_its_pid_below_where_it_stood(tmp_path: Path) -> None:
    own, top = tmp_path / "own", tmp_path / "top"
    own.mkdir()
    (own / "output.log").touch()
    mine = write(top / "a" / "tb", {"mine": [1.0, 2.0]})
    write(top / "b", {"foreign": [3.0]})
    run = ended_run_in(own, top, 4321)
    assert not everything(run).series()
    mine.rename(mine.with_name("events.out.tfevents.1795.host.4321.0"))
    assert set(everything(run).series()) == {"mine"}


def test_a_data_set_where_the_program_stood_is_not_walked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, top = tmp_path / "own", tmp_path / "top"
    own.mkdir()
    (own / "output.log").touch()
    for number in range(60):
        (top / f"class_{number:02}").mkdir(parents=True)
        (top / f"class_{number:02}" / "image").touch()
    write(top / "class_59" / "tb", {"far": [1.0]})
    (file,) = top.glob("*/tb/*")
    file.rename(file.with_name("events.out.tfevents.1795.host.4321.0"))
    monkeypatch.setattr(metric_files, "_MOST_ENTRIES", 100)
    assert not everything(ended_run_in(own, top, 4321)).series()


def test_the_newest_of_a_hundred_histories_is_read_with_what_is_no_number(tmp_path: Path) -> None:
    history = [{"loss": 1 / i, "grad_norm": math.nan, "step": i} for i in range(1, 101)]
    for count in range(1, 101):
        folder = tmp_path / f"checkpoint-{count}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": history[:count]}))
        written = time.time() - 100 + count
        os.utime(folder / "trainer_state.json", (written, written))
    series = everything(run_in(tmp_path)).series()
    assert list(series["loss"].steps) == list(range(1, 101))
    assert math.isnan(series["grad_norm"].last)


def test_a_history_that_begins_anew_replaces_the_one_before(tmp_path: Path) -> None:
    state = TrainerState(tmp_path / "trainer_state.json")
    for loss, moment in ((0.9, 1000), (0.4, 2000)):
        state.path.write_text(json.dumps({"log_history": [{"loss": loss, "step": 10}]}))
        os.utime(state.path, (moment, moment))
        assert [sample.values["loss"] for sample in state.poll()] == [loss]


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_tables_the_one_that_was_written_last_counts(
    tmp_path: Path, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, steps in enumerate((range(60), range(50, 100))):
        folder = tmp_path / "lightning_logs" / f"version_{version}"
        folder.mkdir(parents=True)
        rows = "".join(f"{step},{1 / (step + 1)}\n" for step in steps)
        (folder / "metrics.csv").write_text("step,loss\n" + rows)
        written = time.time() - 10 + version
        os.utime(folder / "metrics.csv", (written, written))
    listed = log_files.entries_of

    def in_any_order(folder: str, budget: SearchBudget) -> Iterator["os.DirEntry[str]"]:
        entries = sorted(listed(folder, budget), key=lambda entry: entry.name, reverse=turned)
        return iter(entries)

    monkeypatch.setattr(log_files, "entries_of", in_any_order)
    loss = everything(run_in(tmp_path)).series()["loss"]
    assert list(loss.steps) == list(range(100))


def test_a_table_that_counts_epochs_tells_no_step(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("begins\n")
    (tmp_path / "metrics.csv").write_text("epoch,loss\n0,0.9\n1,0.8\n2,0.7\n")
    live = run_in(tmp_path, State.RUNNING)
    report = LiveReport(live)
    report.poll(live, thorough=True)
    final = make_final(run_in(tmp_path)).progress
    for progress in (report.course.progress(0.0), final):
        assert (progress.epoch, progress.step) == (3, None)


TWO_ROWS = [(1.0, 0.5), (2.0, 0.25)]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfepoch,loss\n1,0.5\n2,0.25\n",
        b"     epoch,      loss\n         1,   0.5\n         2,  0.25\n",
        b"epoch;loss\r\n1;0.5\r\n2;0.25\r\n",
        b"epoch\tloss\n1\t0.5\n2\t0.25\n",
        b"epoch,loss\n1,0.5\n7,0.1\r8,0.1\n\0\0\0\n2,0.25\n",
    ],
    ids=["byte order mark", "padded", "semicolons", "tabs", "damaged rows"],
)
def test_a_table_is_read_as_programs_write_them(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.csv").write_bytes(content)
    metrics = everything(run_in(tmp_path))
    (loss,) = metrics.series().values()
    assert list(zip(loss.steps, loss.values, strict=True)) == TWO_ROWS and not metrics.notes


def test_a_history_that_is_too_long_to_be_read_is_told(tmp_path: Path) -> None:
    with (tmp_path / "trainer_state.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert "trainer_state.json" in " ".join(everything(run_in(tmp_path)).notes)


def test_a_table_whose_loss_diverged_leaves_a_report_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_bytes(b"words without any number at all\n" * 300_000)
    (tmp_path / "metrics.csv").write_bytes(b"step,loss\n1,0.5\n2,nan\n")
    run = run_in(tmp_path)
    keep_final(run)
    final = read_final(run)
    assert final is not None and repr(final.metrics["loss"].value) == "nan"
