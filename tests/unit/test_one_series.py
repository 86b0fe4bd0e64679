"""One quantity is one series: what several sources say alike stands once, what differs apart."""

import json
import math
from pathlib import Path

import pytest

from runners.model.run import Run
from runners.model.states import State
from runners.watch.metrics.final_maker import keep_final
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.one_series import is_same, spellings
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.series import Series
from tests.support import make_run
from tests.unit.test_metrics_samples import SAMPLES
from tests.unit.test_metrics_tensorboard import write

STEPS = [0.9, 0.7, 0.5, 0.3]
"""Losses of two epochs of two steps."""


def everything(run: Run) -> RunMetrics:
    metrics = RunMetrics(run)
    while metrics.poll():
        pass
    return metrics


def trained(folder: Path, state: State = State.DONE) -> Run:
    """A run that reports its steps, and for each epoch the mean of them and a validation."""
    events = []
    for step, loss in enumerate(STEPS, 1):
        epoch = (step + 1) // 2
        place = {"time": float(step), "step": step, "epoch": epoch}
        events.append({**place, "type": "metrics", "values": {"loss": loss, "lr": 0.1}})
        if step % 2 == 0:
            values = {"loss": sum(STEPS[step - 2 : step]) / 2, "held_out_psnr": 10.0 + epoch}
            events.append({**place, "type": "epoch", "values": values})
    events.append({"time": 9.0, "type": "summary", "values": {"loss": 0.3, "hours": 2.0}})
    text = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "events.jsonl").write_text(text)
    return make_run(state, directory=str(folder), ended=2000.0 if state is State.DONE else None)


def test_a_mean_of_an_epoch_is_a_series_beside_the_steps(tmp_path: Path) -> None:
    live = trained(tmp_path, State.RUNNING)
    report = LiveReport(live)
    report.poll(live)
    series = everything(live).series()
    assert list(series["loss"].values) == STEPS and list(series["epoch/loss"].values) == [0.8, 0.4]
    assert list(series["held_out_psnr"].values) == [11.0, 12.0]
    assert report.metrics == {name: found.last for name, found in series.items()}
    final = keep_final(trained(tmp_path)).metrics
    assert {name: metric.last for name, metric in final.items()} == report.metrics
    assert final["loss"].best == report.best(live)["loss"][0] == 0.3
    # What its watcher kept goes on as if it had read all itself.
    report.save()
    other = LiveReport(live)
    other.poll(live)
    assert other.metrics == report.metrics and other.best(live) == report.best(live)


