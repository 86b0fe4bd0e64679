"""The warning before an out-of-memory that history predicts."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.gpus.usage import usage_file
from runners.model.gpus import GpuSnapshot, GpuUse, RunUsage
from runners.scheduling.memory_warning import LOOK_BACK, oom_warnings
from runners.state.layout import StateDirectory

GIB = 1 << 30


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").create()


def past(
    state: StateDirectory, number: int, peak: int | None, preset: str = "pcdiff", **use: Any
) -> str:
    run_id = f"20261121-{number:06d}-demo-7f3a"
    run = state.run(run_id)
    run.path.mkdir()
    run.plan.write_text(json.dumps({"spec": {"preset": preset, "name": "demo"}}))
    fields: dict[str, Any] = {
        "index": 0,
        "uuid": "GPU-a",
        "name": "H100",
        "logical": 0,
        "peak_memory": peak,
    }
    usage_file(run.path).write_bytes(
        msgspec.json.encode(RunUsage(run_id, 1.0, (GpuUse(**(fields | use)),)))
    )
    return run_id


def gpu(used: int | None, **changes: Any) -> GpuSnapshot:
    fields: dict[str, Any] = {"index": 7, "uuid": "GPU-7", "name": "H100", "vendor": "nvidia"}
    return GpuSnapshot(**(fields | {"memory_used": used, "memory_total": 80 * GIB} | changes))


def test_less_free_than_the_last_peak_is_a_warning(state: StateDirectory) -> None:
    past(state, 1, 10 * GIB)
    run_id = past(state, 2, int(62.1 * GIB))
    (note,) = oom_warnings(state, "pcdiff", "x", [gpu(62 * GIB), gpu(1 * GIB, index=6)])
    assert note == (
        "GPU 7 has 18.0 GiB of VRAM free; this preset peaked at 62.1 GiB last time "
        f"(run {run_id}): it may run out of memory"
    )


def test_only_the_newest_run_on_such_a_gpu_counts(state: StateDirectory) -> None:
    past(state, 1, 62 * GIB)
    past(state, 2, 10 * GIB)
    past(state, 3, 70 * GIB, name="A10")
    past(state, 4, 70 * GIB, simulated=True)
    past(state, 5, 70 * GIB, preset="other")
    past(state, 6, None)
    assert oom_warnings(state, "pcdiff", "x", [gpu(62 * GIB)]) == ()


def test_what_is_not_known_is_no_warning(state: StateDirectory) -> None:
    assert oom_warnings(state, "pcdiff", "x", [gpu(62 * GIB)]) == ()
    past(state, 1, 62 * GIB)
    (state.runs / "20261121-000002-broken-0000").mkdir()
    assert oom_warnings(state, "pcdiff", "x", [gpu(None)]) == ()
    assert oom_warnings(state, "pcdiff", "x", []) == ()
    assert len(oom_warnings(state, "pcdiff", "x", [gpu(62 * GIB)])) == 1
    assert oom_warnings(state, "pcdiff", "x", [gpu(18 * GIB)]) == (), "it fits exactly"
    assert oom_warnings(state, "pcdiff", "x", [gpu(18 * GIB + 1)]), "by a byte it does not"


def test_a_peak_of_the_whole_gpu_holds_the_driver_s_share_too(state: StateDirectory) -> None:
    past(state, 1, int(79.5 * GIB), whole_gpu=True)
    assert oom_warnings(state, "pcdiff", "x", [gpu(GIB)]) == ()
    assert oom_warnings(state, "pcdiff", "x", [gpu(3 * GIB)]) != ()


def test_commands_go_by_their_name_and_old_runs_are_not_looked_at(state: StateDirectory) -> None:
    past(state, 1, 62 * GIB, preset="command")
    assert oom_warnings(state, "command", "another", [gpu(62 * GIB)]) == ()
    assert "this run peaked" in oom_warnings(state, "command", "demo", [gpu(62 * GIB)])[0]
    for number in range(2, LOOK_BACK + 2):
        past(state, number, 1, preset="other")
    assert oom_warnings(state, "command", "demo", [gpu(62 * GIB)]) == ()


def test_a_share_that_is_less_than_the_last_peak_is_a_warning(state: StateDirectory) -> None:
    run_id = past(state, 1, 30 * GIB)
    two = [gpu(GIB), gpu(GIB, index=6)]
    assert oom_warnings(state, "pcdiff", "x", two, 20 * GIB) == (
        "its share is 20.0 GiB of VRAM (share_memory), but this preset peaked at 30.0 GiB "
        "last time "
        f"(run {run_id}): whoever shares the GPU with it may run out of memory",
    )
    assert oom_warnings(state, "pcdiff", "x", two, 30 * GIB) == ()
    assert len(oom_warnings(state, "pcdiff", "x", [gpu(62 * GIB)], 20 * GIB)) == 2
    past(state, 2, 21 * GIB, whole_gpu=True)
    assert oom_warnings(state, "pcdiff", "x", two, 20 * GIB) == (), (
        "a whole GPU's peak holds the driver's share too"
    )
