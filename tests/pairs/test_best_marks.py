"""What is marked as best of something, where there is one of it: on no surface."""

from pathlib import Path

import msgspec
import pytest

from runners.cost.run_costs import RunCost
from runners.model.run import Run, RunRecord
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.support import make_plan
from tui.panel.widgets.metrics.chart_model import ChartModel
from tui.panel.widgets.metrics.chart_request import ChartOptions, ChartRequest, RunCurve
from tui.views.report.report_parts import make_report
from tui.views.runs.comparison import compare
from tui.views.runs.comparison_text import tables_of
from tui.views.runs.run_facts import facts_of
from tui.views.runs.run_text import best_text
from tui.views.runs.run_view import view_run


def leave_run(state: StateDirectory, name: str, values: list[float], metric: str = "loss") -> Run:
    folder = state.run(f"20261120-101500-{name}-7f3a")
    folder.path.mkdir(parents=True)
    plan = make_plan(folder.id, directory=str(folder.path))
    folder.plan.write_bytes(msgspec.json.encode(plan))
    record = RunRecord(State.DONE, started=1000.0, ended=2000.0)
    folder.state.write_bytes(msgspec.json.encode(record))
    lines = [f"step {i} | {metric}: {value}\n" for i, value in enumerate(values, 1)]
    (folder.path / "output.log").write_text("".join(lines))
    return read_run(state, folder.id)


def marks_of(state: StateDirectory, runs: list[Run]) -> dict[str, bool]:
    """Every surface that marks a best, and whether it does of these runs' losses."""
    facts = [facts_of(state, run, RunCost()) for run in runs]
    model, curves = ChartModel(), tuple(RunCurve(run, "A", "red") for run in runs[:1])
    while model.read(curves):
        pass
    page = model.draw(ChartRequest(curves, 200, 60, ChartOptions()))
    loss = next(chart for chart in page.charts if chart.name == "loss")
    drawn = "".join(segment.text for row in loss.rows for segment in row)
    return {
        "compare": "★" in str(tables_of(compare(facts))),
        "status": "best" in best_text(view_run(runs[0], thorough=True), "loss"),
        "page": "↓" in drawn,
        "report": "best" in "".join(make_report(state, facts[:1], "t").charts),
    }


@pytest.mark.parametrize(("values", "is_marked"), [([0.5], False), ([0.5, 0.25, 0.75], True)])
def test_an_only_value_of_an_only_run_is_no_best_anywhere(
    values: list[float], is_marked: bool, tmp_path: Path
) -> None:
    state = StateDirectory(tmp_path / "state").create()
    first = leave_run(state, "first", values)
    other = leave_run(state, "other", [0.9, 0.8], "loss" if is_marked else "psnr")
    marked = marks_of(state, [first, other])
    assert marked == dict.fromkeys(marked, is_marked)