def test_means_that_come_before_the_first_step_are_means_all_the_same(tmp_path: Path) -> None:
    lines = [
        {"time": 1.0, "type": "epoch", "step": 1, "values": {"loss": 0.8}},
        {"time": 2.0, "type": "metrics", "step": 2, "values": {"loss": 0.5}},
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    live = make_run(State.RUNNING, directory=str(tmp_path))
    report = LiveReport(live)
    report.poll(live)
    series = everything(live).series()
    assert {name: found.last for name, found in series.items()} == report.metrics
    assert report.metrics == {"loss": 0.5, "epoch/loss": 0.8}


def test_what_tensorboard_has_too_stands_once_with_both_sources(tmp_path: Path) -> None:
    run = trained(tmp_path)
    write(tmp_path / "tb", {"loss": STEPS}, 1)
    found = everything(run).series()
    assert found["loss"].sources == ("events", "tensorboard")
    assert [name for name in found if "tensorboard" in name] == []


def test_what_differs_stays_apart_and_both_are_named(tmp_path: Path) -> None:
    run = trained(tmp_path)
    write(tmp_path / "tb", {"loss": [5.0, 4.0, 3.0, 2.0]}, 1)
    metrics = everything(run)
    found = metrics.series()
    assert found["loss"].sources == ("events",)
    assert list(found["tensorboard/loss"].values) == [5.0, 4.0, 3.0, 2.0]
    (note,) = [note for note in metrics.notes if "loss" in note]
    assert "events" in note and "tensorboard" in note


def series(values: list[float], first: float = 1.0, axis: str = "step") -> Series:
    made = Series("loss")
    made.axis = axis
    for at, value in enumerate(values):
        made.append(first + at, value)
    return made


CASES = [
    (series(STEPS), series([0.9, 0.7, 0.5, 0.3]), True),
    (series([0.12345, 0.54321]), series([0.12, 0.54]), True),
    (series([0.12345, 0.54321]), series([0.12, 0.55]), False),
    (series([0.1234567], axis="line"), series([0.5, 0.12345671]), True),
    (series([0.5, 0.3], first=7, axis="epoch"), series(STEPS), True),
    (series([0.8, 0.4], axis="epoch"), series(STEPS), False),
    (series([math.nan, 1.25]), series([math.nan, 1.25]), True),
    (series([math.nan, 1.25]), series([2.5, 1.25]), False),
    (series([1e-5, 2e-5]), series([1.004e-5, 1.996e-5]), True),
]


@pytest.mark.parametrize(("first", "second", "same"), CASES)
def test_two_are_one_as_far_as_the_less_exactly_written_goes(
    first: Series, second: Series, same: bool
) -> None:
    assert is_same(first, second) is is_same(second, first) is same


def test_spellings_of_a_training_metric_are_one() -> None:
    names = {"loss", "train_loss", "train/loss"}
    for name in names:
        assert names <= set(spellings(name))
    assert "loss" not in spellings("val_loss")
    assert "learning_rate" in spellings("train/lr") and "lr" in spellings("learning_rate")


SUMMARIES = {
    "the last values again": ({"loss": 0.3, "held_out_psnr": 12.0}, {}),
    "a mean that its epoch had": ({"loss": 0.4}, {}),
    "the best one, judged again": ({"held_out_psnr": 13.0}, {"held_out_psnr": 13.0}),
    "one that no step told": ({"loss": 0.25, "hours": 2.0}, {"loss": 0.25, "hours": 2.0}),
}


@pytest.mark.parametrize("case", SUMMARIES)
def test_a_summary_is_the_last_word_and_says_nothing_twice(tmp_path: Path, case: str) -> None:
    values, news = SUMMARIES[case]
    live = trained(tmp_path, State.RUNNING)
    events = tmp_path / "events.jsonl"
    *lines, _ = events.read_text().splitlines()
    events.write_text("\n".join(lines) + "\n")
    before = {name: list(found.values) for name, found in everything(live).series().items()}
    summary = {"time": 9.0, "type": "summary", "values": values}
    events.write_text("\n".join([*lines, json.dumps(summary)]) + "\n")
    found = {name: list(one.values) for name, one in everything(live).series().items()}
    names = {*before, *news}
    assert found == {
        name: [*before.get(name, []), *([news[name]] if name in news else [])] for name in names
    }
    report = LiveReport(live)
    report.poll(live)
    assert report.metrics == {name: told[-1] for name, told in found.items()}
    ended = make_run(State.DONE, directory=str(tmp_path), ended=2000.0)
    final = keep_final(ended).metrics
    assert {name: metric.last for name, metric in final.items()} == report.metrics


def test_lightning_s_table_beside_its_tensorboard_and_its_bar_are_one_run(tmp_path: Path) -> None:
    for sample in (SAMPLES / "lightning_csv").iterdir():
        name = "output.log" if sample.suffix == ".txt" else f"logs/{sample.name}"
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(sample.read_bytes())
    found = everything(make_run(State.DONE, directory=str(tmp_path), ended=2000.0)).series()
    rows = (SAMPLES / "lightning_csv" / "metrics.csv").read_text().splitlines()
    names, *lines = [row.split(",") for row in rows]
    assert set(found) == {"train_loss", "val_loss", "val_acc"}
    for name, series in found.items():
        # Printed ones are rounded and drawn again and again: the table has them as they are.
        told = [line for line in lines if line[names.index(name)]]
        assert list(series.steps) == [float(line[1]) for line in told]
        exact = [float(line[names.index(name)]) for line in told]
        assert list(series.values) == pytest.approx(exact, rel=1e-6)
        everywhere = {"tensorboard", "file"} | ({"output"} if name != "val_acc" else set())
        assert set(series.sources) == everywhere
