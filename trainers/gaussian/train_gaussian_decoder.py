"""The trainer under the Fresnel project's name, with its flags and defaults.

    python trainers/gaussian/train_gaussian_decoder.py --data_dir images/training --fast_mode

Results go to `OUTPUT_DIR/expN`, the newest checkpoint also as
`expN/decoder_expN_lastcheckpoint.pt`, where the guide looks for it. Defaults that differ:
--experiment 2, as upstream's 3 is a placeholder.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

from trainers.common.main_program import run_main
from trainers.common.report import run_directory
from trainers.gaussian import train
from trainers.gaussian.options import make_parser

UPSTREAM = {
    "data_dir": Path("images"),
    "output_dir": run_directory() or Path("checkpoints"),
    "epochs": 100,
    "batch_size": 4,
    "lr": 1e-4,
    "image_size": 256,
    "checkpoint_every": 10,
}


def run(settings: argparse.Namespace) -> int:
    """Train into the experiment's folder, unless a panel gave the run a folder of its own."""
    if settings.output_dir != run_directory():
        settings.output_dir = settings.output_dir / f"exp{settings.experiment}"
    return train.train(settings)


def main(arguments: list[str] | None = None) -> int:
    """Run the trainer; return 0 done or stopped, 1 failed, 2 bad setting, 130 interrupted."""
    return run_main(run, make_parser(**UPSTREAM), arguments)


if __name__ == "__main__":
    sys.exit(main())
