"""Exported weights and their card, and the flags that all programs have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
yaml = pytest.importorskip("yaml")
load_file = pytest.importorskip("safetensors.torch").load_file

from trainers.common.device_flags import add_device_flags, use_device  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.model_card import ModelCard, export_model, write_card  # noqa: E402
from trainers.common.settings_parser import SettingsParser  # noqa: E402
from trainers.common.weights import read_weights, write_weights  # noqa: E402

pytestmark = pytest.mark.trainers


def tensors() -> dict[str, Any]:
    grid = torch.arange(12, dtype=torch.float32).view(3, 4)
    # A transposed one, two that share memory, a number alone, other types.
    return {"w": grid.t(), "tied": grid, "view": grid[1], "n": torch.tensor(7),
            "half": grid.half(), "mask": grid > 3}  # fmt: skip


def test_weights_come_back_to_the_bit_and_others_read_them(tmp_path: Path) -> None:
    path = tmp_path / "new" / "w.safetensors"
    told = {"settings": {"width": 8, "folder": Path("/d")}, "levels": [0.25]}
    assert write_weights(path, tensors(), told) == path.stat().st_size
    found, description = read_weights(path)
    for one in (found, load_file(path)):
        assert one.keys() == tensors().keys()
        assert all(torch.equal(one[name], w) and one[name].dtype == w.dtype
                   for name, w in tensors().items())  # fmt: skip
    assert description == {"settings": {"width": 8, "folder": "/d"}, "levels": [0.25]}
    write_weights(path, {"a": torch.ones(1)})
    assert read_weights(path)[1] is None and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("kept", [None, 0, 7, 60, -1])
def test_a_missing_or_damaged_file_is_named(kept: int | None, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    if kept is not None:
        write_weights(path, tensors())
        path.write_bytes(path.read_bytes()[:kept])
    wrong = "there is no file" if kept is None else "cannot be read as safetensors"
    with pytest.raises(SettingsError, match=wrong) as raised:
        read_weights(path, "--model")
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def card(**more: Any) -> ModelCard:
    return ModelCard(
        "A toy", "toy", "It adds.", {"patients": 3, "shapes": [1, 2]}, {"psnr": 31.234567},
        {"lr": 1e-3, "data": {"kind": "a|b"}}, **more,
    )  # fmt: skip


def test_a_card_lies_beside_the_weights_and_says_what_made_them(tmp_path: Path) -> None:
    weights, path = export_model(tmp_path / "toy.pt", {"a": torch.ones(2)}, card(), {"k": 1})
    assert (weights.name, path.name) == ("toy.safetensors", "toy.md")
    assert read_weights(weights)[1] == {"k": 1}
    text = path.read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head == {"license": "other", "library_name": "pytorch", "tags": ["fresnel-tui", "toy"]}
    for line in ("| patients | 3 |", "| shapes | [1, 2] |", "| psnr | 31.235 |", "| lr | 0.001 |",
                 r"| data.kind | a\|b |", f"| torch | {torch.__version__} |",
                 "Weights: `toy.safetensors`."):  # fmt: skip
        assert line in text, line
    assert re.search(r"^\| code \| (commit [0-9a-f]{7,}|version \d)", text, re.M)
    assert "depends on the licence of the data" in text


def test_a_card_says_a_licence_and_that_nothing_was_measured(tmp_path: Path) -> None:
    path = write_card(tmp_path / "toy.onnx", card(licence="mit", notes=("No device.",)))
    text = path.read_text()
    assert path.name == "toy.md" and yaml.safe_load(text.split("---")[1])["license"] == "mit"
    assert "No device." in text and "Weights: `toy.onnx`." in text
    bare = ModelCard("A toy", "toy", "It adds.", {}, {}, {})
    assert "None were measured." in write_card(tmp_path / "bare.pt", bare).read_text()


def parser(*given: Any, **more: Any) -> SettingsParser:
    made = SettingsParser("A toy.")
    add_device_flags(made, *given, **more)
    return made


def test_the_flags_of_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    read = parser(2).read(["--device", "cpu", "--threads", "1"])
    assert (read.device, read.threads, read.workers) == ("cpu", 1, 2)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert use_device(read)[0].type == "cpu" and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    older = parser(None, also=("--num_workers",))
    assert older.read([]).num_workers is None
    assert older.read(["--workers", "3"]).num_workers == 3
    assert older.read(["--num_workers", "4"]).num_workers == 4
    assert capsys.readouterr().out == ""
    assert parser("there is one picture").read(["--workers", "3"]).workers == 3
    assert capsys.readouterr().out.endswith("3 changes nothing: there is one picture\n")
