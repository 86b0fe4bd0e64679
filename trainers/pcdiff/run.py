"""What a training run consists of, and how it comes about: places, data, network, optimiser."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from trainers.common.arithmetic import set_arithmetic
from trainers.common.checkpoint import CheckpointFolder
from trainers.common.counted_run import TrainingRun
from trainers.common.ema import Ema
from trainers.common.errors import SettingsError
from trainers.common.holding import hold_folders
from trainers.common.precision import Precision
from trainers.common.randomness import seed_everything
from trainers.common.ranks import Ranks, from_leader, join_ranks, wrap_model
from trainers.common.resuming import check_named_files
from trainers.common.schedules import scaled_rate
from trainers.common.stopping import StopRequest, Watched
from trainers.pcdiff.data import (
    Recipe,
    SkullPoints,
    check_batch,
    find_samples,
    implant_moments,
    spread_evenly,
)
from trainers.pcdiff.diffusion import PointDiffusion
from trainers.pcdiff.geometry import search_on
from trainers.pcdiff.model import PVCNN, Sizes
from trainers.pcdiff.runlog import RunLog
from trainers.skulls.listing import check_split
from trainers.skulls.made_up import make_up, training_samples


@dataclass
class PcdiffPosition:
    """Where a run is: finished epochs and steps, samples of this epoch, its losses, the best."""

    epoch: int = 0
    step: int = 0
    used: int = 0
    loss_sum: float = 0.0
    loss_count: float = 0.0
    best: float = float("inf")
    last_loss: float = float("nan")


@dataclass
class PcdiffRun(TrainingRun):
    """Everything a run consists of."""

    data: SkullPoints
    held_out: SkullPoints | None
    moments: tuple[Tensor, Tensor]
    diffusion: PointDiffusion
    network: PVCNN
    rate: float
    share: int
    position: PcdiffPosition = field(default_factory=PcdiffPosition)
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the training list."""
        return len(self.data) // self.settings.bs


def settle(settings: argparse.Namespace, ranks: Ranks) -> None:
    """Fill in what depends on the place, and set PyTorch's switches; raise SettingsError."""
    if settings.path is None and settings.made_up is None:
        raise SettingsError("--path CSV is missing, the list of skulls; or try --made_up 6")
    if settings.path is not None and settings.made_up is not None:
        raise SettingsError("--made_up makes its own skulls: leave --path away, or --made_up")
    if settings.loss_type == "kl":
        raise SettingsError("--loss_type kl never worked in the original either: mse or mse_minsnr")
    if not 0 < settings.num_nn < settings.num_points:
        raise SettingsError(
            f"--num_nn {settings.num_nn}: of {settings.num_points} points"
            " some must be left for the skull"
        )
    if settings.beta_start > settings.beta_end:
        raise SettingsError(
            f"--beta_start {settings.beta_start:g} is above --beta_end {settings.beta_end:g}"
        )
    if settings.embed_dim % 2:
        raise SettingsError(f"--embed_dim {settings.embed_dim} is odd; half of it are sines")
    tag = f"-{settings.experiment_tag}" if settings.experiment_tag else ""
    dated = Path("pcdiff/output/train_completion") / time.strftime(f"%Y-%m-%d-%H-%M-%S{tag}")
    settings.output_dir = settings.output_dir or from_leader(ranks, lambda: dated)
    settings.checkpoint_dir = settings.checkpoint_dir or settings.output_dir / "checkpoints"
    for name, value in (("ENTITY", settings.wandb_entity), ("NAME", settings.wandb_name)):
        if value:
            os.environ[f"WANDB_{name}"] = value
    tf32, free = not settings.disable_tf32, settings.nondeterministic
    set_arithmetic(tf32, benchmark=free, deterministic=not free)
    if tf32:
        torch.set_float32_matmul_precision(settings.matmul_precision)


