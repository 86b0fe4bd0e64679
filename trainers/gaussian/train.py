"""Train the Fresnel Gaussian decoder: features in, 3D Gaussians out, drawn and compared.

    python trainers/gaussian/train.py --epochs 5 --max_images 50
    torchrun --nproc_per_node=8 trainers/gaussian/train.py --data_dir photographs --epochs 100

Without --data_dir it learns from crops of the photographs that scikit-image and scikit-learn ship,
described by their own pixels. It stops after the step it is in on SIGINT, SIGTERM, SIGUSR1 or
`$FRESNEL_RUN_DIR/stop.json`, and --resume goes on from there to the bit.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from pathlib import Path

BEGUN = time.monotonic()
# Run by its path, a program has its own folder in front of sys.path, and any other `trainers` wins
# over ours.
HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import math
from typing import Any

import torch
from torch import Tensor

from trainers.common.checkpoint import CheckpointFolder
from trainers.common.ema import Ema
from trainers.common.holding import hold_folders
from trainers.common.loading import EpochLoader, sent, to_device
from trainers.common.main_program import run_main
from trainers.common.meters import ThroughputMeter
from trainers.common.precision import Precision, in_groups
from trainers.common.randomness import seed_everything
from trainers.common.ranks import gradients_shared, join_ranks, wrap_model
from trainers.common.report import Throttle
from trainers.common.reporter import Reporter
from trainers.common.schedules import batch_sentence, rate_at, set_rate
from trainers.common.settings_parser import SettingsError
from trainers.common.stepping import finish_step
from trainers.common.stopping import LEFT, StoppedError, StopRequest, Watched
from trainers.gaussian import losses, options
from trainers.gaussian.announcement import announce, epoch_lines, show_inputs, summarise
from trainers.gaussian.batches import check_room, epoch_batches_of, loader_of
from trainers.gaussian.decoder import make_decoder
from trainers.gaussian.evaluation import evaluate, seen_by_all
from trainers.gaussian.export import export_at_end
from trainers.gaussian.foreign import TRAINER
from trainers.gaussian.geometry import seen_from
from trainers.gaussian.hfts import random_window, sample_gaussians
from trainers.gaussian.pairs import moved_by
from trainers.gaussian.perceptual import find_lpips
from trainers.gaussian.photographs import Collection, PhotographSet, collect
from trainers.gaussian.projection import Camera, Gaussians
from trainers.gaussian.render import choose_backend, drawer_of, render
from trainers.gaussian.run import (
    GaussianRun,
    foreign_checkpoint,
    grow,
    resolve_geometry,
    resume,
    resume_foreign,
    save,
)
from trainers.gaussian.upstream_files import write_upstream_history
from trainers.gaussian.views import cut, random_poses, turned_photographs

# --------------------------------------------------------------------------------------------- data


def load_data(
    settings: argparse.Namespace, shown: bool = True, watched: Watched = iter
) -> Collection:
    """Choose and check the photographs. Raises SettingsError naming what is missing or wrong.

    `shown`: with a bar, as a folder's files are all read.
    """
    found = collect(
        settings.data_dir,
        settings.features,
        settings.feature_dim,
        settings.max_images,
        settings.held_out,
        settings.use_vlm_guidance,
        shown,
        settings.pair_gap,
        watched,
    )
    if settings.use_depth_fusion and not found.has_depth:
        raise SettingsError(
            "--use_depth_fusion needs depth files: make them with preprocess_training_data.py"
        )
    if settings.multi_pose_augmentation and not found.has_depth:
        raise SettingsError(
            "--multi_pose_augmentation needs depth files: other views of a photograph are its"
            " pixels moved by their depth"
        )
    return found


# -------------------------------------------------------------------------------------------- model


def batch_loss(run: GaussianRun, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss to minimise and its parts, drawn as the current phase says."""
    settings, phase = run.settings, run.phase
    image, disparity, weights = (batch.get(name) for name in ("image", "disparity", "weights"))
    assert image is not None
    camera, window, pose, seen, turned = Camera(phase.resolution), None, None, None, False
    if phase.window:
        window, camera = random_window(phase.window, phase.resolution)
    if settings.multi_pose_augmentation:
        # One pose for the step on all ranks, so that a frontal step has all terms of the loss.
        chance = torch.Generator().manual_seed(settings.seed * 1_000_003 + run.position.step)
        pose = random_poses(1, settings, chance).expand(len(image), -1)
        turned = bool((pose != 0).any())
        pose = sent(pose, image.device)
    asked = {"slots": phase.slots, "window": window} if settings.experiment == 2 else {}
    asked |= {"pose": pose} if settings.use_pose_encoding else {}
    with run.precision.autocast():
        gaussians = run.model(batch["features"], disparity, **asked)
    gaussians = Gaussians(*(part.float() for part in gaussians))
    if phase.stochastic_k:
        gaussians = sample_gaussians(gaussians, phase.stochastic_k)
    if pose is not None and turned:
        gaussians = seen_from(gaussians, pose)
        image, seen = turned_photographs(image, disparity, pose)
    camera = seen_by_all(run.collection, camera)._replace(blur=settings.blur)
    image, disparity, weights = (cut(part, camera.window) for part in (image, disparity, weights))
    drawn = render(gaussians, camera, run.draw)
    if weights is not None:
        weights = (1 - settings.vlm_weight) + settings.vlm_weight * weights
    weighting = options.loss_settings(settings)
    loss, parts = losses.total_loss(drawn, image, disparity, weighting, run.lpips, weights, seen)
    if "unseen" not in batch:
        return loss, parts
    moved = moved_by(gaussians, batch["motion"])
    other, bare = losses.total_loss(
        render(moved, camera, run.draw), cut(batch["unseen"], camera.window), None, weighting
    )
    parts |= {f"unseen_{name}": bare[name] for name in ("l1", "ssim")}
    return loss + settings.unseen_weight * other, parts


