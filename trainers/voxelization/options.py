"""The trainer's command line over its configuration file."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

from trainers.common.devices import choose_device
from trainers.common.errors import SettingsError
from trainers.common.main_program import add_optimiser_flags, add_run_flags
from trainers.common.ranks import Ranks, join_ranks
from trainers.common.report import run_directory
from trainers.common.settings_parser import SettingsParser, output_folder, whole_number
from trainers.voxelization.config import read_config

EXAMPLES = """
  python trainers/voxelization/train.py trainers/voxelization/configs/train_skullbreak.yaml
  python trainers/voxelization/train.py --made_up 6 --grid_res 64 --epochs 20
  torchrun --nproc_per_node=2 trainers/voxelization/train.py configs/train_skullbreak.yaml
"""

OVERRIDES = {
    "epochs": "train.total_epochs",
    "batch_size": "train.batch_size",
    "lr": "train.lr",
    "workers": "train.n_workers",
    "checkpoint_every": "train.checkpoint_every",
    "validate_every": "train.validate_every",
    "train_path": "data.train_path",
    "eval_path": "data.eval_path",
    "grid_res": "model.grid_res",
    "pointcloud_n": "data.pointcloud_n",
    "gpu": "train.gpu",
}
"""Flags that stand for a key of the configuration, and win over it."""

NETWORK = (
    "data.num_offset", "model.c_dim", "model.encoder_kwargs.hidden_dim",
    "model.encoder_kwargs.grid_resolution", "model.encoder_kwargs.unet3d_kwargs.num_levels",
    "model.encoder_kwargs.unet3d_kwargs.f_maps", "model.decoder_kwargs.hidden_size",
)  # fmt: skip
"""Keys that decide the network's tensors."""


def complete(settings: argparse.Namespace) -> None:
    """Read the configuration, whose keys are `values` then; raises SettingsError."""
    if settings.config and settings.configuration:
        raise SettingsError("name the configuration once: as FILE or with --config FILE")
    path = settings.config or settings.configuration
    changes = {key: getattr(settings, flag) for flag, key in OVERRIDES.items()}
    settings.values = read_config(path, changes)
    _resolve(settings, path)


def make_parser() -> SettingsParser:
    """Return the trainer's parser."""
    parser = SettingsParser(
        "Train the voxelization network: completed point clouds in, skull volumes out.",
        EXAMPLES,
        complete,
    )
    add, some = parser.add_argument, whole_number(1)
    # fmt: off
    add("configuration", nargs="?", type=Path, metavar="FILE", help="configuration, as --config")
    add("--train_path", help="manifest of training pairs (data.train_path)")
    add("--eval_path", help="manifest of evaluation pairs (data.eval_path)")
    add("--grid_res", help="grid: 16 to 512, or three sizes as 64,96,64 (model.grid_res)")
    add("--pointcloud_n", type=some, help="points of an item (data.pointcloud_n)")
    add("--validate_every", type=some, metavar="EPOCHS", help="judge every so many epochs")
    add("--made_up", type=whole_number(3), metavar="N",
        help="make N skulls up in the output folder and train on them")
    add("--made_up_size", type=whole_number(24, 512), default=64, help="voxels of their sides")
    add("--made_up_root", type=output_folder, help="where they go, to share them with another run")
    add("--gpu", type=whole_number(0), help="which of the GPUs that are seen (train.gpu)")
    add("--no_cuda", action="store_true", help="the same as --device cpu")
    add("--compile", action="store_true",
        help="compile the network by torch.compile; the solver's transforms stay as they are")
    add("--cuda_graphs", action="store_true",
        help="that, replayed as CUDA graphs, which spares the host: 52 samples/s for 46 (H200)")
    add("--no-wandb", action="store_true", help="the default: wandb is off without --wandb")
    # fmt: on
    add_run_flags(parser, epochs=1300, fixed_shapes=True)
    add_optimiser_flags(parser, 5e-4, 2, base_batch=2, schedule="constant", clip=0.0)
    # The file's values hold where a flag is not given.
    parser.set_defaults(
        **dict.fromkeys(OVERRIDES), output_dir=None, precision="fp32", seed=1, config=None
    )
    parser.refuse("--wandb-entity", "--wandb-name", reason="set WANDB_ENTITY or WANDB_NAME instead")
    parser.refuse("--wandb-project", reason="use --wandb PROJECT")
    return parser


def _resolve(settings: argparse.Namespace, path: Path | None) -> None:
    """Fill in what follows from flags and file together."""
    values: dict[str, Any] = settings.values
    for flag, key in OVERRIDES.items():
        setattr(settings, flag, values[key])
    settings.config = path
    del settings.configuration
    if settings.no_cuda:
        if settings.device == "cuda":
            raise SettingsError("--no_cuda and --device cuda contradict each other")
        settings.device = "cpu"
    if settings.output_dir is None:
        settings.output_dir = run_directory() or Path(values["train.out_dir"])
    if values["train.timestamp"] and run_directory() is None and not settings.resume:
        stamp = time.strftime("_%Y_%m_%d_%H_%M_%S")
        settings.output_dir = settings.output_dir.with_name(settings.output_dir.name + stamp)
    if settings.made_up is None and not (settings.train_path and settings.eval_path):
        raise SettingsError(
            "no data: name data.train_path and data.eval_path in a file, or try --made_up 6"
        )
    if settings.made_up is not None and (settings.train_path or settings.eval_path):
        raise SettingsError("--made_up makes its own pairs; leave train_path and eval_path away")


def join_on_gpu(device: str, gpu: int) -> Ranks:
    """Join the ranks on GPU number `gpu` of those that are seen (train.gpu); touch no other.

    Asking one for its name or setting it makes a context on it: half a gigabyte on somebody's GPU.
    """
    seen = torch.cuda.device_count() if device != "cpu" else 0
    if gpu == 0 or device == "cpu":
        return join_ranks(device)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 or gpu >= seen:
        raise SettingsError(
            f"train.gpu {gpu}: this program sees {seen} GPU(s), numbered from 0; with"
            f" CUDA_VISIBLE_DEVICES={gpu} the GPU you mean is 0 here; --device cpu takes none"
        )
    chosen, _ = choose_device(device, gpu)
    reason = f"train.gpu {gpu} of {seen}" if chosen.type == "cuda" else ""
    return Ranks(0, 1, chosen, reason)
