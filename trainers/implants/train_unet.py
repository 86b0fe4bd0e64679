"""Train the plain baseline: a 3-D U-Net (MONAI's) from defective skulls to their implants.

    python trainers/implants/train_unet.py --made_up 10 --grid_res 32 --epochs 20
    python trainers/implants/train_unet.py --path pcdiff/datasets/SkullBreak/train.csv

Volumes are those of the list's skulls; test.csv beside it is judged on, by DSC at the volumes' own
resolution beside the mirrored healthy side. `implant.py --unet FILE` judges it beside PCDiff. It
stops after the step it is in on SIGINT, SIGTERM, SIGUSR1 or the panel's stop file, and --resume
goes on from there to the bit.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from trainers.common.checkpoint import CheckpointFolder
from trainers.common.counted_run import CountedRun
from trainers.common.ema import Ema
from trainers.common.errors import SettingsError
from trainers.common.holding import hold_folders
from trainers.common.kept_items import size_of
from trainers.common.loading import EpochLoader, loading_sentence, to_device
from trainers.common.main_program import run_main
from trainers.common.meters import ThroughputMeter, mean_of
from trainers.common.precision import Precision, in_groups
from trainers.common.preview import write_preview
from trainers.common.randomness import seed_everything
from trainers.common.ranks import gradients_shared, join_ranks, sum_over_ranks, wrap_model
from trainers.common.reporter import Reporter
from trainers.common.resuming import differences, find_checkpoint, restore_and_warn
from trainers.common.schedules import batch_sentence, rate_at, scaled_rate, set_rate
from trainers.common.stepping import finish_step, judged_weights
from trainers.common.stopping import LEFT, StoppedError, StopRequest, judged_or_left
from trainers.implants.unet import (
    TRAINER,
    TrainedUNet,
    UNetSizes,
    export_unet,
    make_network,
    overlap_loss,
)
from trainers.implants.unet_options import make_parser
from trainers.implants.volume_pairs import PARTS, Volumes, find_data, middle, shares
from trainers.skulls.card import skull_counts
from trainers.skulls.listing import SkullSample, volume_of
from trainers.skulls.metrics import dice
from trainers.skulls.mirror import mirror_implant
from trainers.skulls.volumes import read_volume

IDENTITY = ("path", "made_up", "made_up_size", "grid_res", "channels", "levels", "units", "seed")


# ------------------------------------------------------------------------------------------ a run


@dataclass
class Position:
    """How far a run has come; `loss_sum` and `samples` are of the epoch it is in."""

    epoch: int = 0
    step: int = 0
    in_epoch: int = 0
    used: int = 0
    loss_sum: float = 0.0
    samples: float = 0.0
    best: float = -1.0
    mirror: float = math.nan


@dataclass
class UNetRun(CountedRun):
    """What the functions of the loop share."""

    loader: EpochLoader[Volumes]
    held_out: list[SkullSample]
    sizes: UNetSizes
    network: nn.Module
    rate: float
    position: Position = field(default_factory=Position)
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def training(self) -> Volumes:
        """What is learnt from."""
        return self.loader.dataset


def prepare(settings: argparse.Namespace, stop: StopRequest) -> UNetRun:
    """Return a run before its first step, announced."""
    ranks = join_ranks(settings.device)
    hold_folders(ranks, "--output_dir", settings.output_dir)
    sizes = UNetSizes(settings.grid_res, settings.channels, settings.levels, settings.units)
    seed_everything(settings.seed)
    network = make_network(sizes).to(ranks.device)
    about, wandb = vars(settings), settings.wandb
    log = Reporter(ranks, settings.output_dir, TRAINER, about, settings.tensorboard, wandb)
    training, held_out = find_data(settings, ranks, log, stop.watched)
    batch = settings.batch_size * settings.accumulate * ranks.world
    rate, rate_told = scaled_rate(settings.lr, settings.lr_rule, batch, settings.base_batch)
    volumes = Volumes(training, sizes.grid, settings.seed)
    kept = settings.output_dir / "checkpoints"
    folder = CheckpointFolder(kept, TRAINER, about, ranks, settings.keep)
    loader = EpochLoader(volumes, ranks.device, settings.workers, settings.seed)
    model = wrap_model(network, ranks)
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate)
    precision = Precision(settings.precision, ranks.device, volumes=True)
    ema = Ema(network, settings.ema) if settings.ema else None
    shared = settings, ranks, stop, log, folder, model, optimiser, precision, ema
    run = UNetRun(*shared, loader, held_out, sizes, network, rate)
    seed_everything(settings.seed, ranks.rank)
    resumed_from = resume(run)
    announce(run, rate_told, resumed_from)
    return run


def resume(run: UNetRun) -> Path | None:
    """Bring the run to where its checkpoint left it; return the file, or None to begin anew."""
    found = find_checkpoint(run.settings.resume, run.folder, run.ranks, IDENTITY)
    if found is None:
        return None
    content, path, warnings = found
    others = differences(content["settings"], vars(run.settings), ("channels", "levels", "units"))
    if others:
        raise SettingsError(f"--resume: {path} is of another network: {'; '.join(others)}")
    run.network.load_state_dict(content["model"])
    run.optimiser.load_state_dict(content["optimiser"])
    run.precision.load_state_dict(content["precision"])
    if run.ema is not None and content["ema"]:
        run.ema.load_state_dict(content["ema"])
    run.position = position = Position(**content["position"])
    position.step, position.in_epoch = run.reporter.recount(
        position.step, position.epoch, position.used, run.batch, run.steps_per_epoch
    )
    restore_and_warn(run, content, warnings)
    return path


def announce(run: UNetRun, rate_told: str, resumed_from: Path | None) -> None:
    """Print what was found and will be done, and draw the first pairs."""
    settings, log = run.settings, run.reporter
    parameters = sum(part.numel() for part in run.network.parameters())
    loading = loading_sentence(size_of(run.training.pair(0)), settings, run.ranks)
    log.write(f"Number of parameters: {parameters:,} (MONAI UNet)")
    log.start(
        found={
            "samples": len(run.training),
            "held_out": len(run.held_out),
            "grid": f"{run.sizes.grid}³",
        },
        batch=batch_sentence(settings.batch_size, run.ranks.world, settings.accumulate),
        rate=rate_told,
        precision=run.precision.name,
        epochs=settings.epochs,
        steps=run.steps,
        step=run.position.step,
        resumed_from=resumed_from,
    )
    if run.precision.trouble:
        log.warn(f"precision fp32: {run.precision.trouble}")
    if loading:
        log.write(loading)
    if not run.ranks.leads:
        return
    shown = [run.training.pair(index) for index in range(min(4, len(run.training)))]
    rows = {name: [middle(shares(pair, name)) for pair in shown] for name in PARTS}
    names = [sample.name for sample in run.training.samples[:4]]
    log.image(write_preview(log.folder / "inputs.png", rows, "first pairs", names), "first pairs")


# ------------------------------------------------------------------------------------------- loop


def take_step(run: UNetRun, group: list[dict[str, Any]]) -> tuple[float, float, int]:
    """Take one step over a group of batches; return loss, gradient's norm, and own samples."""
    settings, position = run.settings, run.position
    rate = rate_at(
        position.step, run.steps, run.rate, settings.schedule, settings.warmup, settings.lr_floor
    )
    set_rate(run.optimiser, rate)
    count = sum(len(batch["name"]) for batch in group)
    sums = torch.zeros(2, dtype=torch.float64, device=run.ranks.device)
    sums[1].fill_(count)  # an assignment would wait for the GPU
    for place, loaded in enumerate(group):
        batch = to_device(loaded, run.ranks.device)
        with gradients_shared(run.model, place == len(group) - 1):
            with run.precision.autocast():
                logits = run.model(shares(batch, "defective"))
            loss = overlap_loss(logits, shares(batch, "implant"))
            samples = len(batch["name"])
            run.precision.backward(loss * (samples / count))
        sums[0] += loss.detach() * samples
    position.step, position.in_epoch = position.step + 1, position.in_epoch + 1
    norm, stepped = finish_step(run, sums, settings.clip, position.step)
    loss_sum, samples = run.precision.read
    position.used += int(samples)
    if stepped:
        position.loss_sum += loss_sum
        position.samples += samples
    return loss_sum / samples, norm, count


