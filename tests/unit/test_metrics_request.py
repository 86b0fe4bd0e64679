"""What is asked of the charts: their order, kept for good, and how keys change it."""

import json
from pathlib import Path

import msgspec

from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import make_plan, make_run
from tui.panel.widgets.metrics.chart import ChartCurve, draw_chart
from tui.panel.widgets.metrics.chart_model import ChartModel
from tui.panel.widgets.metrics.chart_request import (
    ChartOptions,
    ChartRequest,
    RunCurve,
    moved,
    turned,
)
from tui.views.metrics.curves import AXES, Curve
from tui.views.metrics.pinned_charts import in_order, keep_pinned_charts, pinned_charts

EMPTY = ChartRequest((), 100, 30, ChartOptions())


def rows(curve: Curve, width: int = 60, height: int = 12) -> list[str]:
    drawn = draw_chart("lr", [ChartCurve("A", "red", curve)], width, height, ChartOptions())
    return ["".join(segment.text for segment in row) for row in drawn]


def test_validation_then_loss_then_what_was_pinned_then_names_then_cost_then_devices() -> None:
    names = {"device0/util": "gpus", "lr": "events", "loss": "events", "devices/util": "gpus"}
    names |= {"psnr": "events", "cost": "cost", "val_psnr": "events", "val_loss": "events"}
    names |= {"epoch/loss": "events", "val_wobble": "events", "eval_runtime": "output"}
    runs, judged = [make_run(State.DONE)], ["val_psnr", "val_loss", "loss", "epoch/loss"]
    rest = ["val_wobble", "eval_runtime", "lr", "psnr"]
    assert in_order(names, runs, ()) == [*judged, *rest, "cost", "devices/util", "device0/util"]
    pinned = ("device0/util", "psnr", "gone")
    assert in_order(names, runs, pinned) == [
        *(*judged, "device0/util", "psnr"),
        *("val_wobble", "eval_runtime", "lr", "cost", "devices/util"),
    ]


def test_a_pinned_chart_is_moved_within_the_pinned_ones() -> None:
    assert moved(("a", "b", "c"), "c", -1) == ("a", "c", "b")
    assert moved(("a", "b", "c"), "c", 1) == moved(("a", "b", "c"), "c", 0) == ("a", "b", "c")
    assert moved(("a",), "b", 0) == ("a", "b")


def test_the_order_is_kept_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert pinned_charts(state) == ()
    keep_pinned_charts(state, ("val/psnr", "loss"))
    assert pinned_charts(StateDirectory(tmp_path)) == ("val/psnr", "loss")
    for damaged in ('{"pinned_charts": [1, "loss", "loss"]}', '{"pinned_charts": "x"}', "[]", "{"):
        state.charts.write_text(damaged)
        assert pinned_charts(state) in ((), ("loss",))
    keep_pinned_charts(StateDirectory(tmp_path / "nowhere"), ("loss",))


def test_keys_turn_the_charts() -> None:
    axis = EMPTY
    seen = []
    for _ in AXES:
        axis = axis._replace(**turned(axis, "axis", AXES))
        seen.append(axis.options.axis)
    assert sorted(seen) == sorted(AXES) and seen[-1] == "step"
    assert turned(axis, "axis", ("epoch",)) == {"options": ChartOptions("epoch")}
    closer = EMPTY._replace(**turned(EMPTY, "closer", AXES))
    assert (closer.options.low, closer.options.high) == (0.5, 1.0), "without a cursor up to the end"
    earlier = closer._replace(**turned(closer, "earlier", AXES))
    assert (earlier.options.low, earlier.options.high) == (0.375, 0.875)
    whole = earlier._replace(**turned(earlier, "whole", AXES))
    assert whole == EMPTY
    assert turned(EMPTY, "joined", AXES) == {"joined": False}


def test_a_constant_metric_has_its_own_number_and_no_other() -> None:
    for value, number in ((0.0, "0"), (3e-4, "3.0e-4"), (-2.5, "-2.5")):
        drawn = rows(Curve([1, 2, 3], [value] * 3))
        labels = [row.split("┤")[0].strip() for row in drawn[1:-1] if "┤" in row]
        assert len(labels) == 1 and float(labels[0]) == float(number)
        assert any(
            "⠒" in row or "⠤" in row or "⠉" in row or "⣀" in row for row in drawn if "┤" in row
        )


def test_numbers_of_an_axis_differ() -> None:
    drawn = rows(Curve([1, 2, 3], [100.0001, 100.0002, 100.0003]), height=20)
    labels = [row.split("┤")[0].strip() for row in drawn[1:-1] if "┤" in row]
    assert len(labels) == 5 == len(set(labels))
    bottom = rows(Curve([1_000_000, 1_000_001, 1_000_002], [1.0, 2.0, 3.0]))[-1].strip("└ ").split()
    assert len(set(bottom)) == len(bottom) > 2


def run_on_disk(folder: Path, name: str, losses: dict[int, float], parent: str = "") -> RunCurve:
    directory = folder / "runs" / name
    directory.mkdir(parents=True)
    plan = make_plan(name, parent=parent)
    (directory / "plan.json").write_bytes(msgspec.json.encode(plan))
    with (directory / "events.jsonl").open("w") as file:
        for step, loss in losses.items():
            line = {"time": 1000.0 + step, "type": "metrics", "step": step}
            file.write(json.dumps({**line, "values": {"loss": loss}}) + "\n")
    run = make_run(State.DONE, id=name, directory=str(directory), plan=plan, ended=2000.0)
    return RunCurve(run, name[:1].upper(), "red")


def test_a_resumed_run_is_drawn_with_its_parent_and_apart_when_asked(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "parent", {step: 10.0 - step for step in range(1, 8)})
    child = run_on_disk(tmp_path, "child", {6: 3.5, 7: 2.0}, "parent")
    book = ChartModel()
    while book.read([child]):
        pass
    request = EMPTY._replace(marks=(child,))
    page = book.draw(request)
    text = ["".join(part.text for part in row) for row in page.charts[0].rows]
    assert page.resumed and "C 2 ↓2@7" in text[0] and any("↻" in row for row in text)
    assert text[-1].split() == ["└╵1", "╵2", "╵3", "╵4", "╵5", "╵6", "7╵"]
    alone = book.draw(request._replace(joined=False))
    assert not alone.resumed
    assert "".join(part.text for part in alone.charts[0].rows[-1]).split()[0] == "└╵6"


def test_a_chart_is_written_with_every_value_of_the_run_and_its_parent(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "parent", {1: 9.0, 2: 8.0})
    child = run_on_disk(tmp_path, "child", {2: 7.5, 3: 7.0}, "parent")
    book = ChartModel()
    while book.read([child]):
        pass
    svg, table = book.write(EMPTY._replace(marks=(child,)), ["loss"], tmp_path)
    assert "demo: resumed" in svg.read_text() and ">loss</text>" in svg.read_text()
    lines = [line.split(",") for line in table.read_text().splitlines()]
    assert [line[1] for line in lines[1:]] == ["parent", "parent", "child", "child"]
    assert [line[-1] for line in lines[1:]] == ["9.0", "8.0", "7.5", "7.0"]
    assert table.read_text().splitlines()[0].split(",")[3:9] == [
        "step",
        "epoch",
        "time",
        "seconds",
        "gpu_hours",
        "dollars",
    ]
