"""A trainer of a line through points, as the README of trainers.common shows; the tests run it."""

# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import argparse
import math
import os
import signal

import torch
from torch import nn
from torch.utils.data import TensorDataset

from trainers.common import main_program, schedules
from trainers.common.checkpoint import CheckpointFolder
from trainers.common.ema import Ema
from trainers.common.holding import hold_folders
from trainers.common.loading import EpochLoader, to_device
from trainers.common.meters import ThroughputMeter
from trainers.common.precision import Precision, in_groups
from trainers.common.preview import write_preview
from trainers.common.randomness import restore_rank_state, seed_everything
from trainers.common.ranks import (
    compare_ranks,
    epoch_batches,
    gradients_shared,
    join_ranks,
    sum_over_ranks,
    unwrapped,
    wrap_model,
)
from trainers.common.reporter import Reporter
from trainers.common.resuming import changes_on_resume, find_checkpoint
from trainers.common.settings_parser import SettingsParser
from trainers.common.stopping import StopRequest


def make_parser() -> SettingsParser:
    parser = SettingsParser("Fit a line.", "  python common_toy_trainer.py --epochs 2")
    main_program.add_run_flags(parser, epochs=2)
    main_program.add_optimiser_flags(parser, lr=0.05, batch_size=4, base_batch=4, ema=0.9)
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--plant", default="", help="a fault, or a moment to be killed at")
    parser.refuse("--old_flag", reason="it never did anything; use --points")
    return parser


def train(settings: argparse.Namespace) -> int:
    stop = StopRequest()
    stop.listen()
    ranks = join_ranks(settings.device)
    hold_folders(ranks, "--output_dir", settings.output_dir)
    seed_everything(settings.seed)
    x = torch.linspace(-1, 1, settings.points).unsqueeze(1)
    points = TensorDataset(x, 3 * x + 1)
    net = nn.Sequential(nn.Linear(1, 4), nn.Dropout(settings.dropout), nn.Linear(4, 1)).to(
        ranks.device
    )
    model = wrap_model(net, ranks)
    seed_everything(settings.seed, ranks.rank)
    batch = settings.batch_size * settings.accumulate * ranks.world
    rate, rate_told = schedules.scaled_rate(
        settings.lr, settings.lr_rule, batch, settings.base_batch
    )
    steps_per_epoch = math.ceil(settings.points / batch)
    steps = settings.epochs * steps_per_epoch
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
    precision, ema = Precision(settings.precision, ranks.device), Ema(net, settings.ema)
    reporter = Reporter(
        ranks, settings.output_dir, "toy", vars(settings), settings.tensorboard, settings.wandb
    )
    folder = CheckpointFolder(
        settings.output_dir / "checkpoints", "toy", vars(settings), ranks, settings.keep
    )
    epoch = step = used = in_epoch = 0
    parts = {"model": net, "ema": ema, "optimiser": optimiser, "precision": precision}
    found = find_checkpoint(settings.resume, folder, ranks, ("points", "seed"))
    path = None
    if found:
        content, path, warnings = found
        for name, part in parts.items():
            part.load_state_dict(content[name])
        epoch, step, used, in_epoch = content["position"]
        warnings += changes_on_resume(content, folder, ("epochs", "plant"))
        warnings += [told] if (told := restore_rank_state(content["random"], ranks)) else []
        for warning in warnings:
            reporter.warn(f"resume: {warning}")
    reporter.start(
        found={"points": settings.points}, batch=schedules.batch_sentence(settings.batch_size,
        ranks.world, settings.accumulate), rate=rate_told, precision=precision.name,
        epochs=settings.epochs, steps=steps,
        step=step, resumed_from=path,
    )  # fmt: skip

    def save(best: bool = False) -> None:
        reporter.phase("saving")
        state = {name: part.state_dict() for name, part in parts.items()}
        state["position"] = [epoch, step, used, in_epoch]
        saved = folder.save(state, epoch=epoch, step=step, step_in_epoch=in_epoch, best=best)
        reporter.checkpoint(saved, epoch + (in_epoch > 0), step, best)

    if ranks.leads:
        told = {"input": [x.expand(-1, 16)], "target": [(3 * x + 1).expand(-1, 16)]}
        reporter.image(write_preview(reporter.folder / "inputs.png", told, "first batch"), "inputs")
    loader = EpochLoader(points, ranks.device, settings.workers, settings.seed)
    while epoch < settings.epochs:
        meter, total = ThroughputMeter(ranks.device, ranks.world), 0.0
        batches = epoch_batches(
            settings.points,
            settings.batch_size,
            settings.seed,
            epoch,
            ranks.rank,
            ranks.world,
            used,
        )
        reporter.phase("training")
        for group in in_groups(meter.waiting(loader.batches(batches)), settings.accumulate):
            rate_now = schedules.rate_at(
                step, steps, rate, settings.schedule, settings.warmup, settings.lr_floor
            )
            schedules.set_rate(optimiser, rate_now)
            samples = sum(len(x) for x, _ in group)
            loss_sum = 0.0
            for place, loaded in enumerate(group):
                x, y = to_device(loaded, ranks.device)
                with gradients_shared(model, place == len(group) - 1), precision.autocast():
                    loss = nn.functional.mse_loss(model(x), y)
                    precision.backward(loss * len(x) / samples)
                loss_sum += float(loss.detach()) * len(x)
            norm, stepped = precision.step(optimiser, net.parameters(), settings.clip)
            ema.update(net)
            step, in_epoch, used = step + 1, in_epoch + 1, used + samples * ranks.world
            if stepped and step == 1:
                compare_ranks(model, ranks, step)
            meter.count(samples)
            mean, count = sum_over_ranks([loss_sum, float(samples)], ranks.device)
            total += mean
            values = {"loss": mean / count, "learning_rate": rate_now, "gradient_norm": norm}
            reporter.step(epoch + 1, step, {**values, **meter.values()}, always=True)
            reporter.write(f"step {step} loss {mean / count!r}")
            if settings.plant.startswith("save"):
                save()
            if settings.plant.endswith(f"SIGKILL at {step}"):
                os.kill(os.getpid(), signal.SIGKILL)
            if settings.plant == f"SIGUSR1 at {step}":
                os.kill(os.getpid(), signal.SIGUSR1)
            if stop.agreed(ranks.device) and in_epoch < steps_per_epoch:
                save()
                reporter.write(f"stopped on {stop.reason or 'request'} after step {step}")
                reporter.finish()
                return 0
        epoch, used, in_epoch = epoch + 1, 0, 0
        with ema.applied(net), torch.no_grad():
            unwrapped(model).eval()
            judged = float(nn.functional.mse_loss(net(x), y))
            unwrapped(model).train()
        values = {"loss": total / settings.points, "held_out": judged, **meter.values()}
        reporter.epoch(epoch, step, meter.seconds, values)
        save()
        if stop.agreed(ranks.device) and epoch < settings.epochs:
            reporter.write(f"stopped on {stop.reason or 'request'} after step {step}")
            reporter.finish()
            return 0
    save(best=True)
    if settings.plant == "a gradient that is not shared":
        nn.functional.mse_loss(net(x), y).backward()
        precision.step(optimiser, net.parameters())
        compare_ranks(model, ranks, step + 1)
    reporter.finish({"loss": total / settings.points})
    return 0


if __name__ == "__main__":
    sys.exit(main_program.run_main(train, make_parser()))