def find_data(
    settings: argparse.Namespace, ranks: Ranks, log: RunLog, watched: Watched
) -> tuple[SkullPoints, SkullPoints | None]:
    """Return training and held-out data, checked; the skulls are made up first where asked."""
    path = settings.path
    if path is None:
        root = settings.output_dir / "skulls"
        log.phase("loading", f"making up {settings.made_up} skulls in {root}")
        # A sample draws so many of them; more take longer to make than a tiny run trains.
        points = min(20_000, 4 * settings.num_points)
        size, dataset = settings.made_up_size, settings.dataset
        from_leader(
            ranks,
            lambda: make_up(
                root,
                settings.made_up,
                size,
                dataset,
                points,
                seed=settings.made_up_seed,
                watched=watched,
            ),
        )
        path = root / "train.csv"
    log.phase("loading", f"reading {path}")
    recipe = Recipe(
        settings.num_points,
        settings.num_nn,
        settings.time_num,
        settings.augment,
        settings.manualSeed,
    )
    training = find_samples(path, ranks.leads, watched)
    beside = path.with_name("test.csv")
    judged = settings.val_path or (beside if beside.is_file() and beside != path else None)
    if judged is None:
        log.warn("no --val_path and no test.csv beside --path: nothing is judged on unseen skulls")
    if judged is None or not settings.val_freq:
        return SkullPoints(training, recipe), None
    unseen = find_samples(judged, ranks.leads, watched)
    check_split(training, unseen)
    return SkullPoints(training, recipe), SkullPoints(
        spread_evenly(unseen, settings.val_samples), recipe, fixed=True
    )


def sizes_of(settings: argparse.Namespace) -> Sizes:
    """Return the network's sizes; raise SettingsError for widths that its norms cannot divide."""
    sizes = Sizes(
        settings.num_points,
        settings.num_nn,
        settings.embed_dim,
        settings.width_mult,
        settings.vox_res_mult,
        settings.dropout,
        settings.attention,
        settings.head_dropout,
        settings.up_convolutions,
    )
    sizes.check()
    return sizes


def prepare(settings: argparse.Namespace, stop: StopRequest) -> PcdiffRun:
    """Return a run before its first step."""
    ranks = join_ranks(settings.device)
    settle(settings, ranks)
    hold_folders(ranks, "--output_dir", settings.output_dir, settings.checkpoint_dir)
    check_named_files(settings.resume, settings.model)
    sizes_of(settings)
    search_on(ranks.device, settings.neighbours)
    folder = CheckpointFolder(
        settings.checkpoint_dir, "pcdiff", vars(settings), ranks, settings.keep_last_n
    )
    project = None if settings.no_wandb else settings.wandb_project
    log = RunLog(
        ranks, settings.output_dir, vars(settings), tensorboard=settings.tensorboard, wandb=project
    )
    if settings.made_up is not None:
        # Making skulls up takes a second each: what cannot be is said before.
        check_batch(settings, ranks.world, training_samples(settings.made_up, settings.dataset))
    data, held_out = stop.shared(
        ranks.device, lambda: find_data(settings, ranks, log, stop.watched)
    )
    share = settings.bs // ranks.world
    check_batch(settings, ranks.world, len(data))
    seed_everything(settings.manualSeed)
    network = PVCNN(sizes_of(settings), settings.neighbours).to(ranks.device)
    model = wrap_model(network, ranks, static_graph=settings.ddp_static_graph)
    seed_everything(settings.manualSeed, ranks.rank)
    rate, _ = scaled_rate(settings.lr, settings.lr_scaling, settings.bs, settings.lr_base_batch)
    optimiser = torch.optim.Adam(
        network.parameters(),
        lr=rate,
        betas=(settings.beta1, 0.999),
        weight_decay=settings.decay,
        fused=ranks.device.type == "cuda" and not settings.no_fused_adam,
    )
    kind = {"float16": "fp16", "bfloat16": "bf16"}[settings.amp_dtype] if settings.amp else "fp32"
    moments, diffusion = implant_moments(data), PointDiffusion.described(vars(settings))
    precision = Precision(kind, ranks.device, volumes=True)
    ema = Ema(network, settings.ema_decay) if settings.ema_decay else None
    shared = settings, ranks, stop, log, folder, model, optimiser, precision, ema
    return PcdiffRun(*shared, data, held_out, moments, diffusion, network, rate, share)
