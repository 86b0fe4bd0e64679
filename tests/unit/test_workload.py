"""Memory and time of a run by its batch and devices: the guides' tables, this machine's runs."""

from pathlib import Path

import msgspec
import pytest

from runners.cost.estimate import forecast
from runners.gpus.usage import usage_file
from runners.model.gpus import GpuUse, RunUsage
from runners.model.plan import AssignedGpu
from runners.model.python_command import devices_of
from runners.model.spec import GpuRequest, RunSpec
from runners.model.workload import (
    Workload,
    expected_memory,
    fitted_memory,
    fitted_pace,
    time_factor,
)
from runners.presets.catalogue import resolve_runs
from runners.scheduling.memory_warning import memory_notes, peaks_by_batch
from runners.state.layout import StateDirectory
from tests.support import make_plan
from tests.unit.test_cost_estimate import PRICE, leave_run

GIB = 1 << 30


def spec_of(name: str, *overrides: str) -> RunSpec:
    (spec,) = resolve_runs(name, list(overrides), "")
    return spec


def gpus(count: int, model: str = "H100-80GB") -> list[AssignedGpu]:
    return [AssignedGpu(i, f"GPU-{i}", model, i) for i in range(count)]


@pytest.mark.parametrize(("each", "gib"), [(1, 6), (4, 12), (8, 20), (16, 35)])
def test_memory_is_the_distributed_guides_table(each: int, gib: int) -> None:
    spec = spec_of("pcdiff-8gpu", f"bs={8 * each}")
    found = expected_memory(spec, 8)
    assert found is not None and abs(found / GIB - gib) < 1
    # Cut into parts, a GPU holds as much as one part.
    halved = expected_memory(spec_of("pcdiff-8gpu", f"bs={16 * each}", "accumulate=2"), 8)
    assert halved == found


@pytest.mark.parametrize(
    ("bs", "devices", "times"), [(64, 8, 1), (128, 8, 1), (8, 8, 8), (8, 1, 8), (32, 4, 2)]
)
def test_time_is_the_distributed_guides_table(bs: int, devices: int, times: float) -> None:
    spec = spec_of("pcdiff-8gpu", f"bs={bs}")
    whole = spec.estimate.seconds
    found = forecast(StateDirectory(), spec, gpus(devices), None)
    assert found is not None and found.seconds is not None and whole is not None
    assert found.seconds == pytest.approx(times * whole)


def test_guide_s_39_hours_are_those_from_epoch_2000_on() -> None:
    spec = spec_of("pcdiff", "model=somewhere/epoch_1999.pth")
    whole = forecast(StateDirectory(), spec_of("pcdiff"), gpus(7), PRICE)
    left = forecast(StateDirectory(), spec, gpus(7), PRICE, done=2000)
    assert whole and left and whole.seconds and left.seconds and left.usd and whole.usd
    assert 36 <= left.seconds / 3600 <= 43
    assert left.seconds / whole.seconds == pytest.approx(13 / 15)
    assert float(left.usd) / float(whole.usd) == pytest.approx(13 / 15)


