"""The plan of a run that waits: what it will cost and run on, and never the CPU."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from runners.diagnosis.remedy.remedies import plan_diff
from runners.lifecycle.launch.planner import plan_run
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.plan import LaunchPlan
from runners.model.spec import GpuRequest, Price
from runners.model.states import State
from runners.model.units import duration_text
from runners.places.remote import remote_row
from runners.places.snapshot import PlaceSnapshot
from runners.presets.load import load_preset
from runners.scheduling.allocation import Allocation, Denied
from runners.scheduling.queue_order import Granted, QueueDecision, Waiting
from runners.scheduling.visibility import ALL_VARIABLES, COUNT_VARIABLE
from runners.state.layout import StateDirectory
from tests.support import make_run
from tests.ui.fake_place import FakePlace
from tui.panel.cockpit.machine_actions import _summary
from tui.snapshot.remote_meter import meter_text, remote_meters
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_columns import COLUMNS, TableContext
from tui.views.runs.run_details import describe_run
from tui.views.runs.run_view import view_run

GPUS = tuple(GpuSnapshot(i, f"GPU-{i}", "MI300X", "amd") for i in range(4))
READING = GpuReading(0.0, "here", "amd", GPUS)
PRICE = Price("2", "gpu", "flag")
REQUESTS = [(GpuRequest(ids=("3",)), 1), (GpuRequest(2), 2), (GpuRequest("all"), 4)]
PRESET = """
launcher: torchrun
script: train.py
estimate: {time: 2h}
"""


def plan_of(tmp_path: Path, request: GpuRequest, decision: QueueDecision) -> LaunchPlan:
    (tmp_path / "train.py").touch()
    (tmp_path / "exp.yaml").write_text(PRESET)
    spec = msgspec.structs.replace(load_preset(tmp_path / "exp.yaml"), gpus=request)
    spec = msgspec.structs.replace(spec, working_directory=str(tmp_path))
    run = StateDirectory(tmp_path / "state").create().run("20261120-101500-demo-7f3a")
    return plan_run(run, spec, decision, READING, PRICE).plan


@pytest.mark.parametrize("decision", [Waiting("GPU 3 is held"), Denied("2 asked for, but 1")])
@pytest.mark.parametrize(("request_", "count"), REQUESTS)
def test_a_run_that_waits_costs_what_it_will_cost(
    tmp_path: Path, request_: GpuRequest, count: int, decision: QueueDecision
) -> None:
    plan = plan_of(tmp_path, request_, decision)
    assert plan.forecast is not None and not plan.forecast.doubt
    assert plan.forecast.seconds == 7200 and Decimal(plan.forecast.usd or 0) == 4 * count
    assert not plan.environment.keys() & {COUNT_VARIABLE, *ALL_VARIABLES}
    assert plan.processes == count and not plan.gpus
    granted = plan_of(tmp_path, request_, Granted(Allocation(GPUS[4 - count :])))
    assert granted.forecast == plan.forecast and granted.processes == count
    assert granted.environment[COUNT_VARIABLE] == str(count)


SCALED = """
parameters: {bs: 8, lr: 2.0e-3}
scaling: {batch: bs, learning_rate: lr, rule: linear, base_batch: 4, base_rate: 1.0e-3}
"""


@pytest.mark.parametrize(("request_", "count"), REQUESTS)
def test_a_remedy_for_which_it_has_to_wait_differs_in_the_waiting_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: GpuRequest, count: int
) -> None:
    monkeypatch.setattr(f"{__name__}.PRESET", PRESET + SCALED)
    before = plan_of(tmp_path, request_, Granted(Allocation(GPUS[4 - count :])))
    waits = plan_of(tmp_path, request_, Waiting("GPU 3 is held"))
    # Every launch by torchrun has a port of its own.
    held, wanted = (line for line in plan_diff(before, waits) if "-port=" not in line)
    assert held.startswith("- GPU")
    assert "GPU" in wanted and wanted.endswith(", once free")
    assert plan_diff(waits, waits) == ()


def test_among_machines_it_is_neither_the_cpu_s_nor_free(tmp_path: Path) -> None:
    waits = plan_of(tmp_path, GpuRequest(2), Waiting("GPU 3 is held"))
    view = view_run(make_run(State.QUEUED, started=None, plan=waits, directory=str(tmp_path)))
    row = remote_row("box", row_of_view(view), 0.0)
    cells = {name: column.text(row, TableContext(0.0), 40) for name, column in COLUMNS.items()}
    assert cells["state"] == State.QUEUED and cells["gpus"] == cells["cost"] == ""
    host = FakePlace(tmp_path, lambda: None)
    host.snapshot, host.rows = PlaceSnapshot(host="box", runs={row.run_id: row}), (row,)
    details = (value for _, value in describe_run(view))
    meters = (meter_text(meter) for meter in remote_meters(StateDirectory(tmp_path), [host]))
    for text in (*cells.values(), _summary(host, ""), *details, *meters):
        assert "cpu" not in text.lower() and "$0.00" not in text


def test_on_the_cpu_it_costs_what_the_cpu_costs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GpuRequest(1), Granted(Allocation()))
    assert plan.forecast is not None and plan.forecast.doubt
    assert plan.environment[COUNT_VARIABLE] == "0"


@pytest.mark.parametrize(("limit", "is_late"), [("90m", True), ("3h", False)])
def test_a_limit_shorter_than_the_estimate_is_said_before_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, is_late: bool
) -> None:
    monkeypatch.setattr(f"{__name__}.PRESET", f"{PRESET}limits: {{time: {limit}}}\n")
    plan = plan_of(tmp_path, GpuRequest(1), Granted(Allocation(GPUS[:1])))
    needs = duration_text(plan.forecast.seconds) if plan.forecast else ""
    assert any(needs in note for note in plan.notes) is is_late
