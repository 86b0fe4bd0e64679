"""train_4gpu.sh: which launcher it calls, and with what."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.trainers
FOLDER = Path(__file__).resolve().parents[2] / "trainers" / "cascade"


def test_the_guide_s_script_calls_the_launcher_it_names(tmp_path) -> None:
    for name in ("torchrun", "accelerate"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def called(*flags: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(FOLDER / "train_4gpu.sh"), *flags]
        return subprocess.run(
            command, env=os.environ | path, capture_output=True, text=True, timeout=20
        )

    said = called(
        "--config", "config/multi_view_config.json", "--method", "accelerate", "--wandb"
    ).stdout
    assert said.startswith("accelerate launch --num_processes=4") and "--multi_gpu" in said
    assert said.rstrip().endswith(
        "--checkpoint_dir checkpoints_4gpu --mixed_precision fp16 --wandb"
    )
    said = called("--method", "torchrun", "--gpus", "2", "--checkpoint_dir", "out dir").stdout
    assert (
        said.startswith("torchrun --standalone --nproc_per_node=2")
        and "--checkpoint_dir out dir" in said
    )
    assert called("--method", "slurm").returncode == 2