def train_epoch(run: UNetRun) -> bool:
    """Take the steps that are left of the epoch; return whether a stop was asked for inside."""
    settings, ranks, position = run.settings, run.ranks, run.position
    loader = run.loader.epoch(position, settings.batch_size, ranks)
    meter = ThroughputMeter(ranks.device, ranks.world)
    run.model.train()
    run.reporter.phase("training")
    for group in in_groups(meter.waiting(loader), settings.accumulate):
        loss, norm, count = take_step(run, group)
        meter.count(count)
        rate = run.optimiser.param_groups[0]["lr"]
        values = {"loss": loss, "learning_rate": rate, "gradient_norm": norm, **meter.values()}
        last = position.in_epoch == run.steps_per_epoch
        run.reporter.step(position.epoch + 1, position.step, values, always=last)
        if run.stop.agreed(ranks.device) and not last:
            return True
    try:
        finish_epoch(run, meter.seconds)
    except StoppedError:
        run.reporter.write(LEFT)
        return True
    return False


def finish_epoch(run: UNetRun, seconds: float) -> None:
    """Judge, report and save after an epoch; raises StoppedError where judging was stopped."""
    settings, position = run.settings, run.position
    loss = mean_of(position.loss_sum, position.samples)
    last = position.epoch + 1 == settings.epochs
    values = {"loss": loss}
    with judged_or_left(run):
        position.epoch += 1
        position.in_epoch = position.used = 0
        position.loss_sum = position.samples = 0.0
        if run.held_out and (last or position.epoch % settings.validate_every == 0):
            run.reporter.phase("validating")
            with judged_weights(run):
                run.figures = judge(run)
            values |= run.figures
    run.reporter.epoch(position.epoch, position.step, seconds, values)
    run.reporter.write(f"epoch {position.epoch}/{settings.epochs}  loss {loss:.4f}")
    score = values.get("val/dice", math.nan)
    if score > position.best:
        position.best = score
        save(run, best=True)
    if last or position.epoch % settings.checkpoint_every == 0:
        save(run)


