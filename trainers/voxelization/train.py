"""Train the voxelization network: completed point clouds in, skull volumes out.

    python trainers/voxelization/train.py trainers/voxelization/configs/train_skullbreak.yaml
    python trainers/voxelization/train.py --made_up 6 --grid_res 64 --epochs 20

The configuration has the keys of the pcdiff-implant project; a flag wins over its key. Written are
model.pt, model_best.pt, checkpoints/, tensorboard_log/, train.log, pictures and curves. It stops
after the step it is in on SIGINT, SIGTERM, SIGUSR1 or `$FRESNEL_RUN_DIR/stop.json`, and --resume
goes on from there to the bit.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
from typing import Any

import torch
from torch import Tensor

from trainers.common.checkpoint import CheckpointFolder
from trainers.common.compiling import compile_network
from trainers.common.ema import Ema
from trainers.common.errors import SettingsError
from trainers.common.files import name_also
from trainers.common.holding import hold_folders
from trainers.common.loading import EpochLoader, loading_sentence, to_device
from trainers.common.main_program import run_main
from trainers.common.meters import ThroughputMeter, mean_of
from trainers.common.precision import Precision, in_groups
from trainers.common.randomness import seed_everything
from trainers.common.ranks import from_leader, gradients_shared, wrap_model
from trainers.common.report import EventLog, run_directory
from trainers.common.schedules import batch_sentence, rate_at, scaled_rate, set_rate
from trainers.common.stepping import finish_step, judged_weights
from trainers.common.stopping import LEFT, StoppedError, StopRequest, Watched, judged_or_left
from trainers.skulls.made_up import make_up
from trainers.skulls.prepare import prepare_pairs
from trainers.voxelization.config import METRICS, architecture
from trainers.voxelization.data import (
    Pair,
    VoxelPairs,
    check_pairs,
    collate_pairs,
    read_manifest,
    target_of,
)
from trainers.voxelization.dpsr import DPSR
from trainers.voxelization.export import export_trained
from trainers.voxelization.memory import memory_sentence
from trainers.voxelization.model import Voxelizer
from trainers.voxelization.options import join_on_gpu, make_parser
from trainers.voxelization.orientation import turn_normals
from trainers.voxelization.reporting import VoxelReporter
from trainers.voxelization.state import TRAINER, VoxelRun, described, resume, save
from trainers.voxelization.validation import (
    baseline_scores,
    finite_scores,
    preview_inputs,
    psr_loss,
    validate,
    visualise,
)

# ------------------------------------------------------------------------------------------- data


def find_data(settings: argparse.Namespace, watched: Watched) -> tuple[list[Pair], list[Pair]]:
    """Return the training and the evaluation pairs, checked; make skulls up first where asked."""
    what = "skulls to make up" if settings.made_up else settings.train_path
    print(f"loading      {what}")
    EventLog(run_directory()).emit("phase", phase="loading", text=str(what))
    if settings.made_up is not None:
        root = settings.made_up_root or settings.output_dir.absolute() / "made_up"
        size = settings.made_up_size
        make_up(root, settings.made_up, size, seed=settings.seed, watched=watched)
        count = settings.values["data.pointcloud_n"]
        counts = count - count // 10, count // 10
        failures = prepare_pairs(root, root / "train.csv", counts, watched=watched)
        if failures:
            raise SettingsError(failures[0])
        folder = root / "voxelization"
        manifests = [folder / "train.csv", folder / "eval.csv"]
    else:
        manifests = [Path(settings.train_path), Path(settings.eval_path)]
    training, evaluation = (read_manifest(path) for path in manifests)
    check_pairs(watched([*training, *evaluation]), settings.values["model.grid_res"])
    return training, evaluation


def make_sets(
    settings: argparse.Namespace, pairs: tuple[list[Pair], list[Pair]]
) -> tuple[VoxelPairs, VoxelPairs]:
    """Return the training set, with noise where asked, and the evaluation set."""
    values = settings.values
    grid, count = values["model.grid_res"], values["data.pointcloud_n"]
    noise = values["data.pointcloud_noise"]
    return (
        VoxelPairs(pairs[0], grid, count, noise, settings.seed, values["data.implant_noise"]),
        VoxelPairs(pairs[1], grid, count, 0.0, settings.seed),
    )


# ------------------------------------------------------------------------- model and optimiser


def prepare(settings: argparse.Namespace, stop: StopRequest) -> VoxelRun:
    """Return a run before its first step."""
    ranks = join_on_gpu(settings.device, settings.gpu)
    hold_folders(ranks, "--output_dir", settings.output_dir)
    pairs = from_leader(ranks, lambda: find_data(settings, stop.watched))
    training, evaluation = make_sets(settings, pairs)
    seed_everything(settings.seed)
    network = Voxelizer(architecture(settings.values)).to(ranks.device)
    solver = DPSR(settings.values["model.grid_res"], settings.values["model.psr_sigma"])
    orientation = turn_normals(
        network,
        lambda points, normals, target: loss_of(settings, solver(points, normals), target),
        training,
        training.grid,
    )
    graphs, parts = settings.cuda_graphs, settings.accumulate
    compile_network(settings.compile, network, ranks.device, graphs, parts)
    model = wrap_model(network, ranks)
    seed_everything(settings.seed, ranks.rank)
    device, fused = ranks.device, ranks.device.type == "cuda"
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.lr, fused=fused or None)
    effective = settings.batch_size * ranks.world * settings.accumulate
    rate, sentence = scaled_rate(settings.lr, settings.lr_rule, effective, settings.base_batch)
    settings.rate_sentence = sentence
    folder, about = settings.output_dir, described(settings)
    checkpoints = CheckpointFolder(folder / "checkpoints", TRAINER, about, ranks, settings.keep)
    return VoxelRun(
        settings=settings,
        ranks=ranks,
        reporter=VoxelReporter(ranks, folder, TRAINER, about, wandb=settings.wandb),
        folder=checkpoints,
        stop=stop,
        loader=EpochLoader(training, device, settings.workers, settings.seed, collate_pairs),
        judged_by=EpochLoader(
            evaluation, device, settings.values["train.n_workers_val"], settings.seed, collate_pairs
        ),
        network=network,
        model=model,
        solver=solver,
        optimiser=optimiser,
        precision=Precision(settings.precision, ranks.device, volumes=True),
        ema=Ema(network, settings.ema) if settings.ema else None,
        rate=rate,
        orientation=orientation,
    )


def loss_of(settings: argparse.Namespace, predicted: Tensor, target: Tensor) -> Tensor:
    """Return the loss of predicted grids (B, X, Y, Z)."""
    values = settings.values
    return psr_loss(predicted, target, values["model.psr_tanh"], values["train.w_psr"])


def announce(run: VoxelRun, resumed_from: Path | None) -> None:
    """Print what is about to happen, and what looks wrong in the data."""
    settings, reporter = run.settings, run.reporter
    parameters = sum(parameter.numel() for parameter in run.network.parameters())
    skulls = [{pair.subject for pair in part.pairs} for part in (run.training, run.evaluation)]
    grid = " x ".join(map(str, run.training.grid))
    loading = loading_sentence(run.training.item_bytes(), settings, run.ranks)
    reporter.write(f"Number of parameters: {parameters}")
    reporter.start(
        found={
            "training pairs": f"{len(run.training)} of {len(skulls[0])} skulls",
            "evaluation pairs": f"{len(run.evaluation)} of {len(skulls[1])}",
            "points": run.training.count,
            "grid": grid,
        },
        batch=batch_sentence(settings.batch_size, run.ranks.world, settings.accumulate),
        rate=settings.rate_sentence,
        epochs=run.epochs,
        steps=run.steps,
        step=run.position.it,
        resumed_from=resumed_from,
    )
    reporter.open_boards(settings.tensorboard, run.position.it)
    sizes = run.training.count, run.network.sizes.num_offset, run.network.sizes.hidden_size
    need = memory_sentence(run.training.grid, settings.batch_size, *sizes)
    reporter.write(f"memory       {need}")
    if loading:
        reporter.write(loading)
    if run.precision.trouble:
        reporter.warn(f"precision fp32: {run.precision.trouble}")
    if resumed_from is None and run.orientation.is_turned:
        drawn, turned = run.orientation
        reporter.write(
            f"normals      turned round: as drawn they made skulls inside out"
            f" (loss {drawn:.3f}, now {turned:.3f})"
        )
    shared = skulls[0] & skulls[1]
    if shared:
        reporter.warn(
            f"{len(shared)} skulls, such as {min(shared)}, are in training and in evaluation"
            " pairs: the figures flatter; trainers/skulls/prepare.py splits by skull"
        )


# ------------------------------------------------------------------------------------------- loop


def forward(run: VoxelRun, batch: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of a batch and its oriented points and normals."""
    with run.precision.autocast():
        points, normals = run.model(batch["inputs"])
    predicted = run.solver(points, normals)
    return loss_of(run.settings, predicted, target_of(batch, run.training.grid)), points, normals


