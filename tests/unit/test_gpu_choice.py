"""What $FRESNEL_GPUS may say, and which backend comes of it."""

from pathlib import Path

import pytest

from runners.gpus.backends import detect
from runners.gpus.backends.backend import Absent, DriverTrouble, NoDriver
from runners.gpus.backends.detect import unseen_gpu
from runners.gpus.driver_setting import Choice, parse, setting
from runners.model.errors import WrongInput
from runners.state.layout import StateDirectory


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("auto", Choice("auto")),
        ("none", Choice("none")),
        ("NVML", Choice("nvml")),
        ("amd", Choice("amd")),
        ("sim:8xMI300X", Choice("simulated", 8, "MI300X")),
        ("sim:4xRTX 4090", Choice("simulated", 4, "RTX 4090")),
    ],
)
def test_every_form_is_read(text: str, choice: Choice) -> None:
    assert parse(text) == choice


@pytest.mark.parametrize(
    "text", ["cuda", "sim:", "sim:8", "sim:0xA100", "sim:65xA100", "sim:xA100", "sim:2x"]
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(WrongInput, match="FRESNEL_GPUS") as refused:
        parse(text)
    assert "sim:8xMI300X" in refused.value.hint


def test_unset_and_empty_mean_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRESNEL_GPUS", raising=False)
    assert setting() == "auto"
    monkeypatch.setenv("FRESNEL_GPUS", " ")
    assert setting() == "auto"


def _offer(monkeypatch: pytest.MonkeyPatch, **offers: Exception | Absent) -> None:
    """Let each backend open as told: raise what is an error, return what is a backend."""

    def open_one(name: str, choice: Choice, state: StateDirectory) -> Absent:
        offer = offers[name]
        if isinstance(offer, Exception):
            raise offer
        return offer

    monkeypatch.setattr(detect, "_open", open_one)


def test_a_host_without_gpus_has_no_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(detect, "unseen_gpu", lambda: None)
    _offer(monkeypatch, nvml=NoDriver("no library"), amd=NoDriver("no card"))
    found = detect.open_backend(Choice("auto"), StateDirectory(tmp_path))
    assert (found.name, found.problem, found.snapshots(0.0)) == ("none", None, ())


@pytest.mark.parametrize(
    ("maker", "kind", "told"),
    [
        ("0x10de", "0x030200", "install the NVIDIA driver"),
        ("0x1002", "0x120000", "load the amdgpu driver"),
        ("0x1a03", "0x030000", None),
        ("0x10de", "0x040300", None),
    ],
    ids=["H100", "MI300X", "a server's own screen", "a card's sound"],
)
def test_a_gpu_that_no_driver_shows_is_told_with_what_to_do(
    tmp_path: Path, maker: str, kind: str, told: str | None
) -> None:
    (tmp_path / "sys/bus/pci/devices/0000:00:00.0").mkdir(parents=True)
    device = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    device.mkdir()
    (device / "vendor").write_text(f"{maker}\n")
    (device / "class").write_text(f"{kind}\n")
    found = unseen_gpu(tmp_path)
    assert (
        (found is None)
        if told is None
        else (found is not None and told in found and "0000:17:00.0" in found)
    )


def test_asking_for_a_driver_that_is_missing_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _offer(monkeypatch, nvml=NoDriver("no library"), amd=NoDriver("no card"))
    assert detect.open_backend(Choice("nvml"), StateDirectory(tmp_path)).problem == "no library"
    assert detect.open_backend(Choice("amd"), StateDirectory(tmp_path)).problem == "no card"


@pytest.mark.parametrize(("loaded", "told"), [(True, "mismatch"), (False, None)])
def test_amd_cards_stand_in_for_a_broken_nvidia_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loaded: bool, told: str | None
) -> None:
    cards = Absent()
    _offer(monkeypatch, nvml=DriverTrouble("mismatch", loaded), amd=cards)
    found = detect.open_backend(Choice("auto"), StateDirectory(tmp_path))
    assert found is cards
    assert found.problem == told