def judge(run: UNetRun) -> dict[str, float]:
    """Return the mean DSC on held-out samples beside the mirror's, and draw the first."""
    position, ranks = run.position, run.ranks
    trained = TrainedUNet(run.network.eval(), run.sizes, ranks.device)
    mirrored = math.isnan(position.mirror)
    sums, shown = [0.0, 0.0, 0.0], list[tuple[np.ndarray, ...]]()

    def judge_own() -> None:
        for sample in run.stop.watched(run.held_out[ranks.rank :: ranks.world]):
            defective = read_volume(volume_of(sample.defective))
            truth = read_volume(volume_of(sample.implant)).mask
            found = trained.implant(defective.mask)
            sums[0] += dice(found, truth)
            if mirrored:
                sums[1] += dice(mirror_implant(defective.mask, defective.spacing), truth)
            sums[2] += 1
            if len(shown) < 4:
                shown.append((defective.mask, truth, found))

    run.stop.shared(ranks.device, judge_own)
    run.network.train()
    found_sum, mirror_sum, count = sum_over_ranks(sums, ranks.device)
    if mirrored:
        position.mirror = mirror_sum / count
    mean = found_sum / count
    verdict = "" if mean > position.mirror else "  (NOT ABOVE THE MIRROR: nothing learnt)"
    run.reporter.write(f"  DSC {mean:.4f}   mirror {position.mirror:.4f}{verdict}")
    if ranks.leads:
        rows = {
            name: [middle(torch.from_numpy(part[place])[None].float()) for part in shown]
            for place, name in enumerate(("defective", "truth", "found"))
        }
        path = run.reporter.folder / "pictures" / f"validation_{position.epoch:04d}.png"
        names = [sample.name for sample in run.held_out[:: ranks.world][: len(shown)]]
        title = f"implants after epoch {position.epoch}"
        run.reporter.image(write_preview(path, rows, title, names), title, position.step)
    return {"val/dice": mean, "val/dice_mirror": position.mirror}


def save(run: UNetRun, best: bool = False) -> None:
    """Write a checkpoint that a run can go on from to the bit; every rank calls this."""
    run.reporter.phase("saving")
    position = run.position
    state = {
        "model": run.network.state_dict(),
        "ema": run.ema.state_dict() if run.ema else None,
        "optimiser": run.optimiser.state_dict(),
        "precision": run.precision.state_dict(),
        "position": asdict(position),
        "sizes": asdict(run.sizes),
    }
    saved = run.folder.save(
        state, epoch=position.epoch, step=position.step, step_in_epoch=position.in_epoch, best=best
    )
    run.reporter.checkpoint(saved, position.epoch + (position.in_epoch > 0), position.step, best)


def train(settings: argparse.Namespace) -> int:
    """Train as the settings say and return the exit code."""
    stop = StopRequest()
    stop.listen()
    run = prepare(settings, stop)
    position, stopped = run.position, False
    while position.epoch < settings.epochs and not stopped:
        inside = train_epoch(run)
        stopped = inside or stop.agreed(run.ranks.device)
    if stopped and position.epoch < settings.epochs:
        save(run)
        run.reporter.write(f"stopped on {stop.reason or 'request'}; resume with  --resume auto")
        run.reporter.finish()
        return 0
    if run.figures and run.ranks.leads:
        export(run)
    run.reporter.finish(run.figures)
    return 0


def export(run: UNetRun) -> None:
    """Write the last weights, averaged where they are, as safetensors with a card."""
    run.reporter.phase("saving", "the weights for others")
    counts = skull_counts(run.training.samples, run.held_out)
    weights = run.ema.weights() if run.ema else run.network.state_dict()
    folder, settings = run.folder.folder, vars(run.settings)
    files = export_unet(folder, weights, run.sizes, counts, run.figures, settings)
    run.reporter.write(f"weights      {files[0]}, described in {files[1].name}")


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return the exit code."""
    return run_main(train, make_parser(__doc__ or ""), arguments)


if __name__ == "__main__":
    sys.exit(main())
