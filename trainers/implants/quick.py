"""Small models for a pipeline that has none: the tiny presets' trainings, cut by the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from trainers.common.checkpoint import SETTINGS_NAME
from trainers.common.errors import SettingsError
from trainers.implants.completing import TRAINERS, run_program

SKULLS = 10
"""Made-up skulls to train on; their seed is not that of the skulls to be judged."""

PCDIFF_SIZES = (
    *("--num_points", "1024", "--num_nn", "102", "--width_mult", "0.25", "--embed_dim", "16"),
    *("--vox_res_mult", "0.25", "--dropout", "0", "--head_dropout", "0", "--model_mean_type", "v"),
    *("--bs", "8", "--workers", "0", "--lr", "2e-3", "--beta1", "0.9", "--grad_clip", "1"),
    *("--ema_decay", "0.99"),
    *("--val_freq", "20", "--checkpoint_freq", "20", "--vizIter", "0", "--diagIter", "0"),
)
"""The sizes of the preset pcdiff-tiny."""


def quick_command(trainer: str, folder: Path, size: int) -> list[str]:
    """Return the command line of a tiny training whose data and results lie in folder."""
    own = TRAINERS / trainer
    data = ["--made_up", str(SKULLS), "--made_up_size", str(size)]
    where = ["--output_dir", str(folder), "--resume", "auto-or-new"]
    if trainer == "voxelization":
        config = own / "configs" / "tiny.yaml"
        return [str(own / "train.py"), str(config), *data, *where, "--epochs", "100000"]
    return [str(own / "train.py"), *PCDIFF_SIZES, *data, *where, "--niter", "100000"]


def train_quickly(
    trainer: str, folder: Path, seconds: float, size: int, stop: Callable[[], bool]
) -> None:
    """Train a small model for about so many seconds; it is asked to stop and saves.

    Raises SettingsError where it fails or is stopped before its first checkpoint.
    """
    print(f"training     a small {trainer} model for {seconds:g} s in {folder}", flush=True)
    begun = folder / "checkpoints" / SETTINGS_NAME
    until = math.inf
    asked = False

    def enough() -> bool:
        nonlocal asked, until
        asked = asked or stop()
        # Making skulls up does not count: this file is written when training begins.
        if until == math.inf and begun.is_file():
            until = time.monotonic() + seconds
        return asked or time.monotonic() >= until

    run_program(quick_command(trainer, folder, size), enough, folder / "events")
    if asked:
        raise SettingsError("stopped while training a small model; start again to go on")
