"""Which device a trainer takes, and that a GPU given and not seen is never the CPU in silence."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from trainers.common import devices  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402

pytestmark = pytest.mark.trainers


@pytest.fixture(autouse=True)
def no_gpu_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    "environment",
    [
        {"FRESNEL_GPU_COUNT": "2"},
        {"CUDA_VISIBLE_DEVICES": "0,3"},
        {"HIP_VISIBLE_DEVICES": "1,2"},
        {"FRESNEL_GPU_COUNT": "2", "CUDA_VISIBLE_DEVICES": "0"},
        {"FRESNEL_GPU_COUNT": "2", "FRESNEL_GPUS_SIMULATED": "0"},
    ],
)
def test_gpus_given_and_not_seen_are_an_error_with_a_remedy(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    with pytest.raises(
        SettingsError, match=r"2 GPU.*PyTorch sees none.*without CUDA.*--device cpu"
    ):
        devices.choose_device("auto", environment=environment)
    assert devices.choose_device("cpu", environment=environment)[0].type == "cpu"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "no GPU was given"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "no GPU was given"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "no GPU was given"),
        ({"FRESNEL_GPU_COUNT": "0", "CUDA_VISIBLE_DEVICES": "0"}, "no GPU was given"),
        ({"FRESNEL_GPUS_SIMULATED": "1", "FRESNEL_GPU_COUNT": "4"}, "are simulated"),
        ({"FRESNEL_GPUS_SIMULATED": "1", "CUDA_VISIBLE_DEVICES": "0"}, "are simulated"),
        ({"ACCELERATE_USE_CPU": "True", "CUDA_VISIBLE_DEVICES": "0"}, "accelerate"),
    ],
)
def test_without_a_gpu_given_it_is_the_cpu_and_says_why(
    environment: dict[str, str], words: str
) -> None:
    device, reason = devices.choose_device("auto", environment=environment)
    assert device.type == "cpu" and words in reason


def test_a_gpu_asked_for_is_an_error_where_there_is_none() -> None:
    with pytest.raises(SettingsError, match=r"--device cuda: PyTorch sees no GPU.*;.*--device cpu"):
        devices.choose_device("cuda", environment={})


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ("The NVIDIA driver on your system is too old", "the driver refuses (The NVIDIA driver"),
        ("No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES=7): check the ordinals"),
    ],
)
def test_driver_and_ordinal_are_told_apart(
    trouble: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError(trouble)

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert expected in devices.why_no_gpu({"CUDA_VISIBLE_DEVICES": "7"})
    assert "ROCm build" in devices.why_no_gpu({"HIP_VISIBLE_DEVICES": "0"})


def test_each_process_takes_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    device, reason = devices.choose_device("auto", 1, {"FRESNEL_GPU_COUNT": "4"})
    assert [device] == taken == [torch.device("cuda", 1)]
    assert "of 4 given only 2 seen" in reason
    with pytest.raises(SettingsError, match="process 2 of this host has no GPU of its own"):
        devices.choose_device("auto", 2, {})


def test_peak_memory_of_a_process_is_in_bytes() -> None:
    assert 20e6 < devices.peak_memory(torch.device("cpu")) < 1e12
