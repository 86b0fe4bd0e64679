"""What ends a run is said in one line, by the process that knows it, and costs no checkpoint."""

import argparse
import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nibabel")

import nibabel  # noqa: E402

from tests.warm import TORCH  # noqa: E402
from trainers.cascade import sample  # noqa: E402
from trainers.cascade.patients import read_ct  # noqa: E402
from trainers.common.checkpoint import save_checkpoint  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.failures import failure  # noqa: E402
from trainers.common.loading import EpochLoader  # noqa: E402
from trainers.common.ranks import Ranks  # noqa: E402
from trainers.common.report import EventLog  # noqa: E402
from trainers.gaussian import evaluate, infer  # noqa: E402
from trainers.pcdiff.runlog import RunLog  # noqa: E402
from trainers.voxelization.data import read_array  # noqa: E402
from trainers.voxelization.reporting import VoxelReporter  # noqa: E402

pytestmark = pytest.mark.trainers
ROOT = Path(__file__).resolve().parents[2]
TOY = Path(__file__).with_name("common_toy_trainer.py")
BEGINNING = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
import torch
from torch.utils.data import Dataset
from trainers.common.errors import SettingsError
from trainers.common.loading import EpochLoader
from trainers.common.main_program import run_main
from trainers.common.ranks import from_leader, join_ranks, sum_over_ranks
from trainers.common.settings_parser import SettingsParser
"""


def ended(
    folder: Path, code: str, processes: int = 1, **more: Any
) -> subprocess.CompletedProcess[str]:
    """A program that begins as all here do, run to its end."""
    script = folder / "program.py"
    script.write_text(BEGINNING + code)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command = [sys.executable, *(launcher if processes > 1 else []), str(script)]
    settled = {**os.environ, "OMP_NUM_THREADS": "1", "FRESNEL_RUN_DIR": ""}
    return TORCH.run(command, env=settled, capture_output=True, text=True, timeout=60, **more)


LOADING = """
class Items(Dataset):
    def __getitem__(self, index):
        if index == 5:
            {fault}
        return index

def train(settings):
    loader = EpochLoader(Items(), torch.device("cpu"), 2)
    for _ in loader.batches([[index] for index in range(10)]):
        pass
    return 0

sys.exit(run_main(train, SettingsParser("", ""), []))
"""


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        ("raise SettingsError('x.png: is empty')", 2, "error: x.png: is empty\n"),
        ("open('/nowhere/x')", 1, "error: [Errno 2] No such file or directory: '/nowhere/x'\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "error: a loading process has ended ("),
    ],
    ids=["refused", "missing", "killed"],
)
def test_what_a_loading_process_met_is_one_line(
    fault: str, code: int, told: str, tmp_path: Path
) -> None:
    found = ended(tmp_path, LOADING.format(fault=fault))
    assert found.returncode == code
    (line,) = [line for line in found.stderr.splitlines(True) if line.startswith("error:")]
    assert line.startswith(told)
    if "kill" not in fault:
        assert found.stderr == line


def test_a_loading_process_that_is_gone_while_it_is_asked_is_one_line() -> None:
    """Between handing a batch over and handing over the memory that it lies in."""
    here, there = multiprocessing.Pipe()
    there.close()
    with pytest.raises(EOFError) as problem:
        here.recv()
    told = failure(problem.value, argparse.Namespace())
    assert told.startswith("a loading process has ended (it does not answer)")
    with pytest.raises(EOFError) as problem:
        raise EOFError
    assert failure(problem.value, argparse.Namespace()) == ""


RANKS = """
def train(settings):
    ranks = join_ranks("cpu")
    if {alike}:
        from_leader(ranks, refuse)
    if not ranks.leads:
        refuse()
    sum_over_ranks([1.0], ranks.device)
    return 0

def refuse():
    raise SettingsError("x.png: is empty")

sys.exit(run_main(train, SettingsParser("", ""), []))
"""


def test_what_one_rank_alone_met_is_said_and_what_all_met_is_said_once(tmp_path: Path) -> None:
    lines = ended(tmp_path, RANKS.format(alike=False), 2).stderr.splitlines()
    assert "error on rank 1: x.png: is empty" in lines
    others = [line for line in lines if line.startswith("error: ")]
    assert others == [] or others[0].startswith("error: another process of this run has ended")
    assert not any("[rank0]: Traceback" in line for line in lines)
    lines = ended(tmp_path, RANKS.format(alike=True), 2).stderr.splitlines()
    assert [line for line in lines if line.startswith("error")] == ["error: x.png: is empty"]


def test_a_full_disk_is_said_with_the_file_and_the_earlier_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "epoch_0001.pt"
    save_checkpoint(path, {"weights": torch.zeros(3)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as problem:
            save_checkpoint(path, {f"weights {part}": torch.zeros(99_999) for part in range(9)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert problem.value.filename == str(path)
    assert torch.load(path, weights_only=True)["weights"].tolist() == [0.0] * 3
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or os.system(f"mount -t tmpfs -o size=1m tmpfs {folder} 2>/dev/null"):
        pytest.skip("nothing may be mounted here")
    try:
        yield folder
    finally:
        os.system(f"umount -l {folder}")


def fill(folder: Path) -> Path:
    """Take all room that a disk has left; returns the file that takes it."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def begun(log: RunLog | VoxelReporter) -> Callable[[str], None]:
    log.write("before it has begun")
    log.start(found={}, batch="", rate="", epochs=1, steps=1)
    return log.write