@pytest.mark.parametrize("runs_before", [0, 1])
def test_nothing_left_costs_nothing(runs_before: int, tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    spec = msgspec.structs.replace(spec_of("gaussian-validate"), preset="demo", name="demo")
    for number in range(runs_before):
        leave_run(state, number, spec, epochs=5)
    device = [AssignedGpu(0, "GPU-0", "MI300X", 0)]
    found = forecast(state, spec, device, PRICE, done=5)
    assert found is not None and found.seconds == 0 and float(found.usd or 1) == 0


def test_steps_are_fitted_once_two_batches_have_run() -> None:
    known = [(Workload(1, 8), 100.0), (Workload(1, 4), 120.0)]
    # 80 s for all samples and 160 s divided by the samples of a step.
    assert fitted_pace(Workload(1, 16), known) == pytest.approx(90)
    assert fitted_pace(Workload(2, 8), known) == pytest.approx(50)
    assert fitted_pace(Workload(1, 4), known[:1]) == pytest.approx(200)
    assert time_factor(Workload(2, 16), Workload(1, 8)) == 0.5
    assert fitted_memory(8, [(2, 6 * GIB), (4, 10 * GIB)], None) == 18 * GIB
    assert fitted_memory(8, [(4, 10 * GIB)], None) is None
    assert fitted_memory(8, [(4, 10 * GIB)], GIB) == 14 * GIB


def test_a_run_with_another_batch_is_history_for_this_one(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    spec = msgspec.structs.replace(spec_of("gaussian-validate"), preset="demo", name="demo")
    leave_run(state, 1, spec, epochs=5, each_s=20.0)
    device = [AssignedGpu(0, "GPU-0", "MI300X", 0)]
    twice = msgspec.structs.replace(
        spec_of("gaussian-validate", "batch_size=1"), preset="demo", name="demo"
    )
    found = forecast(state, twice, device, PRICE)
    assert found is not None and found.runs == 1 and found.epoch_s == pytest.approx(40)
    other = msgspec.structs.replace(
        spec_of("gaussian-validate", "image_size=128"), preset="demo", name="demo"
    )
    by_word = forecast(state, other, device, PRICE)
    assert by_word is not None and by_word.runs == 0


def leave_peak(
    state: StateDirectory, number: int, spec: RunSpec, *peaks: int | None, name: str = "H100"
) -> str:
    """A run of `spec` on eight GPUs, and what it took of each."""
    run = state.run(f"20261120-101500-demo-{number:04x}")
    run.path.mkdir()
    plan = make_plan(run.id, gpus=tuple(gpus(8)), processes=8)
    plan = msgspec.structs.replace(plan, spec=spec)
    run.plan.write_bytes(msgspec.json.encode(plan))
    uses = tuple(GpuUse(i, f"GPU-{i}", name, i, peak_memory=peak) for i, peak in enumerate(peaks))
    usage_file(run.path).write_bytes(msgspec.json.encode(RunUsage(run.id, 1.0, uses)))
    return run.id


def test_earlier_peaks_are_those_of_the_same_program_at_other_batches(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    leave_peak(state, 0, spec_of("pcdiff-8gpu", "bs=8"), 5 * GIB)
    one = leave_peak(state, 1, spec_of("pcdiff-8gpu", "bs=8", "manualSeed=3"), 6 * GIB, 7 * GIB)
    four = leave_peak(state, 2, spec_of("pcdiff-8gpu", "bs=32", "niter=9"), None, 12 * GIB)
    leave_peak(state, 3, spec_of("pcdiff-8gpu", "bs=16", "width_mult=0.5"), 60 * GIB)
    leave_peak(state, 4, spec_of("pcdiff", "bs=56"), 61 * GIB)
    leave_peak(state, 5, spec_of("pcdiff-8gpu", "bs=64"), 62 * GIB, name="A100")
    leave_peak(state, 6, spec_of("pcdiff-8gpu", "bs=128"), None)
    (state.runs / "20261120-101500-demo-ffff").mkdir()
    spec = spec_of("pcdiff-8gpu")
    found = peaks_by_batch(state, spec, ("H100", False))
    assert found == [(4.0, 12 * GIB, four), (1.0, 7 * GIB, one)], "the newest of each batch"
    assert peaks_by_batch(state, spec, ("H100", True)) == []
    assert peaks_by_batch(state, msgspec.structs.replace(spec, scaling=None), ("H100", False)) == []


def test_a_preset_knows_how_many_devices_it_is_for(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    command = "torchrun --nproc_per_node=${parameters.ranks} train.py"
    own.write_text(
        f"launcher: command\ncommand: {command.split()}\ngpus: 4\nparameters: {{ranks: 2}}\n"
    )
    assert spec_of(str(own), "ranks=4").usual_devices == 2
    assert [spec_of(name, "gpus=2").usual_devices for name in ("pcdiff", "pcdiff-8gpu")] == [7, 8]
    asked = spec_of("pcdiff-8gpu", "gpus=2")
    assert devices_of(asked, GpuRequest(count=2), 8) == 2


def test_it_is_said_before_the_launch_what_does_not_fit() -> None:
    from tests.unit.test_allocation import gpu

    small = [gpu(0, memory_total=80 * GIB)]
    assert memory_notes(spec_of("pcdiff-1gpu"), 1, small) == ()
    assert memory_notes(spec_of("pcdiff-1gpu", "bs=392"), 1, small)
    few = msgspec.structs.replace(small[0], memory_total=10 * GIB)
    (note,) = memory_notes(spec_of("pcdiff-1gpu", "expect.memory=70G"), 1, [few])
    assert " 10 GiB" in note and note.endswith(" 70 GiB")


@pytest.mark.parametrize(
    ("change", "devices", "times"),
    [((), 8, 1), (("launcher=python",), 8, 8), (("launcher=python",), 1, 8)],
)
def test_time_counts_the_processes_that_compute_and_no_gpus_beside_them(
    change: tuple[str, ...], devices: int, times: float
) -> None:
    """One process deals its batch out to nobody, whatever it is given."""
    spec = spec_of("pcdiff-8gpu", *change)
    found = forecast(StateDirectory(), spec, gpus(devices), None)
    assert spec.usual_devices == 8 and found is not None
    assert found.seconds == pytest.approx(times * (spec.estimate.seconds or 0))
