"""A second run into a folder that a live run writes into is refused before it writes anything."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("nrrd")
pytest.importorskip("skimage")
pytest.importorskip("nibabel")

import numpy as np
import torch

from tests.warm import TORCH
from trainers.common import holding
from trainers.common.errors import SettingsError
from trainers.common.ranks import Ranks

pytestmark = pytest.mark.trainers
ALONE = Ranks(0, 1, torch.device("cpu"))
LOCK = ".training.lock"
HELD = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1], 'w+')\n"
    "fcntl.lockf(file, fcntl.LOCK_EX)\n"
    "file.write(sys.argv[2]); file.flush()\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)
TRAINERS = {
    "gaussian.train": ("--output_dir", "--data_dir", "{made}"),
    "pcdiff.train": ("--output_dir", "--made_up", "6"),
    "voxelization.train": ("--output_dir", "--made_up", "6", "--made_up_root", "{made}"),
    "implants.train_unet": ("--output_dir", "--made_up", "6"),
    "cascade.train": (
        "--checkpoint_dir", "--config", "tiny.json", "--made_up", "3", "--dataset_path", "{made}",
    ),
}  # fmt: skip


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@contextmanager
def another_run(folder: Path, said: str = "") -> Iterator[int]:
    """Another process that holds a folder while this is open."""
    folder.mkdir(parents=True, exist_ok=True)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HELD, str(folder / LOCK), said], **pipes) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other.pid
        other.stdin.close()


@pytest.fixture(autouse=True)
def let_go(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("FRESNEL_RUN_DIR", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    holding.release_folders()


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_trainer_refuses_before_it_writes(
    trainer: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], keep_signals: None
) -> None:
    flag, *more = TRAINERS[trainer]
    folder, made = tmp_path / "out", tmp_path / "made"
    made.mkdir()
    said = json.dumps({"pid": 4711, "host": "node7", "since": 1e9, "run": "20261120-run-7f3a"})
    arguments = [flag, str(folder), "--device", "cpu", *(word.format(made=made) for word in more)]
    with another_run(folder, said):
        code = importlib.import_module(f"trainers.{trainer}").main(arguments)
    told = capfd.readouterr().err
    assert code == 2 and told.count("error: ") == 1, told
    assert f"another run is writing into {folder} (run 20261120-run-7f3a, process 4711" in told
    assert "on node7, since 2001-09-0" in told and f"name another folder by {flag}" in told
    assert names(folder) == [LOCK] and names(made) == []


PROGRAMS = {
    "pcdiff.sample": ("--eval_path", "syn", "--path", "{cloud}", "--model", "none.pt"),
    "voxelization.generate": (
        "--output_dir", "generation_ours", "--path", "{syn}", "--model_file", "none.pt",
    ),
    "implants.implant": ("--output_dir", "implants", "--made_up", "3"),
}  # fmt: skip
"""Those that go on from what lies in a folder: its flag, and where in it they write."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_goes_on_from_what_is_there_refuses_too(
    program: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], keep_signals: None
) -> None:
    flag, inside, *more = PROGRAMS[program]
    folder, cloud = tmp_path / "out", tmp_path / "000_surf.npy"
    np.save(cloud, np.zeros((5, 3), np.float32))
    (tmp_path / "syn" / "bilateral000_surf").mkdir(parents=True)
    words = {"cloud": cloud, "syn": tmp_path / "syn"}
    arguments = [flag, str(folder), "--device", "cpu", *(word.format(**words) for word in more)]
    with another_run(folder / inside):
        code = importlib.import_module(f"trainers.{program}").main(arguments)
    told = capfd.readouterr().err
    assert code == 2 and f"another run is writing into {folder / inside} (which" in told, told
    assert f"name another folder by {flag}" in told
    assert names(folder) == [inside] and names(folder / inside) == [LOCK]


def test_what_was_made_for_the_lock_is_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    holding.hold_folders(ALONE, "--output_dir", folder, folder / "checkpoints")
    held = json.loads((folder / LOCK).read_text())
    assert held["pid"] == os.getpid() and held["host"] and "run" not in held
    (folder / "kept").touch()
    holding.release_folders()
    assert names(folder) == ["kept"] and names(tmp_path / "a") == ["b"]
    (folder / "kept").unlink()
    for place in (folder, tmp_path / "a"):
        place.rmdir()
    holding.hold_folders(ALONE, "--output_dir", folder, folder / "checkpoints")
    holding.release_folders()
    assert names(tmp_path) == []


def test_a_killed_run_s_workers_do_not_hold_its_folder(tmp_path: Path) -> None:
    """A process that was forked from it lives on; the next start is let in all the same."""
    program = tmp_path / "killed.py"
    program.write_text(
        "import os, sys, signal\nfrom pathlib import Path\nimport torch\n"
        "from trainers.common import holding\nfrom trainers.common.ranks import Ranks\n"
        "ranks = Ranks(0, 1, torch.device('cpu'))\n"
        "holding.hold_folders(ranks, '--output_dir', Path(sys.argv[1]))\n"
        "if not os.fork():\n    sys.stdin.read()\n    os._exit(0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        encoding="utf-8",
    )
    root = str(Path(__file__).resolve().parents[2])
    reading, writing = os.pipe()
    folder = tmp_path / "out"
    ended = TORCH.run(
        [sys.executable, str(program), str(folder)], stdin=reading, timeout=60,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    os.close(reading)
    try:
        assert ended.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        assert (folder / LOCK).is_file()
        holding.hold_folders(ALONE, "--output_dir", folder)
    finally:
        os.close(writing)


def test_a_lock_whose_file_has_lost_its_name_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder ended between our opening its file and our lock."""
    lock, first = fcntl.lockf, [True]

    def lockf(descriptor: int, how: int) -> None:
        if first and first.pop():
            (tmp_path / LOCK).unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", lockf)
    holding.hold_folders(ALONE, "--output_dir", tmp_path)
    assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("said", ["", "{", "[]", '{"pid": 3}'])
def test_a_holder_that_is_not_known_is_refused_too(tmp_path: Path, said: str) -> None:
    with another_run(tmp_path, said), pytest.raises(SettingsError, match="which one is not known"):
        holding.hold_folders(ALONE, "--output_dir", tmp_path)


def test_without_locks_a_run_goes_on_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", none)
    holding.hold_folders(ALONE, "--output_dir", tmp_path)
    assert "has no locks, No locks available" in capsys.readouterr().out
    assert names(tmp_path) == []


def test_one_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be written: "):
        holding.hold_folders(ALONE, "--output_dir", tmp_path / "file" / "out")
