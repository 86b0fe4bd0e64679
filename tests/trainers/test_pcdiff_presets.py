"""The guides' tables of GPUs, batch and learning rate against what `plan` says of the presets."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.warm import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.trainers

# What is asked for -> processes, batch, learning rate: the guides' modes, and the table by GPUs.
PLANS = {
    "pcdiff": (7, 56, 1.4e-3),
    "pcdiff-1gpu": (1, 8, 2e-4),
    "pcdiff-8gpu": (8, 64, 1.6e-3),
    "pcdiff-8gpu-sqrt": (8, 64, 5.66e-4),
    "pcdiff-8gpu-small": (8, 32, 8e-4),
    "pcdiff --set bs=392 --set lr=1.22e-3": (7, 392, 1.22e-3),
    "pcdiff-8gpu --gpus 2 --scale linear": (2, 16, 4e-4),
    "pcdiff-8gpu --gpus 2 --scale sqrt": (2, 16, 2.83e-4),
    "pcdiff-8gpu --gpus 4 --scale linear": (4, 32, 8e-4),
    "pcdiff-8gpu --gpus 4 --scale sqrt": (4, 32, 4e-4),
}


@pytest.mark.parametrize("words", PLANS)
def test_plans_are_those_of_the_guides(words: str, tmp_path: Path) -> None:
    processes, batch, rate = PLANS[words]
    environment = {**os.environ, "FRESNEL_GPUS": "sim:8xA100-80GB", "XDG_STATE_HOME": str(tmp_path)}
    ended = COMMANDS.run(
        [sys.executable, "-m", "fresnel_tui", "--no-ui", "plan", *words.split(), "--json"],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    command = " ".join(json.loads(ended.stdout)["argv"])
    assert int(re.search(r"--bs (\d+)", command)[1]) == batch  # type: ignore[index]
    found = re.search(r"--lr (\S+)", command)
    assert found and float(found[1]) == pytest.approx(rate, rel=1e-3)
    started = re.search(r"--nproc-per-node=(\d+)", command)
    assert (int(started[1]) if started else 1) == processes
    assert "--lr-scaling none" in command