# ---------------------------------------------------------------------------------------- optimiser


def prepare(settings: argparse.Namespace, stop: StopRequest) -> GaussianRun:
    """Return a run before its first step."""
    options.complete(settings)
    ranks = join_ranks(settings.device)
    hold_folders(ranks, "--output_dir", settings.output_dir)
    if ranks.leads:
        # The first word, before seconds of files read and packages loaded.
        print("photographs  looked for and checked")
    collection = stop.shared(ranks.device, lambda: load_data(settings, ranks.leads, stop.watched))
    settings.feature_dim, settings.geometry = collection.feature_dim, resolve_geometry(settings)
    backend, why = choose_backend(settings.renderer, ranks.device)
    seed_everything(settings.seed)
    decoder = make_decoder(
        options.decoder_settings(settings, collection.feature_dim, settings.geometry)
    )
    decoder.to(ranks.device)
    model = wrap_model(decoder, ranks)
    seed_everything(settings.seed, ranks.rank)
    lpips, lpips_source = (
        find_lpips(settings.lpips_dir) if settings.lpips_weight else (None, "--lpips_weight 0")
    )
    if settings.lpips_weight and settings.lpips_dir and lpips is None:
        raise SettingsError(f"--lpips_dir: {lpips_source}")
    recorded = vars(settings) | {
        "photographs": collection.fingerprint,
        "lpips": lpips_source if lpips else "off",
    }
    reporter = Reporter(
        ranks, settings.output_dir, TRAINER, recorded, settings.tensorboard, settings.wandb
    )
    folder = CheckpointFolder(
        settings.output_dir / "checkpoints", TRAINER, recorded, ranks, settings.keep
    )
    fused = ranks.device.type == "cpu" or None
    optimiser = torch.optim.AdamW(
        decoder.parameters(), lr=settings.lr, weight_decay=1e-5, fused=fused
    )
    precision = Precision(settings.precision, ranks.device)
    ema = Ema(decoder, settings.ema) if settings.ema else None
    lpips = lpips.to(ranks.device) if lpips else None
    shared = settings, ranks, stop, reporter, folder, model, optimiser, precision, ema
    run = GaussianRun(*shared, collection, decoder, lpips, drawer_of(backend))
    reporter.write(f"renderer     {backend}{f': {why}' if why else ''}")
    if lpips is None:
        reporter.write(f"lpips        off: {lpips_source}")
    return run


# --------------------------------------------------------------------------------------------- loop


