"""Both skull trainers killed at random moments, resumed each time, against uninterrupted runs.

    python tests/bench/skull_kills.py [--kills 20] [--only pcdiff]

SIGKILL, on a small training that saves after every epoch, so that many kills hit a saving. One
thread; the clock of a kill begins with the first line that says training has begun.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.trainers.saved_state import differing_files  # noqa: E402

SMALL = ("--device", "cpu", "--threads", "1", "--workers", "0", "--resume", "auto-or-new")
PCDIFF = (
    *("--made_up", "4", "--made_up_size", "24", "--num_points", "256", "--num_nn", "32"),
    *("--width_mult", "0.25", "--embed_dim", "8", "--vox_res_mult", "0.25", "--bs", "3"),
    *("--ema_decay", "0.9", "--grad_clip", "1", "--augment", "True", "--model_mean_type", "v"),
    *("--checkpoint_freq", "1", "--print_freq", "1", "--val_freq", "10"),
    *("--vizIter", "0", "--diagIter", "0", "--saveIter", "1000", "--no-tensorboard"),
)
CONFIG = """
data: {pointcloud_n: 200, num_offset: 2, pointcloud_noise: 0.002, implant_noise: 0.02}
model:
  grid_res: 16
  c_dim: 8
  s_offset: 0.02
  encoder_kwargs: {hidden_dim: 8, grid_resolution: 4, unet3d_kwargs: {num_levels: 2, f_maps: 8}}
  decoder_kwargs: {hidden_size: 8}
train: {batch_size: 2, print_every: 1, validate_every: 10, checkpoint_every: 1}
"""
VOXELIZATION = ("--made_up", "4", "--made_up_size", "32", "--ema", "0.9", "--no-tensorboard")
PROGRAMS = ("pcdiff", "voxelization")
RUNS = ("whole", "killed")
LONGEST = 1.5
"""Seconds from a run's first step to its kill, at most."""


def command(program: str, folder: Path, epochs: int) -> list[str]:
    """Return the command of a program's small training into a folder."""
    flags = (*PCDIFF, "--niter", str(epochs))
    if program == "voxelization":
        flags = (str(folder.parent / "small.yaml"), *VOXELIZATION, "--epochs", str(epochs))
    script = str(ROOT / "trainers" / program / "train.py")
    return [sys.executable, script, *flags, *SMALL, "--output_dir", str(folder)]


def begun(program: str, line: str) -> bool:
    """Whether a line of output is a training step's."""
    return "grad_norm:" in line if program == "pcdiff" else line.startswith("[Epoch")


def kill_once(words: list[str], program: str, after: float) -> bool:
    """Start or resume a run and kill it; return whether it was still at work."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    next((line for line in process.stdout if begun(program, line)), "")
    time.sleep(after)
    process.kill()
    process.communicate()
    return process.returncode == -9


def measure(program: str, kills: int, seed: int, epochs: int) -> str:
    """Return one line on a program: kills that hit a running process, and what differs."""
    with tempfile.TemporaryDirectory() as folder:
        place, draw = Path(folder), random.Random(seed)
        (place / "small.yaml").write_text(CONFIG)
        subprocess.run(command(program, place / "whole", epochs), check=True, capture_output=True)
        again = command(program, place / "killed", epochs)
        hit = sum(kill_once(again, program, draw.uniform(0, LONGEST)) for _ in range(kills))
        subprocess.run(again, check=True, capture_output=True)
        wrong = sorted(
            f"{name}{found}"
            for name in ("last.pt", "best.pt")
            for found in differing_files(*(place / run / "checkpoints" / name for run in RUNS))
        )
    verdict = (
        "equal to the bit" if not wrong else f"not: it differs in {len(wrong)}, first {wrong[0]}"
    )
    return (
        f"{program}: {hit} of {kills} kills hit a running process; at the end all that the newest"
        f" and the best checkpoint hold is {verdict}"
    )


def main() -> int:
    """Print a line for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=120, help="of the whole training")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", choices=PROGRAMS)
    settings = parser.parse_args()
    for program in [settings.only] if settings.only else PROGRAMS:
        print(measure(program, settings.kills, settings.seed, settings.epochs), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processors, seed {settings.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
