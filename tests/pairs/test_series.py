"""Which metrics a run has, in what order: the same on the page, in commands, JSON and a report."""

import json
import re
from pathlib import Path

import msgspec

from runners.cost.run_costs import RunCost
from runners.model.metric_rule import BestMetric
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.epoch_means import step_metric
from runners.watch.metrics.run_metrics import RunMetrics
from tests.support import make_plan
from tests.unit.test_metrics_tensorboard import write
from tests.unit.test_one_series import STEPS, trained
from tui.cli.metrics import _chosen, to_json
from tui.panel.widgets.metrics.chart_model import ChartModel
from tui.panel.widgets.metrics.chart_request import ChartOptions, ChartRequest, RunCurve
from tui.views.metrics.pinned_charts import keep_pinned_charts
from tui.views.report.report_parts import make_report
from tui.views.runs.comparison import compare
from tui.views.runs.run_facts import facts_of
from tui.views.runs.run_json import to_json as run_to_json
from tui.views.runs.run_view import view_run

PINNED = ("zeal", "lr")


def test_the_same_metrics_in_the_same_order_everywhere(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").create()
    keep_pinned_charts(state, PINNED)
    folder = state.run("20261120-101500-demo-7f3a")
    folder.path.mkdir(parents=True)
    plan = make_plan(folder.id, directory=str(folder.path), best=BestMetric("gap", True))
    folder.plan.write_bytes(msgspec.json.encode(plan))
    record = RunRecord(State.DONE, started=1000.0, ended=2000.0)
    folder.state.write_bytes(msgspec.json.encode(record))
    trained(folder.path)
    write(folder.path / "tb", {"loss": STEPS, "gap": STEPS, "zeal": STEPS, "a/b": STEPS}, 1)
    run = read_run(state, folder.id)

    metrics = RunMetrics(run)
    while metrics.poll():
        pass
    chosen = _chosen(metrics, re.compile(""))
    told = to_json(metrics, chosen, None)["metrics"]
    every = [found["name"] for found in told]
    expected = ["gap", "held_out_psnr", "loss", "epoch/loss", *PINNED, "a/b", "hours"]
    assert every == expected
    assert [found["name"] for found in told if found["mean_of"]] == ["epoch/loss"]
    view = view_run(run, thorough=True)
    assert list(run_to_json(view)["metrics"]) == expected
    comparison = compare([facts_of(state, run, RunCost())], pinned=PINNED)
    assert [row.name for row in comparison.metrics] == expected

    charts = [name for name in expected if step_metric(name, expected) is None]
    model = ChartModel()
    marks = (RunCurve(run, "A", "red"),)
    request = ChartRequest(marks, 200, 60, ChartOptions(), pinned=PINNED)
    while model.read(marks):
        pass
    page = model.draw(request)
    assert list(page.names) == charts
    report = make_report(state, [facts_of(state, run, RunCost())], "t")
    titles = [re.search(r"<text[^>]*>([^<]+)</text>", svg) for svg in report.charts]
    assert [title[1] for title in titles if title] == charts
    # The means of epochs are lines of their own in the chart of the loss.
    loss = next(chart for chart in page.charts if chart.name == "loss")
    assert "Aμ" in "".join(segment.text for segment in loss.rows[0])


def test_a_stage_is_marked_once_where_means_of_epochs_lie_beside_steps(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").create()
    folder = state.run("20261120-101500-demo-7f3a")
    folder.path.mkdir(parents=True)
    folder.plan.write_bytes(msgspec.json.encode(make_plan(folder.id)))
    record = RunRecord(State.DONE, started=1000.0, ended=2000.0)
    folder.state.write_bytes(msgspec.json.encode(record))
    events = []
    for step in range(1, 41):
        stage, epoch = f"stage {1 + (step > 20)}/2", (step + 9) // 10
        told = {"time": 1000.0 + step, "step": step, "epoch": epoch, "stage": stage}
        values = {"loss": 1 / step}
        events.append(told | {"type": "metrics", "values": values})
        if step % 10 == 0:
            events.append(told | {"type": "epoch", "values": values})
    (folder.path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    run = read_run(state, folder.id)

    model, marks = ChartModel(), (RunCurve(run, "A", "red"),)
    while model.read(marks):
        pass
    request = ChartRequest(marks, 200, 60, ChartOptions())
    (loss, *_) = model.draw(request).charts
    drawn = "\n".join("".join(part.text for part in row) for row in loss.rows)
    (svg, *_) = (path for path in model.write(request, ["loss"], tmp_path) if path.suffix == ".svg")
    report = make_report(state, [facts_of(state, run, RunCost())], "t")
    assert "Aμ" in drawn
    for text in (
        drawn,
        *(re.sub("<title>[^<]*", "", svg) for svg in (svg.read_text(), report.charts[0])),
    ):
        assert [text.count(f"stage {number}/2") for number in (1, 2)] == [1, 1], text