ALONE = Ranks(0, 1, torch.device("cpu"))
LOGS: dict[str, tuple[str, Callable[[Path], Callable[[str], None]]]] = {
    "events": ("events.jsonl", lambda folder: partial(EventLog(folder).emit, "alert")),
    "pcdiff": ("train.log", lambda folder: begun(RunLog(ALONE, folder, {}, tensorboard=False))),
    "voxelization": ("train.log", lambda folder: begun(VoxelReporter(ALONE, folder, "voxels", {}))),
}


@pytest.mark.parametrize("name", LOGS)
def test_lines_that_find_no_room_are_lost_and_later_ones_are_whole(
    name: str, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    file, make = LOGS[name]
    log = make(disk)
    write = (lambda text: log(text=text)) if name == "events" else log
    write("before")
    filler = fill(disk)
    for _ in range(4):
        # Longer than what is left of the file's last page: one is cut off in its middle.
        write("x" * 3000)
    filler.unlink()
    write("after")
    found = (disk / file).read_text().splitlines()
    assert "before" in found[0] and "after" in found[-1]
    assert name == "events" or any(line.endswith("before") for line in found)
    assert json.loads(found[-1])["text"] == "after" if name == "events" else len(found[-1]) < 40
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(told) == 2 and "lost: No space left on device" in told[0]
    assert f"{file} is written again" in told[1]


def test_a_run_whose_reports_find_no_room_ends_well(disk: Path, tmp_path: Path) -> None:
    """Its checkpoints lie on another disk; on this one there is not a byte left."""
    kept, folder = tmp_path / "kept", disk / "out"
    kept.mkdir()
    folder.mkdir()
    (folder / "checkpoints").symlink_to(kept)
    fill(disk)
    found = TORCH.run(
        [sys.executable, str(TOY), "--device", "cpu", "--epochs", "2", "--output_dir", str(folder)],
        env={**os.environ, "FRESNEL_RUN_DIR": str(disk)}, capture_output=True, text=True,
        timeout=250,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert (kept / "best.pt").is_file() and not (folder / "history.json").exists()
    told = [line for line in found.stderr.splitlines() if "No space left" in line]
    assert 2 <= len(told) < 6, "once for each kind of file"


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("log", ["a full disk", "a pipe without a reader"])
def test_a_log_that_takes_no_more_does_not_end_a_run(
    log: str, unbuffered: dict[str, str], tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("w") as full, os.fdopen(writing, "w") as pipe:
        given = full if log == "a full disk" else pipe
        found = TORCH.run(
            [sys.executable, str(TOY), "--no-tensorboard", "--device", "cpu", "--epochs", "1",
             "--output_dir", str(tmp_path)],
            env={**os.environ, "FRESNEL_RUN_DIR": "", **unbuffered},
            stdout=given, stderr=given, timeout=60,
        )  # fmt: skip
    assert found.returncode == 0
    assert (tmp_path / "checkpoints" / "best.pt").is_file()


@pytest.mark.parametrize("kind", ["npz", "nii.gz"])
def test_any_damage_to_an_array_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    chance = random.Random(0)
    whole, path = tmp_path / f"whole.{kind}", tmp_path / f"damaged_vox.{kind}"
    values = np.random.default_rng(0).normal(size=(12, 12, 12)).astype(np.float32)
    if kind == "npz":
        np.savez_compressed(whole, psr=values)
    else:
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), whole)  # type: ignore[attr-defined]
    for _ in range(200):
        content = bytearray(whole.read_bytes())
        begun = chance.randrange(len(content))
        for place in range(begun, min(begun + chance.choice((1, 8, 40)), len(content))):
            content[place] = chance.randrange(256)
        path.write_bytes(content)
        try:
            read_array(path, "psr") if kind == "npz" else read_ct(path, None)
        except SettingsError as problem:
            assert str(path) in str(problem)


def test_shared_memory_is_reckoned_of_the_processes_of_this_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = Ranks(5, 8, torch.device("cpu"))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert ranks.here == 4
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert ranks.here == 8


def test_an_epoch_without_batches_begins_no_workers_for_the_next_one() -> None:
    """They would not have what is read for them all before they begin."""
    loader = EpochLoader(torch.utils.data.TensorDataset(torch.arange(4)), torch.device("cpu"), 1)
    assert list(loader.batches([])) == [] and not loader.begun
    assert [int(batch[0]) for batch in loader.batches([[2], [3]])] == [2, 3] and loader.begun


@pytest.mark.parametrize(
    ("program", "words", "advice"),
    [
        (sample, ["--checkpoint", "x"], "; try a smaller --samples than 8"),
        (evaluate, ["--checkpoint", "x", "--data_dir", "y"], "; try a smaller --batch_size than "),
        (infer, ["--checkpoint", "x", "--image", __file__], ""),
    ],
    ids=["cascade/sample", "gaussian/evaluate", "gaussian/infer"],
)
def test_programs_that_draw_say_in_one_line_what_memory_did_not_suffice(
    program: Any, words: list[str], advice: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def use(_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nMore.")

    monkeypatch.setattr(program, "use_device", use)
    monkeypatch.setattr(program, "load_trained", use, raising=False)
    assert program.main(words) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: out of memory on the GPU (CUDA out of memory. Tried to")
    assert error.count("\n") == 1 and advice in error
