"""Series as curves: where values stand on each axis, and runs that go on from another as one."""

import math
from pathlib import Path

import msgspec
import pytest

from runners.host.files import replace
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.watch.metrics.lineage import ancestors
from runners.watch.metrics.sample import Sample
from runners.watch.metrics.series import Series
from runners.watch.metrics.series_set import SeriesSet
from tests.support import make_plan, make_run
from tui.views.metrics.curves import AxisName, Stretch, curve_of, join, places


def told(name: str, values: list[float], first: int = 1, start: float = 1000.0) -> Series:
    """A metric of steps from `first` on, ten seconds and half an epoch each."""
    series = Series(name)
    for i, value in enumerate(values):
        step = first + i
        series.add(step, value, 1 + (step - 1) // 2, start + 10 * i)
    return series


def over_time(name: str, values: list[float], seconds: list[float], start: float) -> Series:
    series = Series(name, "cost" if name == "cost" else "gpus")
    for second, value in zip(seconds, values, strict=True):
        series.add(second, value, math.nan, start + second)
    return series


def at(axis: AxisName, **known: object) -> list[float] | None:
    part = Stretch(told("loss", [4.0, 3.0, 2.0, 1.0]), 1000.0, 40.0)
    found = places(part._replace(**known), axis)  # type: ignore[arg-type]
    return None if found is None else list(found)


def test_values_stand_at_steps_epochs_seconds_gpu_hours_and_dollars() -> None:
    assert at("step") == [1, 2, 3, 4]
    assert at("epoch") == [0.5, 1.0, 1.5, 2.0]
    assert at("time") == [0, 10, 20, 30]
    assert at("GPU-hours", devices=8.0) == pytest.approx([0, 80 / 3600, 160 / 3600, 240 / 3600])
    assert at("GPU-hours") is None, "a run on the CPU holds no GPU"
    spent = over_time("cost", [0.0, 1.0, 5.0], [0, 10, 30], 1000.0)
    assert at("dollars", cost=spent) == [0, 1, 3, 5]
    assert at("dollars") is None


def test_gpus_stand_where_the_run_was_at_the_time() -> None:
    use = over_time("device0/util", [50.0] * 3, [5, 15, 99], 1000.0)
    loss = told("loss", [1.0] * 4)
    assert at("step", series=use, reference=loss) == [1.5, 2.5, 4]
    assert at("step", series=use) is None


def test_a_resumed_run_and_its_parent_are_one_curve_with_a_seam() -> None:
    parent = told("loss", [9.0, 8.0, 7.0, 6.5, 6.4])
    child = told("loss", [6.0, 5.0], first=4, start=90_000.0)
    parts = [Stretch(parent, 1000.0, 60.0, 2.0), Stretch(child, 90_000.0, 0.0, 2.0)]
    curve = join(parts, "step", higher=False)
    assert curve is not None and curve.seams == (4,) and curve.best is not None
    assert list(curve.xs) == [1, 2, 3, 4, 5] and list(curve.ys) == [9, 8, 7, 6, 5]
    assert curve.best == (5.0, 5.0, False)
    timed = join(parts, "time")
    assert timed is not None and timed.seams == (60,), "the pause between them is left out"
    assert list(timed.xs) == [0, 10, 20, 30, 40, 60, 70], "what was lost took time"
    hours = join(parts, "GPU-hours")
    assert hours is not None and hours.xs[-1] == pytest.approx(2 * 70 / 3600)


def test_the_cost_of_a_resumed_run_goes_on_from_its_parent_s() -> None:
    first = over_time("cost", [0.0, 2.0], [0, 60], 1000.0)
    second = over_time("cost", [0.0, 3.0], [0, 90], 90_000.0)
    parts = [
        Stretch(first, 1000.0, 60.0, cost=first),
        Stretch(second, 90_000.0, 90.0, cost=second),
    ]
    curve = join(parts, "time")
    assert curve is not None and list(curve.ys) == [0, 2, 5] and list(curve.xs) == [0, 60, 150]


def test_a_run_that_counts_its_steps_anew_stands_for_itself() -> None:
    parts = [
        Stretch(told("loss", [3.0, 2.0]), 1000.0, 20.0),
        Stretch(told("loss", [1.5]), 2000.0, 10.0),
    ]
    curve = join(parts, "step")
    assert curve is not None and list(curve.ys) == [1.5] and curve.seams == ()


def test_best_is_told_only_where_better_is_known_and_of_the_raw_values() -> None:
    part = Stretch(told("loss", [5.0, 1.0, math.nan, 4.0]), 1000.0, 0.0)
    best = join([part], "step", 0.9, False)
    assert best is not None and best.best == (1.0, 2.0, False) and best.lost == 1
    unknown, more = join([part], "step"), join([part], "step", higher=True)
    assert unknown is not None and unknown.best is None
    assert more is not None and more.best == (5.0, 1.0, True)


def test_a_metric_that_only_the_child_has_begins_where_the_parent_ended() -> None:
    child = {"psnr": told("psnr", [20.0], start=5000.0)}
    line = [
        (make_run(State.DONE, ended=1100.0), {"loss": told("loss", [1.0])}),
        (make_run(State.DONE, started=5000.0, ended=5100.0), child),
    ]
    curve = curve_of(line, "psnr", "time")
    assert curve is not None and list(curve.xs) == [100.0] and curve.seams == ()
    assert curve_of(line, "nothing") is None


def test_ancestors_are_found_on_disk_and_a_circle_ends(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    for run, parent in (("a", "c"), ("b", "a"), ("c", "b"), ("d", "gone")):
        directory = state.run(run)
        directory.path.mkdir(parents=True)
        plan = make_plan(run, parent=parent)
        replace(directory.plan, msgspec.json.encode(plan))
    last = make_plan(parent="b")
    run = make_run(State.DONE, id="e", directory=str(state.run("e").path), plan=last)
    assert [one.id for one in ancestors(run)] == ["c", "a", "b"]
    orphan = make_plan(parent="gone")
    assert ancestors(make_run(id="e", directory=run.directory, plan=orphan)) == []


def test_the_stages_of_a_training_stand_where_they_begin() -> None:
    series = SeriesSet("events")
    for step, stage in enumerate(["stage 1/3", "stage 1/3", "stage 2/3", "stage 2/3"], 1):
        sample = Sample({"loss": 1.0 / step}, step, epoch=step, time=1000.0 + step, phase=stage)
        series.note(sample)
    parent = series.series["loss"]
    assert parent.stages == [(1, "stage 1/3"), (3, "stage 2/3")]
    child = SeriesSet("events")
    child.note(Sample({"loss": 0.3}, 4, phase="stage 2/3"))
    child.note(Sample({"loss": 0.2}, 5, phase="stage 3/3"))
    parts = [Stretch(parent, 1000.0, 60.0), Stretch(child.series["loss"], 2000.0, 0.0)]
    curve = join(parts, "step")
    assert curve is not None and curve.seams == (4,)
    assert curve.stages == ((1, "stage 1/3"), (3, "stage 2/3"), (5, "stage 3/3"))
    # Begun again before the second stage, it has it only when it comes there again.
    series.begin_attempt()
    series.note(Sample({"loss": 0.4}, 2, phase="stage 1/3"))
    assert parent.stages == [(1, "stage 1/3")]
