"""The variables that show a program its GPUs."""

from typing import Any

import pytest

from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.vendors import VENDORS, Vendor, traits_of_vendor
from runners.scheduling.visibility import ALL_VARIABLES, given_gpus, visibility


def gpus(vendor: Vendor, *indices: int, **changes: Any) -> list[GpuSnapshot]:
    return [GpuSnapshot(index, f"GPU-{index}", "x", vendor, **changes) for index in indices]


@pytest.mark.parametrize("vendor", ["nvidia", "simulated-nvidia"])
def test_nvidia_is_chosen_by_index_in_the_order_of_pci(vendor: Vendor) -> None:
    assert visibility(gpus(vendor, 3, 1), None) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "3,1",
    }


@pytest.mark.parametrize("vendor", ["amd", "simulated-amd"])
def test_amd_is_chosen_by_one_variable_only(vendor: Vendor) -> None:
    assert visibility(gpus(vendor, 0, 7), None) == {"HIP_VISIBLE_DEVICES": "0,7"}


def test_a_program_is_told_how_many_it_was_given_and_whether_they_are_real() -> None:
    assert given_gpus(gpus("nvidia", 3, 1)) == {"FRESNEL_GPU_COUNT": "2"}
    assert given_gpus(gpus("simulated-amd", 3)) == {
        "FRESNEL_GPU_COUNT": "1",
        "FRESNEL_GPUS_SIMULATED": "1",
    }
    assert given_gpus([]) == {"FRESNEL_GPU_COUNT": "0"}


@pytest.mark.parametrize(
    ("shown", "chosen", "seen"),
    [
        ("0,1", (2, 3), "0,1"),
        ("0,1", (2,), "2"),
        ("0", (2, 3), "2,3"),
        (None, (2, 3), "2,3"),
    ],
)
def test_all_gpus_of_a_slurm_job_are_seen_as_slurm_shows_them(
    monkeypatch: pytest.MonkeyPatch, shown: str | None, chosen: tuple[int, ...], seen: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_JOB_GPUS", "2,3")
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    found = visibility(gpus("nvidia", *chosen), None)
    assert found == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": seen}


def test_what_slurm_shows_in_part_only_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "2,3"}
    for name, value in (
        values | {"CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "0"}
    ).items():
        monkeypatch.setenv(name, value)
    assert visibility(gpus("nvidia", 2, 3), None)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_mig_instance_is_chosen_by_uuid() -> None:
    shown = visibility(gpus("nvidia", 0, mig_parent="GPU-9"), None)
    assert shown["CUDA_VISIBLE_DEVICES"] == "GPU-0"


@pytest.mark.parametrize(
    ("present", "variable"),
    [
        (gpus("amd", 0), "HIP_VISIBLE_DEVICES"),
        (gpus("nvidia", 0), "CUDA_VISIBLE_DEVICES"),
        ([], "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_a_run_without_gpus_sees_none(present: list[GpuSnapshot], variable: str) -> None:
    assert visibility([], GpuReading(0, "here", "x", tuple(present))) == {variable: "-1"}
    assert visibility([], None) == {"CUDA_VISIBLE_DEVICES": "-1"}


def test_every_variable_that_may_be_set_is_one_that_is_cleared() -> None:
    shown = [
        visibility(gpus("amd", 0), None),
        visibility(gpus("nvidia", 0), None),
        visibility([], None),
    ]
    assert {name for variables in shown for name in variables} <= set(ALL_VARIABLES)


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_maker_is_whole(vendor: Vendor) -> None:
    traits = traits_of_vendor(vendor)
    assert {traits.visible, *traits.beside} <= set(traits.inherited) <= set(ALL_VARIABLES)
    assert traits.visible in visibility(gpus(vendor, 0), None)


def test_a_maker_that_is_none_is_never_taken_for_another() -> None:
    with pytest.raises(AssertionError, match="no-such-maker"):
        visibility(gpus("no-such-maker", 0), None)  # type: ignore[arg-type]
