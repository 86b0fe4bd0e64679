"""The command line of the U-Net's trainer."""

from __future__ import annotations

from pathlib import Path

from trainers.common.main_program import add_optimiser_flags, add_run_flags
from trainers.common.settings_parser import SettingsParser, whole_number


def make_parser(description: str) -> SettingsParser:
    """Return the program's parser."""
    parser = SettingsParser(description)
    add, some = parser.add_argument, whole_number(1)
    # fmt: off
    add("--path", type=Path, metavar="CSV", help="list of training skulls, such as train.csv")
    add("--val_path", type=Path, metavar="CSV", help="judged by; else test.csv beside --path")
    add("--made_up", type=whole_number(2, 500), metavar="N", help="instead: make N skulls up")
    add("--made_up_size", type=whole_number(24, 512), default=64, help="voxels of their sides")
    add("--grid_res", type=whole_number(8, 512), default=128,
        help="voxels a side of what the network sees; the volumes' side is a multiple of it")
    add("--channels", type=some, default=16, help="of the first level; each level doubles them")
    add("--levels", type=whole_number(2, 7), default=5, help="levels of the U")
    add("--units", type=whole_number(0, 4), default=2, help="residual units of a level")
    add("--validate_every", type=some, default=10, metavar="EPOCHS", help="judge so often")
    add("--val_samples", type=some, default=20, help="of the held-out samples, at most")
    # fmt: on
    add_run_flags(parser, epochs=200, fixed_shapes=True)
    add_optimiser_flags(parser, 1e-3, 2, base_batch=2, ema=0.99)
    return parser
