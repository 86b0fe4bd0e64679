"""The plan of a run that waits: what it will cost and run on, and never the CPU."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from runners.lifecycle.launch.planner import plan_run
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.plan import LaunchPlan
from runners.model.quantities import duration_text
from runners.model.spec import GpuRequest, Price
from runners.presets.load import load_preset
from runners.scheduling.allocation import Allocation, Denied
from runners.scheduling.queue_order import Granted, QueueDecision, Waiting
from runners.scheduling.visibility import ALL_VARIABLES, COUNT_VARIABLE
from runners.state.layout import StateDirectory

GPUS = tuple(GpuSnapshot(i, f"GPU-{i}", "MI300X", "amd") for i in range(4))
READING = GpuReading(0.0, "here", "amd", GPUS)
PRICE = Price("2", "gpu", "flag")
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
@pytest.mark.parametrize(
    ("request_", "count"),
    [(GpuRequest(ids=("3",)), 1), (GpuRequest(2), 2), (GpuRequest("all"), 4)],
)
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
