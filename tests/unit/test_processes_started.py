"""How many processes a run starts: as its launcher or its command says, never its GPUs' number."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runners.diagnosis.evidence import gather_evidence
from runners.diagnosis.remedy.case import Case
from runners.host.identity import host_name
from runners.lifecycle.launch.planner import plan_run
from runners.lifecycle.launch.probe_results import (
    ProbeResult,
    keep_probe,
    probe_of,
    read_probes,
)
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.python_command import computing_processes, devices_of, processes_started
from runners.model.run import Run
from runners.model.spec import GpuRequest, Parameter, RunSpec
from runners.model.states import State
from runners.model.wrappers import STDBUF
from runners.scheduling.allocation import Allocation
from runners.scheduling.queue_order import Granted
from runners.state.layout import StateDirectory
from runners.state.rank_processes import processes_of
from tests.support import make_plan, make_run

FOUR_GPUS = 4


def ended(tmp_path: Path, launcher: Any, argv: tuple[str, ...]) -> Run:
    plan = make_plan(launcher=launcher, argv=argv, processes=FOUR_GPUS)
    return make_run(State.FAILED, plan=plan, ended=2000.0, directory=str(tmp_path))


@pytest.mark.parametrize(
    ("launcher", "argv", "expected"),
    [
        ("command", ("python3", "pl_train.py", "default"), 1),
        ("command", (*STDBUF, "python3", "train.py"), 1),
        ("command", ("torchrun", "--nproc_per_node=7", "train.py"), 7),
        ("command", ("bash", "train.sh"), None),
        ("torchrun", ("torchrun", "--nproc-per-node=4", "train.py"), FOUR_GPUS),
        ("python", ("python3", "train.py"), 1),
    ],
)
def test_processes_are_those_that_are_started(
    tmp_path: Path, launcher: Any, argv: tuple[str, ...], expected: int | None
) -> None:
    run = ended(tmp_path, launcher, argv)
    assert run.plan is not None
    assert processes_started(run.plan) == processes_of(run) == expected
    assert gather_evidence(run).processes == (expected or 0)
    # What only the command knows may be one for each GPU: a batch must be dealt out to all.
    assert Case(StateDirectory(tmp_path), run, run.plan.spec).devices == (expected or FOUR_GPUS)


@pytest.mark.parametrize(
    ("launcher", "command", "expected"),
    [
        ("command", ("python3", "train.py"), 1),
        ("command", ("torchrun", "--nproc_per_node=2", "train.py"), 2),
        ("command", ("torchrun", "--nproc_per_node=${gpu_count}", "train.py"), FOUR_GPUS),
        ("command", ("bash", "train.sh"), FOUR_GPUS),
        ("torchrun", (), FOUR_GPUS),
        ("python", (), 1),
    ],
)
def test_batch_and_rate_follow_the_processes_and_not_the_gpus(
    launcher: Any, command: tuple[str, ...], expected: int
) -> None:
    spec = RunSpec("demo", "demo", launcher, command=command)
    assert devices_of(spec, GpuRequest(count=FOUR_GPUS), 8) == expected


def test_a_probe_is_told_for_the_processes_that_the_plan_starts(tmp_path: Path) -> None:
    gpus = tuple(GpuSnapshot(index, f"GPU-{index}", "H100", "nvidia") for index in range(FOUR_GPUS))
    reading = GpuReading(0.0, host_name(), "nvml", gpus)
    started = ("-m", "torch.distributed.run", "--nproc_per_node=${parameters.ranks}", "train.py")
    spec = RunSpec(
        "demo", "demo", "command", command=(sys.executable, *started), gpus=GpuRequest(FOUR_GPUS),
        parameters=(Parameter("ranks", 2, 2, "int", ""),), working_directory=str(tmp_path),
    )  # fmt: skip
    state = StateDirectory(tmp_path)
    result = ProbeResult("demo", "H100", 2, "batch", 48, 0.0)
    keep_probe(state, result)
    directory = state.run("20261120-101500-demo-7f3a")
    decision = Granted(Allocation(gpus))
    planned = plan_run(directory, spec, decision, reading, None)
    processes = computing_processes(planned.plan)
    assert probe_of(state, spec, gpus, processes) == result
    assert devices_of(spec, spec.gpus, FOUR_GPUS) == processes == 2
    assert any("batch=48" in note for note in planned.plan.notes)


def test_probes_that_end_at_once_are_all_kept() -> None:
    state = StateDirectory()
    results = [ProbeResult(f"demo{number}", "H100", 1, "batch", 48, 0.0) for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda result: keep_probe(state, result), results))
    assert {result.preset for result in read_probes(state)} == {found.preset for found in results}
