"""What a plan says of its cost while its run still waits, and of parameters that are secrets."""

import sys
from pathlib import Path

import msgspec
import pytest

from runners.cost.ledger import RunEntry
from runners.host.clock import Moment
from runners.host.identity import host_name
from runners.lifecycle.launch.planner import plan_run
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.plan import LaunchPlan
from runners.model.spec import GpuRequest, Limits, Parameter, Price, RunSpec
from runners.scheduling.allocation import Allocation
from runners.scheduling.queue_order import Granted, QueueDecision, Waiting
from runners.state.layout import StateDirectory

TWO_DOLLARS = Price("2", "gpu", "flag")
WHOLE = GpuSnapshot(0, "GPU-0", "H100", "nvidia")
HALVES = tuple(
    GpuSnapshot(i, f"MIG-{i}", "H100 MIG 3g.40gb", "nvidia", mig_parent="GPU-0") for i in (1, 2)
)
WAITS = Waiting("all GPUs are held")
STARTS = Granted(Allocation())


def planned(
    spec: RunSpec, decision: QueueDecision, reading: GpuReading | None = None, run: str = "7f3a"
) -> LaunchPlan:
    directory = StateDirectory().run(f"20261120-101500-demo-{run}")
    return plan_run(directory, spec, decision, reading, TWO_DOLLARS).plan


@pytest.mark.parametrize(
    ("gpus", "request_", "hours"),
    [
        ((WHOLE,), GpuRequest(1), 2.5),
        ((WHOLE, *HALVES), GpuRequest(1, ids=("MIG-1",)), 5.0),
        (None, GpuRequest(2), 1.25),
    ],
)
def test_the_cost_limit_of_a_run_that_waits_is_that_of_the_gpus_it_will_be_given(
    gpus: tuple[GpuSnapshot, ...] | None, request_: GpuRequest, hours: float
) -> None:
    reading = None if gpus is None else GpuReading(0.0, host_name(), "nvml", gpus)
    limits = Limits(usd="5")
    spec = RunSpec("demo", "demo", "command", command=("true",), gpus=request_, limits=limits)
    plan = planned(spec, WAITS, reading)
    assert plan.limit_s == hours * 3600
    assert not any("CPU" in note for note in plan.notes)


def test_an_estimate_goes_by_runs_with_a_secret_parameter(tmp_path: Path) -> None:
    secret = Parameter("api_key", "sk-0123456789abcdef", None, "str", "--api_key")
    spec = RunSpec("demo", "demo", "python", script="a.py", parameters=(secret,))
    (tmp_path / "a.py").touch()
    spec = msgspec.structs.replace(spec, source=str(tmp_path / "demo.yaml"))
    spec = msgspec.structs.replace(spec, interpreter=sys.executable, working_directory=".")
    state, first = StateDirectory(), planned(spec, STARTS)
    assert "0123456789" not in str(first.spec)
    run = state.run(first.run)
    run.path.mkdir(parents=True)
    run.plan.write_bytes(msgspec.json.encode(first))
    ended = RunEntry(
        run.id, host_name(), "demo", "demo", "done", (), None, Moment(1e9), Moment(1e9 + 60)
    )
    state.ledger.write_bytes(msgspec.json.encode(ended) + b"\n")
    found = planned(spec, STARTS, run="7f3b").forecast
    assert found is not None and found.seconds == pytest.approx(60)
