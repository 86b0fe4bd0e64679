"""Simulated GPUs look like real ones, say that they are not, and move when a run holds them."""

import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from runners.gpus.backends.simulated import GIB, Simulated, model_named
from runners.host.locks import acquire
from runners.state.layout import StateDirectory

RUN = "20261121-101500-gaussian-7f3a"


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").create()


@pytest.fixture
def run_lock(state: StateDirectory) -> Iterator[int]:
    """A run that holds the second simulated MI300X, planned two minutes ago."""
    run = state.run(RUN)
    run.path.mkdir()
    state.live_marker(RUN).touch()
    gpu = {"uuid": "SIM-MI300X-1", "logical": 0}
    run.plan.write_text(json.dumps({"spec": {"preset": "gaussian"}, "gpus": [gpu]}))
    os.utime(run.plan, (time.time() - 120, time.time() - 120))
    lock = acquire(run.run_lock)
    assert lock is not None
    yield lock
    os.close(lock)


def test_idle_gpus_are_whole_plausible_and_marked(state: StateDirectory) -> None:
    gpus = Simulated(8, "MI300X", state).snapshots(1_000_000.0)
    assert [gpu.uuid for gpu in gpus] == [f"SIM-MI300X-{index}" for index in range(8)]
    assert len({gpu.pci for gpu in gpus}) == 8
    for gpu in gpus:
        assert gpu.simulated and gpu.vendor == "simulated-amd"
        assert gpu.name == "AMD Instinct MI300X"
        assert gpu.memory_total == 192 * GIB
        assert gpu.utilization is not None and 0 <= gpu.utilization <= 2
        assert gpu.memory_used is not None and gpu.memory_used < 2 * GIB
        assert gpu.power_w is not None and 70 < gpu.power_w < 130
        assert gpu.processes == () and gpu.error is None


def test_the_same_time_gives_the_same_numbers(state: StateDirectory) -> None:
    first, second = (Simulated(4, "H100", state).snapshots(1_000_123.0) for _ in range(2))
    assert first == second
    assert first != Simulated(4, "H100", state).snapshots(1_000_128.0)


def test_a_lease_makes_its_gpu_work_and_names_the_run(state: StateDirectory, run_lock: int) -> None:
    gpus = Simulated(2, "MI300X", state)
    now = time.time()
    for step in range(120):
        idle, busy = gpus.snapshots(now + step)
    assert idle.utilization is not None and idle.utilization <= 2
    assert busy.utilization is not None and busy.utilization > 80
    assert busy.memory_used is not None and 0.4 < busy.memory_used / (192 * GIB) < 0.95
    assert busy.temperature_c is not None and idle.temperature_c is not None
    assert busy.temperature_c > idle.temperature_c + 25
    assert [(process.run, process.outside) for process in busy.processes] == [(RUN, False)]


def test_load_and_memory_ramp_up_smoothly(state: StateDirectory, run_lock: int) -> None:
    gpus = Simulated(2, "MI300X", state)
    planned = state.run(RUN).plan.stat().st_mtime
    steps = [gpus.snapshots(planned + second)[1] for second in range(30)]
    memory = [gpu.memory_used or 0 for gpu in steps[:20]]
    assert memory == sorted(memory)
    busy = [gpu.utilization or 0 for gpu in steps]
    assert busy[0] <= 2 and busy[-1] > 80
    assert max(abs(after - before) for before, after in pairwise(busy)) < 25


def test_a_released_gpu_is_idle_again(state: StateDirectory, run_lock: int) -> None:
    gpus = Simulated(2, "MI300X", state)
    assert gpus.snapshots(time.time())[1].processes
    state.live_marker(RUN).unlink()
    freed = gpus.snapshots(time.time())[1]
    assert freed.processes == () and freed.utilization is not None and freed.utilization <= 2


@pytest.mark.parametrize(
    ("text", "name", "gib", "amd"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", 79, False),
        ("rtx 4090", "NVIDIA GeForce RTX 4090", 23, False),
        ("4090", "NVIDIA GeForce RTX 4090", 23, False),
        ("MI300X", "AMD Instinct MI300X", 192, True),
        ("MI999", "MI999", 80, True),
        ("Abacus", "Abacus", 80, False),
    ],
)
def test_models_are_found_however_they_are_written(
    text: str, name: str, gib: int, amd: bool
) -> None:
    model = model_named(text)
    vendor = "simulated-amd" if amd else "simulated-nvidia"
    assert (model.name, model.memory // GIB, model.vendor) == (name, gib, vendor)