def take_step(
    run: VoxelRun, group: list[dict[str, Any]], meter: ThroughputMeter
) -> tuple[float, float]:
    """Take one optimiser step over a group of batches; return its loss and gradient norm."""
    settings, position = run.settings, run.position
    rate = rate_at(
        position.it, run.steps, run.rate, settings.schedule, settings.warmup, settings.lr_floor
    )
    set_rate(run.optimiser, rate)
    count = sum(len(batch["name"]) for batch in group)
    sums = torch.zeros(2, dtype=torch.float64, device=run.ranks.device)
    sums[1].fill_(count)  # an assignment would wait for the GPU
    every = run.values["train.visualize_every"]
    for place, loaded in enumerate(group):
        batch = to_device(loaded, run.ranks.device)
        with gradients_shared(run.model, place == len(group) - 1):
            loss, points, normals = forward(run, batch)
            share = len(batch["name"]) / count
            run.precision.backward(loss * share)
        sums[0] += loss.detach() * len(batch["name"])
        if place == 0 and every and position.it and position.it % every == 0:
            visualise(run, batch, points, normals)
    position.it, position.step_in_epoch = position.it + 1, position.step_in_epoch + 1
    norm, stepped = finish_step(run, sums, settings.clip, position.it)
    meter.count(count)
    loss_sum, samples = run.precision.read
    position.used += int(samples)
    if stepped:
        position.samples += samples
        position.loss_sum += loss_sum
    return loss_sum / samples, norm


