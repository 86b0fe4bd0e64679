"""What the tests of PCDiff's programs share: made-up skulls, small settings, programs run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tests.trainers.saved_state import load
from tests.warm import TORCH
from tests.warm_server import WHOLE
from trainers.skulls.made_up import make_up

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    *("--num_points", "256", "--num_nn", "64", "--width_mult", "0.25", "--vox_res_mult", "0.25"),
    *("--up_convolutions", "1", "--embed_dim", "8"),
    *("--workers", "0", "--threads", "1", "--device", "cpu"),
)
RARE = ("--vizIter", "0", "--diagIter", "0", "--val_freq", "0", "--no-tensorboard")


def skulls(folder: Path, dataset: str = "SkullBreak") -> Path:
    """Three made-up skulls; returns train.csv, of two of them."""
    make_up(folder, 3, 24, dataset, 500, 1)
    return folder / "train.csv"


def program(
    name: str, *words: str, run: Path | None = None, processes: int = 1, curves: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run one of PCDiff's programs by its path, under torchrun for several processes; `curves`: with
    what draws them.
    """
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    kept = {key: value for key, value in os.environ.items() if key != "FRESNEL_RUN_DIR"}
    kept |= {"FRESNEL_RUN_DIR": str(run)} if run else {}
    kept |= {WHOLE: "1"} if curves else {}
    return TORCH.run(
        [
            sys.executable,
            *(launcher if processes > 1 else []),
            str(ROOT / "trainers" / "pcdiff" / name),
            *words,
        ],
        env={**kept, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )


@contextmanager
def signals_kept() -> Iterator[None]:
    """A trainer run in this process takes the stop signals; here they are put back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def train_here(*words: str) -> int:
    """Run the trainer in this process with small settings; the exit code."""
    from trainers.pcdiff.train import main

    with signals_kept():
        return main([*SMALL, *words])


def events(run: Path) -> list[dict[str, Any]]:
    """The events of a run's folder."""
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a published checkpoint."""
    return dict(load(path)["model_state"])


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two state dicts agree to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
