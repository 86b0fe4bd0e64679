"""Train the Hybrid-ViT cascade: two X-rays in, a CT volume out, refined in stages.

    python trainers/cascade/train.py --config tiny.json --made_up 96
    torchrun --nproc_per_node=4 trainers/cascade/train.py --config config/multi_view_config.json
    accelerate launch --multi_gpu --num_processes=4 trainers/cascade/train.py \\
        --config config/multi_view_config.json

All three are this program and give the same losses. It stops after the step it is in on SIGINT,
SIGTERM, SIGUSR1 or `$FRESNEL_RUN_DIR/stop.json`, and --resume_from goes on from there to the bit.
See README.md beside it.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from pathlib import Path

BEGUN = time.monotonic()
# Run by its path, a program has its own folder first in sys.path, and another `trainers` may win.
HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainers.cascade.cascade import Cascade
from trainers.cascade.dataset import PatientSet, split_patients
from trainers.cascade.diffusion import seeded_generator, seeded_noise
from trainers.cascade.export import export_trained
from trainers.cascade.judging import judge, means, picture, table, validation_loss
from trainers.cascade.losses import StageLoss, spoil, stage_loss
from trainers.cascade.make_patients import make_patients
from trainers.cascade.model import reduce
from trainers.cascade.options import described, launcher_notes, make_parser, resolve
from trainers.cascade.patients import check_geometry, find_patients, read_calibration
from trainers.cascade.preparing import Baselines, prepare_stage, preview_inputs, sample_before
from trainers.cascade.progress import (
    announce,
    loading_of,
    report_epoch,
    report_step,
    without_copies,
)
from trainers.cascade.projector import unit_from_hu
from trainers.cascade.run import TRAINER, CascadeRun, next_stage, place_best, resume
from trainers.common.checkpoint import CheckpointFolder
from trainers.common.errors import DivergedError
from trainers.common.holding import hold_folders
from trainers.common.loading import EpochLoader, sent, to_device
from trainers.common.main_program import run_main
from trainers.common.meters import ThroughputMeter, mean_of
from trainers.common.precision import in_groups
from trainers.common.ranks import from_leader, gradients_shared, join_ranks
from trainers.common.report import Throttle
from trainers.common.reporter import Reporter
from trainers.common.schedules import rate_at, set_rate
from trainers.common.stepping import finish_step, judged_weights
from trainers.common.stopping import LEFT, StoppedError, StopRequest, judged_or_left

MADE_UP_VOLUME, MADE_UP_XRAY = 64, 128
RULE = "=" * 60
SUMMED = ("total", "diffusion", "physics", "count")

# ----------------------------------------------------------------------------- configuration


def prepare(settings: argparse.Namespace) -> CascadeRun:
    """Return a run at the beginning or where it is to go on. Raises SettingsError for what cannot
    be.
    """
    stop = StopRequest()
    stop.listen()
    config = resolve(settings)
    ranks = join_ranks(settings.device)
    hold_folders(ranks, "--checkpoint_dir", settings.checkpoint_dir)
    source = Path(config.data["dataset_path"])
    if settings.made_up:
        sizes = settings.made_up, MADE_UP_VOLUME, MADE_UP_XRAY, 0
        rays = config.stated_geometry
        make = partial(make_patients, source, *sizes, geometry=rays, watched=stop.watched)
        from_leader(ranks, make)
    patients, problems = find_patients(source, config.views)
    patients = patients[: config.data["max_patients"]]
    shares = (config.data["train_split"], config.data["val_split"], config.data["test_split"])
    splits = split_patients(patients, shares)
    calibration = read_calibration(
        source, config.data["xray_calibration"], config.data["xray_maximum"]
    )
    check_geometry(config.stated_geometry, calibration, source)
    about = described(settings, config)
    project = settings.wandb_project if settings.wandb else None
    folder = settings.checkpoint_dir
    checkpoints = CheckpointFolder(folder, TRAINER, about, ranks, settings.keep)
    reporter = Reporter(
        ranks, folder, TRAINER, about, settings.tensorboard, project, settings.log_dir
    )
    reporter.phase("loading", f"{len(patients)} patients found in {source}")
    run = CascadeRun(
        settings,
        config,
        ranks,
        stop,
        splits,
        calibration,
        reporter,
        checkpoints,
        Cascade.of(config),
    )
    run.cascade.watched = stop.watched
    for note in [*launcher_notes(), *config.notes]:
        reporter.write(f"note         {note}")
    if problems:
        reporter.warn(f"{len(problems)} folders of {source} left out: {'; '.join(problems[:5])}")
    resumed_from = resume(run)
    announce(run, len(patients), resumed_from)
    return run


# ------------------------------------------------------------------------------------- model


def losses_of_batch(run: CascadeRun, batch: dict[str, Any]) -> StageLoss:
    """Return the losses of a batch at random timesteps.

    What is random follows from seed, stage, epoch and patient alone: no rank, batch size or resume
    changes it.
    """
    position, diffusion, device = run.position, run.cascade.diffusion, run.ranks.device
    x0 = unit_from_hu(batch["hu"].float())
    seeds = [
        (run.settings.seed, position.stage, position.epoch, index)
        for index in batch["index"].tolist()
    ]
    generators = [seeded_generator(torch.device("cpu"), *seed, 0) for seed in seeds]
    t = sent(
        torch.stack([torch.randint(diffusion.timesteps, (), generator=g) for g in generators]),
        device,
    )
    noise = torch.stack([seeded_noise(x0.shape[1:], device, *seed, 1) for seed in seeds])
    before: tuple[Tensor, ...] = ()
    if run.stage.sizes.previous is not None:
        share = sent(torch.stack([torch.rand((), generator=g) for g in generators]), device)
        level = share * float(run.config.training["conditioning_noise"])
        known = [seeded_generator(device, *seed, 2) for seed in seeds]
        before = (spoil(reduce(x0, run.stage.sizes.previous), level, known), level)
    assert run.model is not None and run.precision is not None
    stage = run.cascade.stages[-1]
    z0 = stage.standardise(x0)
    with run.precision.autocast():
        output = run.model(diffusion.add_noise(z0, noise, t), t, batch["xrays"], *before)
    weight = run.stage.physics_weight
    given = (batch["integrals"], run.config.views, batch["spacing"], run.config.geometry)
    physics = given if weight else None
    return stage_loss(diffusion, output, z0, noise, t, physics, weight, stage.volume_of)


# -------------------------------------------------------------------------------------- loop


def train_step(run: CascadeRun, group: list[dict[str, Any]], rate: float) -> dict[str, float]:
    """Take one optimiser step on a group of batches; return the losses' sums and the norm.

    Sums are over all ranks.
    """
    assert run.model is not None and run.optimiser is not None and run.precision is not None
    samples, device = sum(len(batch["index"]) for batch in group), run.ranks.device
    sums = torch.zeros(4, dtype=torch.float64, device=device)
    sums[3].fill_(samples)  # an assignment would wait for the GPU
    set_rate(run.optimiser, rate)
    for place, loaded in enumerate(group):
        batch = {**to_device(loaded, device), "index": loaded["index"]}
        with gradients_shared(run.model, place == len(group) - 1):
            losses = losses_of_batch(run, batch)
            run.precision.backward(losses.total.sum() / samples)
        for column, part in enumerate((losses.total, losses.diffusion, losses.physics)):
            if part is not None:
                sums[column] += part.detach().sum()
    run.position.step += 1
    clip = run.config.training["gradient_clip"]
    norm, stepped = finish_step(run, sums, clip, run.position.step)
    total, diffusion, physics, count = run.precision.read
    return {
        "total": total,
        "diffusion": diffusion,
        "physics": physics,
        "count": count,
        "norm": norm,
        "stepped": float(stepped),
    }


def train_epoch(run: CascadeRun, loader: EpochLoader[PatientSet]) -> bool:
    """Take the steps that are left of the current epoch; return whether a stop was asked for."""
    assert run.model is not None
    position, ranks, training = run.position, run.ranks, run.config.training
    loaded = loader.epoch(position, run.stage.batch_size, ranks)
    meter, talk = ThroughputMeter(ranks.device, ranks.world), Throttle(5.0)
    steps = run.steps_per_epoch(position.stage)
    everything = steps * run.epochs
    warmup = min(training["warmup_steps"], everything // 10)
    every = run.config.logging["log_every_n_steps"]
    run.model.train()
    for group in in_groups(meter.waiting(loaded), training["accumulation_steps"]):
        rate = rate_at(
            position.step_in_stage, everything, training["learning_rate"], "cosine", warmup
        )
        found = train_step(run, group, rate)
        first = position.step_in_stage == 0
        position.step_in_stage += 1
        position.used += int(found["count"])
        for name in SUMMED if found["stepped"] else ():
            position.sums[name] = position.sums.get(name, 0.0) + found[name]
        if first:
            run.reporter.phase("training")
        meter.count(sum(len(batch["index"]) for batch in group))
        report_step(
            run, found, rate, meter, bool(every and position.step % every == 0), talk.due() or first
        )
        if run.stop.agreed(ranks.device):
            return True
    return False


def judge_epoch(run: CascadeRun, baselines: Baselines, last: bool) -> dict[str, float]:
    """Return how good the averaged weights are, on all held-out patients after the last epoch."""
    position = run.position
    run.reporter.phase("validating")
    with judged_weights(run):
        values = validation_loss(run, baselines)
        few = run.splits.val[: None if last else run.config.training["validation_patients"]]
        values |= means(judge(run, baselines, few))
        title = f"{run.stage.name}, epoch {position.epoch}: {run.splits.val[0].name}, held out"
        name = f"{run.stage.name}_epoch_{position.epoch:04d}.png"
        picture(run, baselines, run.splits.val[0], name, title)
    run.reporter.phase("training")
    return values


def finish_epoch(run: CascadeRun, baselines: Baselines, seconds: float) -> None:
    """Judge the averaged weights after an epoch, report, and save; raises StoppedError."""
    position, config = run.position, run.config
    sums = position.sums
    begun = time.monotonic()
    trained = {name: mean_of(sums.get(name, 0.0), sums.get("count", 0)) for name in SUMMED[:-1]}
    values = {"loss" if name == "total" else name: value for name, value in trained.items()}
    last = position.epoch + 1 == run.epochs
    with judged_or_left(run):
        position.epoch, position.used, position.sums = position.epoch + 1, 0, {}
        if last or position.epoch % config.logging["validate_every_n_epochs"] == 0:
            values |= judge_epoch(run, baselines, last)
    spent = seconds + time.monotonic() - begun
    number = position.epochs_before + position.epoch
    run.reporter.epoch(number, position.step, spent, without_copies(run, values))
    report_epoch(run, trained, values, spent)
    if not math.isfinite(values.get("val_loss", 0.0)):
        raise DivergedError(f"{run.stage.name}: the validation loss is not finite")
    if "val_loss" in values and values["val_loss"] < position.best:
        position.best = values["val_loss"]
        run.save(values, best=True)
        path = run.folder.folder / f"{run.stage.name}_best.pt"
        run.reporter.write(f"  ✓ Saved best checkpoint: {path} (PSNR: {values['psnr']:.2f} dB)")
    if last or position.epoch % run.settings.save_every == 0:
        run.save(values)


def train_stage(run: CascadeRun) -> bool:
    """Train the current stage to its end, or until a stop is asked for; return whether it was.

    Raises StoppedError where that was while patients were read, sampled for or judged.
    """
    position, stage = run.position, run.stage
    write = run.reporter.write
    run.reporter.stage = f"stage {stage.number}/{len(run.config.stages)}"
    write(f"\n{RULE}\nTraining Stage {stage.number}/{len(run.config.stages)}: {stage.name}")
    write(
        f"Volume size: {[stage.sizes.size] * 3},"
        f" {stage.sizes.grid**3:,} tokens of {stage.sizes.patch}^3 voxels"
    )
    effective = run.batch(position.stage)
    write(f"Batch size: {stage.batch_size} per GPU ({effective} total effective)")
    parameters = sum(parameter.numel() for parameter in run.cascade.stages[-1].parameters())
    write(
        f"Parameters: {parameters:,}; finished stages, which stay as they are:"
        f" {len(run.cascade.stages) - 1}"
    )
    baselines = prepare_stage(run)
    sample_before(run, baselines, run.splits.val)
    assert run.data is not None
    patients = PatientSet(run.data, run.splits.train, run.settings.seed + 7919 * position.stage)
    workers = int(run.config.data["num_workers"])
    loader = EpochLoader(patients, run.ranks.device, workers, patients.seed)
    if workers:
        write(f"Loading: {loading_of(run, stage)}")
    if run.data.kept_bytes:
        write(f"Kept in memory: all patients, {run.data.kept_bytes / 2**30:.2f} GiB a process")
    if position.step_in_stage == 0:
        preview_inputs(run)
        run.reporter.phase("warming up", "first step")
    while position.epoch < run.epochs:
        begun = time.monotonic()
        if train_epoch(run, loader):
            return True
        finish_epoch(run, baselines, time.monotonic() - begun)
        if position.epoch < run.epochs and run.stop.agreed(run.ranks.device):
            return True
    if position.stage == len(run.config.stages):
        report_test(run, baselines)
    return False


def report_test(run: CascadeRun, baselines: Baselines) -> None:
    """Judge the last stage's best weights on the test patients and print a table.

    Validation's patients stand in where there are no test patients.
    """
    patients, name = (
        (run.splits.test, "test") if run.splits.test else (run.splits.val, "validation")
    )
    place_best(run)
    sample_before(run, baselines, patients)
    judged = judge(run, baselines, patients, f"{name} patients judged", zeros=True)
    for line in table(judged, f"{run.stage.name} on {name} patients"):
        run.reporter.write(line)
    if run.splits.test:
        picture(
            run,
            baselines,
            patients[0],
            f"{run.stage.name}_test.png",
            f"{run.stage.name}: {patients[0].name}, test",
        )
    figures = {f"{name}_{key}": value for key, value in means(judged).items()}
    if run.ranks.leads:
        weights, card = export_trained(run, figures)
        run.reporter.write(f"weights      {weights}, described in {card.name}")
    run.reporter.finish(figures)


def train(settings: argparse.Namespace) -> int:
    """Train as the settings say and return the exit code."""
    run = prepare(settings)
    run.saved_step, write = run.position.step, run.reporter.write
    while True:
        try:
            stopped = train_stage(run)
        except StoppedError:
            stopped = True
            write(LEFT)
        if stopped:
            # Nothing new is to be saved where the stage is about to begin, or its end is judged.
            if run.position.step != run.saved_step:
                run.save()
            write(f"stopped on request ({run.stop.reason or 'another process was asked'})")
            last = run.folder.folder / "last.pt"
            found = f"--resume_from {last}" if last.is_file() else "the same command; nothing saved"
            write(f"resume with  {found}")
            run.reporter.finish()
            return 0
        if run.position.stage == len(run.config.stages):
            run.reporter.write(f"Training completed! {time.monotonic() - BEGUN:.1f} s")
            return 0
        next_stage(run)


def main(arguments: list[str] | None = None) -> int:
    """Run the trainer; return 0 done or stopped, 1 failed, 2 bad setting, 130 interrupted."""
    return run_main(train, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