def train_epoch(run: VoxelRun) -> bool:
    """Take the steps that are left of the current epoch; return whether a stop was asked for."""
    settings, ranks, position = run.settings, run.ranks, run.position
    loader = run.loader.epoch(position, settings.batch_size, ranks)
    meter, before = ThroughputMeter(ranks.device, ranks.world), position.seconds
    run.model.train()
    if position.it:
        run.reporter.phase("training")
    for group in in_groups(meter.waiting(loader), settings.accumulate):
        begun = time.monotonic()
        first = position.it == 0
        if first:
            preview_inputs(run, group[0])
            run.reporter.phase("training")
        loss, norm = take_step(run, group, meter)
        position.seconds = before + meter.seconds
        last = position.step_in_epoch == run.steps_per_epoch
        values = {
            "loss": loss,
            "gradient_norm": norm,
            "learning_rate": run.optimiser.param_groups[0]["lr"],
            **meter.values(),
        }
        run.reporter.train_step(position, values, always=last)
        if (position.it - 1) % run.values["train.print_every"] == 0:
            run.reporter.step_line(position, loss, time.monotonic() - begun)
        if run.stop.agreed(ranks.device):
            # After an epoch's last step it is finished first: judged, reported and saved.
            return not last
    return False


def _next_epoch(run: VoxelRun) -> None:
    position = run.position
    position.epoch += 1
    position.step_in_epoch = position.used = 0
    position.samples = position.loss_sum = position.seconds = 0.0


def judge(run: VoxelRun) -> dict[str, float]:
    """Return validation scores beside the baseline's; keep the best weights.

    Raises StoppedError on every rank where a stop was asked for meanwhile.
    """
    position, values = run.position, run.values
    if not position.baseline:
        position.baseline = from_leader(run.ranks, lambda: baseline_scores(run))
        if not position.baseline:
            raise StoppedError
    with judged_weights(run):
        scores = validate(run)
    metric = values["train.model_selection_metric"]
    run.reporter.validation_lines(scores, position.baseline, metric)
    found = scores[metric] if metric != "psr_iou" else -scores[metric]
    if finite_scores(scores) and found <= position.best:
        position.best, position.best_epoch = found, position.epoch
        run.reporter.write(f"New best model (loss {scores[metric]:.6f}), epoch {position.epoch}")
        save(run, best=True)
    baseline = {f"baseline_{name}": value for name, value in position.baseline.items()}
    return {**{f"val/{name}": scores[name] for name in METRICS}, **baseline}


def finish_epoch(run: VoxelRun) -> dict[str, float]:
    """Report an epoch, judge and save when due, and return the judged values."""
    position, settings = run.position, run.settings
    loss, seconds = mean_of(position.loss_sum, position.samples), position.seconds
    last = position.epoch + 1 == run.epochs
    judged: dict[str, float] = {}
    with judged_or_left(run):
        _next_epoch(run)
        if position.epoch % run.values["train.validate_every"] == 0 or last:
            judged = judge(run)
    run.reporter.epoch(position.epoch, position.it, seconds, {"loss": loss, **judged})
    if position.epoch % settings.checkpoint_every == 0 or last:
        run.reporter.write(f"Save new model at epoch {position.epoch}")
        save(run)
        every = run.values["train.backup_every"]
        if every and position.it % every == 0 and run.ranks.leads:
            folder = settings.output_dir.absolute()
            (folder / "model").mkdir(exist_ok=True)
            name_also(folder / "model.pt", folder / "model" / f"{position.epoch}.pt")
            run.reporter.write(f"Backup model at epoch {position.epoch}")
    return judged


def train(settings: argparse.Namespace) -> int:
    """Train as the settings say and return the exit code."""
    stop = StopRequest()
    stop.listen()
    run = prepare(settings, stop)
    resumed_from = resume(run)
    announce(run, resumed_from)
    run.reporter.phase("loading", "the first batch")
    judged, stopped = dict[str, float](), False
    while run.position.epoch < run.epochs and not stopped:
        stopped = train_epoch(run)
        try:
            if not stopped:
                judged = finish_epoch(run)
                stopped = run.position.epoch < run.epochs and stop.agreed(run.ranks.device)
        except StoppedError:
            stopped = True
            run.reporter.write(LEFT)
    if stopped:
        save(run)
        run.reporter.write(
            f"stopped by {stop.reason or 'another rank'} after {run.position.it} steps;"
            f" resume with --resume {settings.output_dir.absolute() / 'model.pt'}"
        )
    elif judged and run.ranks.leads:
        weights, card = export_trained(run, judged)
        run.reporter.write(f"weights      {weights}, described in {card.name}")
    run.reporter.finish(judged or None)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the trainer; return 0 when done or stopped, 1 failed, 2 bad setting, 130 interrupted."""
    return run_main(train, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
