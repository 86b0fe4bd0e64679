"""GPUs that a program would not use are refused before anybody pays for them."""

from pathlib import Path

import msgspec
import pytest

from runners.lifecycle.launch.placeholder_values import launch_inputs
from runners.lifecycle.launch.plan_notes import unused_notes
from runners.model.errors import WrongInput
from runners.model.launchers import traits_of
from runners.model.spec import GpuRequest, RunSpec
from runners.presets.catalogue import list_presets, resolve_runs
from runners.scheduling.allocation import Allocation

ALONE = [
    preset.name
    for preset in list_presets()
    for specs in [resolve_runs(preset.name, [], "")]
    if len(specs) == 1 and specs[0].launcher == "python"
]


def on(spec: RunSpec, gpus: int, tmp_path: Path) -> int:
    """How many processes a plan of `spec` has on so many GPUs."""
    asked = msgspec.structs.replace(spec, gpus=GpuRequest(count=gpus, explicit=True))
    return launch_inputs(asked, "a-run", tmp_path, Allocation(asked=gpus)).processes


@pytest.mark.parametrize("name", ALONE)
def test_a_shipped_program_of_one_process_gets_no_second_gpu(name: str, tmp_path: Path) -> None:
    (spec,) = resolve_runs(name, [], "")
    assert on(spec, 1, tmp_path) == 1
    with pytest.raises(WrongInput, match="3 would stay idle") as refused:
        on(spec, 4, tmp_path)
    assert "--gpus 1" in refused.value.hint
    assert "1 process," in str(refused.value)
    torchrun = msgspec.structs.replace(spec, launcher="torchrun")
    assert on(torchrun, 4, tmp_path) == 4
    with pytest.raises(WrongInput, match=r"2 processes, .* 2 would"):
        on(msgspec.structs.replace(torchrun, processes=2), 4, tmp_path)


def test_shipped_presets_of_several_processes_take_any_number(tmp_path: Path) -> None:
    for name in ("pcdiff-8gpu", "gaussian-fast", "cascade-4gpu-accelerate"):
        (spec,) = resolve_runs(name, [], "")
        assert traits_of(spec.launcher).starts_processes
        assert on(spec, 3, tmp_path) == 3


def test_a_program_of_which_nothing_is_known_is_warned_of(tmp_path: Path) -> None:
    (spec,) = resolve_runs("pcdiff-1gpu", [], "")
    own = msgspec.structs.replace(spec, gpus_per_process=None)
    assert on(own, 4, tmp_path) == 4
    asked = msgspec.structs.replace(own, gpus=GpuRequest(count=4, explicit=True))
    assert len(unused_notes(asked, 4)) == len(unused_notes(asked, 2)) == 1
    # Its author knows how many it uses, and one GPU is no question.
    assert unused_notes(msgspec.structs.replace(own, gpus=GpuRequest(count=4)), 4) == ()
    assert unused_notes(asked, 1) == ()
