"""wandb's own files, as it writes them offline: every value, torn anywhere, damaged, foreign."""

import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from runners.watch.metrics import wandb_files
from runners.watch.metrics.wandb_files import WandbFile
from tests.unit.test_metrics_files import everything, run_in

pytest.importorskip("wandb")
STEPS = 1500
PROGRAM = f"""\
import wandb
run = wandb.init(project="p", mode="offline", settings=wandb.Settings(console="off"))
for i in range({STEPS}):
    run.log({{"loss": 1 / (i + 1), "eval": {{"accuracy": i / 10}}, "note": "x" * 40, "ok": True}})
run.log({{"late": 7}}, step=5000)
run.finish()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a program stood that logged to wandb, with what it printed."""
    folder = tmp_path_factory.mktemp("wandb_run")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with (folder / "output.log").open("wb") as output:
        subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, stdout=output,
            stderr=subprocess.STDOUT, timeout=90, check=True,
        )  # fmt: skip
    return folder


@pytest.fixture
def content(folder: Path) -> bytes:
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    return file.read_bytes()


def test_every_step_of_a_real_run_is_read(folder: Path) -> None:
    series = everything(run_in(folder)).series()
    assert {name: len(one) for name, one in series.items() if one.source == "wandb"} == {
        "loss": STEPS,
        "eval.accuracy": STEPS,
        "late": 1,
    }
    assert list(series["loss"].steps) == list(range(STEPS))
    assert list(series["loss"].values) == pytest.approx([1 / (i + 1) for i in range(STEPS)])
    assert list(series["late"].steps) == [5000]


def test_a_file_read_in_pieces_says_what_the_whole_says(tmp_path: Path, content: bytes) -> None:
    torn, found = WandbFile(tmp_path / "torn.wandb"), []
    with (tmp_path / "torn.wandb").open("wb") as file:
        for at in range(0, len(content), 4099):
            file.write(content[at : at + 4099])
            file.flush()
            found += torn.poll()
    (tmp_path / "whole.wandb").write_bytes(content)
    whole = list(WandbFile(tmp_path / "whole.wandb").poll())
    assert found == whole and len(whole) == STEPS + 1


@pytest.mark.parametrize("damage", ["foreign", "length", "kind"])
def test_damage_is_told_and_ends_the_reading(tmp_path: Path, content: bytes, damage: str) -> None:
    file = tmp_path / "run-1.wandb"
    broken = bytearray(content)
    if damage == "foreign":
        broken[:4] = b"LFS\n"
    elif damage == "length":
        broken[11:13] = b"\xff\xff"
    else:
        broken[13] = 9
    file.write_bytes(bytes(broken))
    reader = WandbFile(file)
    assert not list(reader.poll())
    assert (
        "is no file of wandb's" if damage == "foreign" else "damaged at byte 7"
    ) in reader.problem


def test_a_message_without_an_end_is_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb_files, "_LONGEST_MESSAGE", 100_000)
    content = b":W&B\xe1\xbe\x00" + struct.pack("<IHB", 0, 32754, 2) + bytes(32754)
    content += (struct.pack("<IHB", 0, 32761, 3) + bytes(32761)) * 5
    path = tmp_path / "run-1.wandb"
    path.write_bytes(content)
    file = WandbFile(path)
    assert not list(file.poll()) and "a message of 131,037 bytes" in file.problem
    path.write_bytes(content * 2)
    assert not list(file.poll())


def test_a_block_whose_filling_is_written_later_does_not_end_the_curves(tmp_path: Path) -> None:
    """The writer fills a block up only with the record after it: meanwhile it is looked at."""
    path, begin = tmp_path / "run-1.wandb", b":W&B\xe1\xbe\x00"
    first = struct.pack("<IHB", 0, (1 << 15) - len(begin) - 7 - 3, 1)
    path.write_bytes(begin + first + bytes(struct.unpack("<IHB", first)[1]))
    file = WandbFile(path)
    assert not list(file.poll())
    history = b"\x12\x0f" + b"\x0a\x0d" + b"\x0a\x04loss" + b"\x82\x01\x040.25"
    with path.open("ab") as more:
        more.write(bytes(3) + struct.pack("<IHB", 0, len(history), 1) + history)
    assert [dict(sample.values) for sample in file.poll()] == [{"loss": 0.25}] and not file.problem


def test_a_loss_that_is_no_number_any_more_is_shown(tmp_path: Path, content: bytes) -> None:
    # As wandb writes it: bare, by its name, where JSON has no such number.
    path = tmp_path / "odd.wandb"
    path.write_bytes(content.replace(b"loss\x82\x01\x030.5", b"loss\x82\x01\x03NaN"))
    samples = list(WandbFile(path).poll())
    assert any(math.isnan(sample.values.get("loss", 0.0)) for sample in samples)