def train_step(
    run: GaussianRun, group: list[dict[str, Any]], meter: ThroughputMeter
) -> dict[str, float]:
    """Take one step on the batches of a group; return means over all ranks."""
    settings, ranks, position = run.settings, run.ranks, run.position
    warmup = min(settings.warmup, run.steps // 10)
    rate = rate_at(
        position.step, run.steps, run.rate[0], settings.schedule, warmup, settings.lr_floor
    )
    set_rate(run.optimiser, rate)
    samples = sum(len(batch["image"]) for batch in group)
    sums: dict[str, Tensor] = {}
    for place, loaded in enumerate(group):
        batch = to_device(loaded, ranks.device)
        count = len(batch["image"])
        with gradients_shared(run.model, place == len(group) - 1):
            loss, parts = batch_loss(run, batch)
            run.precision.backward(loss * (count / samples))
        for name, part in {"loss": loss, **parts}.items():
            sums[name] = part.detach().double() * count + sums.get(name, 0.0)
    beside = torch.stack([*sums.values(), torch.full_like(sums["loss"], samples)])
    position.step, position.in_epoch = position.step + 1, position.in_epoch + 1
    position.used += samples * ranks.world
    norm, stepped = finish_step(run, beside, settings.clip, position.step)
    meter.count(samples)
    *totals, images = run.precision.read
    means = {name: total / images for name, total in zip(sums, totals, strict=True)}
    for name, mean in means.items() if stepped else ():
        total, seen = position.sums.get(name, (0.0, 0.0))
        position.sums[name] = (total + mean * images, seen + images)
    return means | {"learning_rate": rate, "gradient_norm": norm}


def train_epoch(run: GaussianRun, loader: EpochLoader[PhotographSet]) -> bool:
    """Take the steps that are left of the current epoch; return whether a stop was asked for."""
    settings, position = run.settings, run.position
    talk, meter = Throttle(2.0), ThroughputMeter(run.ranks.device, run.ranks.world)
    run.model.train()
    if position.in_epoch == 0:
        grow(run)
    first = position.step == 0
    run.reporter.phase(
        "warming up" if first else "training",
        "first step: kernels are compiled and read" if first else "",
    )
    loaded = epoch_batches_of(run, loader)
    for group in in_groups(meter.waiting(loaded), settings.accumulate):
        values = train_step(run, group, meter)
        run.reporter.phase("training")
        last = position.in_epoch >= run.steps_per_epoch
        run.reporter.step(position.epoch + 1, position.step, values | meter.values(), always=last)
        if talk.due() or position.in_epoch == 1:
            run.reporter.write(
                f"epoch {position.epoch + 1}/{settings.epochs}  step"
                f" {position.in_epoch}/{run.steps_per_epoch}  loss {values['loss']:.4f}  l1"
                f" {values['l1']:.4f}  ssim {values.get('ssim', math.nan):.4f}  lr"
                f" {values['learning_rate']:.2e}  {meter.values()['samples_per_second']:.1f}"
                " images/s"
            )
        if run.stop.agreed(run.ranks.device) and not last:
            return True
    run.values = {"seconds": meter.seconds, **meter.values()}
    return False


def finish_epoch(run: GaussianRun, held_out: EpochLoader[PhotographSet]) -> None:
    """Judge the decoder after an epoch where that is due, report, and save."""
    settings, position = run.settings, run.position
    number = position.epoch + 1
    last = number == settings.epochs
    due, judging = (
        last or number % every == 0
        for every in (settings.checkpoint_every, settings.validate_every)
    )
    picture = settings.output_dir.absolute() / "images" / f"epoch_{number:04d}.png"
    title = f"held-out photographs and renders after epoch {number} of {settings.epochs}"
    seconds = run.values.pop("seconds", 0.0)
    means = {name: total / images for name, (total, images) in position.sums.items()}
    best = False
    if judging:
        run.reporter.phase("validating")
        judged = evaluate(run, held_out, run.phase.slots, (picture, title) if due else None)
        score = judged.get("unseen_psnr", judged["held_out_psnr"])
        best = run.phase.final and score > position.best_psnr
        position.best_psnr = score if best else position.best_psnr
        means |= judged
    run.values = means | run.values
    position.epoch, position.used, position.in_epoch, position.sums = number, 0, 0, {}
    run.reporter.epoch(number, position.step, seconds, run.values)
    epoch_lines(run, number, seconds)
    if due and judging:
        run.reporter.image(picture, title, position.step)
    if best:
        save(run, best=True)
    if due:
        save(run)


def train(settings: argparse.Namespace) -> int:
    """Train as the settings say and return the exit code."""
    stop = StopRequest()
    stop.listen()
    run = prepare(settings, stop)
    if settings.probe_batch:
        from trainers.gaussian.probe import probe_batch

        return probe_batch(run, batch_loss)
    foreign, resumed_from = foreign_checkpoint(settings, run.ranks), None
    if foreign is None:
        resumed_from = resume(run)
    check_room(run)
    announce(
        run, resumed_from, batch_sentence(settings.batch_size, run.ranks.world, settings.accumulate)
    )
    if foreign is not None:
        resume_foreign(run, *foreign)
    kept = settings.cache_mb * 2**20
    training = PhotographSet(run.collection.training, run.collection, run.phase.resolution, kept)
    held_out = PhotographSet(
        run.collection.held_out, run.collection, settings.image_size, kept // 4
    )
    run.reporter.phase("loading")
    stop.shared(run.ranks.device, lambda: training.read_ahead(run.ranks.leads, stop.watched))
    if run.position.step == 0 and run.ranks.leads:
        show_inputs(run, training)
    loader, judged_by, stopped = loader_of(run, training), loader_of(run, held_out), False
    while run.position.epoch < settings.epochs and not stopped:
        stopped = train_epoch(run, loader)
        try:
            if not stopped:
                finish_epoch(run, judged_by)
                stopped = run.position.epoch < settings.epochs and run.stop.agreed(run.ranks.device)
        except StoppedError:
            stopped = True
            run.reporter.write(LEFT)
    if stopped:
        if run.saved_step != run.position.step:
            save(run)
        run.reporter.write(f"stopped on {stop.reason or 'request'} after step {run.position.step}")
        run.reporter.write(f"resume with  --resume {run.saved}")
        run.reporter.finish()
        return 0
    write_upstream_history(run)
    export_at_end(run)
    summarise(run, time.monotonic() - BEGUN)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the trainer; return 0 done or stopped, 1 failed, 2 bad setting, 130 interrupted."""
    return run_main(train, options.make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
