"""Train PCDiff: given a defective skull's points, learn to draw those of its implant.

Data, network, diffusion, files and flags are those of PCDiff (Friedrich et al., MICCAI 2023;
github.com/pfriedri/pcdiff-implant and github.com/DimensionLab/pcdiff-implant, MIT).
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
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

from trainers.common.loading import check_shared_memory, to_device
from trainers.common.main_program import run_main
from trainers.common.meters import ThroughputMeter, mean_of
from trainers.common.ranks import gradients_shared
from trainers.common.schedules import batch_sentence, scaled_rate, set_rate
from trainers.common.stepping import finish_step, judged_weights
from trainers.common.stopping import (
    LEFT,
    StoppedError,
    StopRequest,
    ignore_stop_signals,
    judged_or_left,
)
from trainers.pcdiff import judging
from trainers.pcdiff.data import EpochBatches, SkullPoints, spread_evenly
from trainers.pcdiff.diffusion import noise_losses, noise_settings
from trainers.pcdiff.export import export_trained
from trainers.pcdiff.naming import write_published
from trainers.pcdiff.options import make_parser
from trainers.pcdiff.pictures import views, write_sheet
from trainers.pcdiff.rates import rate_of_epoch
from trainers.pcdiff.resuming import go_on
from trainers.pcdiff.run import PcdiffRun, prepare
from trainers.pcdiff.runlog import step_line
from trainers.pcdiff.samplers import Sampling

EXAMPLES = """
python trainers/pcdiff/train.py --made_up 6 --niter 20 --num_points 1024 --num_nn 128
python trainers/pcdiff/train.py --path SkullBreak/train.csv --bs 8 --lr 2e-4
torchrun --nproc_per_node=8 trainers/pcdiff/train.py --path SkullBreak/train.csv --bs 64 --lr 1.6e-3
torchrun --nproc_per_node=8 trainers/pcdiff/train.py --path train.csv --bs 64 --lr-scaling sqrt
python trainers/pcdiff/train.py --path SkullBreak/train.csv --model epoch_1999.pth
"""


def announce(run: PcdiffRun, resumed_from: Path | None) -> None:
    """Print what was found and what will be done, and draw the first samples."""
    settings, log, world = run.settings, run.reporter, run.ranks.world
    _, rate_sentence = scaled_rate(
        settings.lr, settings.lr_scaling, settings.bs, settings.lr_base_batch
    )
    found: dict[str, Any] = {"samples": len(run.data), "points": settings.num_points}
    if run.held_out is not None:
        found["held_out"] = len(run.held_out)
    parts = settings.accumulate
    log.start(
        found=found,
        batch=batch_sentence(run.share // parts, world, parts),
        rate=rate_sentence,
        epochs=settings.niter,
        steps=settings.niter * run.steps_per_epoch,
        step=run.position.step,
        resumed_from=resumed_from,
    )
    each, factor = run.share, run.rate / settings.lr
    log.write(f"Batch size: {each} per GPU × {world} GPUs = {settings.bs} effective global batch")
    log.write(f"Dataset: {len(run.data)} samples, {run.steps_per_epoch} batches/epoch/rank")
    log.write(
        f"Effective LR scaled to {run.rate:.6e} using factor {factor:.3f}"
        f" (baseline batch={settings.lr_base_batch}, current batch={settings.bs},"
        f" rule={settings.lr_scaling})"
    )
    log.write(f"Network: {sum(p.numel() for p in run.network.parameters()):,} parameters")
    if run.precision.trouble:
        log.warn(f"precision fp32: {run.precision.trouble}")
    if each == 1 and world > 1:
        log.warn("one sample per device: devices wait for each other more than they compute")
    if not run.ranks.leads:
        return
    samples = [run.data[run.position.epoch, index] for index in range(min(4, len(run.data)))]
    rows: dict[str, list[Any]] = {"input": [], "implant": []}
    for sample in samples:
        at = torch.tensor([sample["timestep"]])
        noised = run.diffusion.noised(sample["implant"][None], at, sample["noise"][None])
        rows["input"].append(views(sample["skull"].T.numpy(), noised[0].T.numpy()))
        rows["implant"].append(views(sample["skull"].T.numpy(), sample["implant"].T.numpy()))
    captions = [f"{sample['name']} t={sample['timestep']}" for sample in samples]
    picture = write_sheet(log.folder / "inputs.png", rows, "first samples as shown", captions)
    log.image(picture, "first samples: noised input, and the implant to find")


def load_batches(run: PcdiffRun) -> Iterator[dict[str, Any]]:
    """Yield this rank's batches from where the run is to its end, loaded without a pause."""
    settings, ranks, position = run.settings, run.ranks, run.position
    workers = settings.workers // ranks.world
    loader: Iterable[dict[str, Any]] = DataLoader(
        run.data,
        batch_sampler=EpochBatches(  # type: ignore[arg-type]
            len(run.data),
            run.share,
            settings.manualSeed,
            ranks.rank,
            ranks.world,
            (position.epoch, settings.niter),
            position.used,
        ),
        num_workers=workers,
        worker_init_fn=ignore_stop_signals,
        pin_memory=ranks.device.type == "cuda",
        prefetch_factor=settings.prefetch_factor if workers else None,
        # Its own generator: else making an iterator draws from the global one and moves it on.
        generator=torch.Generator().manual_seed(settings.manualSeed),
    )
    return iter(loader)


def train_step(run: PcdiffRun, batch: dict[str, Any], rate: float) -> tuple[float, float]:
    """Take one optimiser step; return the loss's mean over all ranks and the gradient's norm."""
    settings, ranks, parts = run.settings, run.ranks, run.settings.accumulate
    set_rate(run.optimiser, rate)
    total = torch.zeros(1, dtype=torch.float64, device=ranks.device)
    names = ("skull", "implant", "timestep", "noise")
    columns = [to_device(batch[name], ranks.device).chunk(parts) for name in names]
    for place, (skull, implant, steps, noise) in enumerate(zip(*columns, strict=True)):
        with gradients_shared(run.model, place == parts - 1), run.precision.autocast():
            losses = noise_losses(run.model, run.diffusion, skull, implant, steps, noise)
            weights = run.diffusion.weights(steps, settings.loss_type, settings.min_snr_gamma)
            loss = (losses * weights).mean()
            run.precision.backward(loss / parts)
        total += loss.detach() / parts
    position = run.position
    position.step += 1
    position.used += run.share * ranks.world
    norm, stepped = finish_step(run, total, settings.grad_clip, position.step)
    loss_mean = run.precision.read[0] / ranks.world
    position.loss_sum += loss_mean if stepped else 0.0
    position.loss_count += float(stepped)
    return loss_mean, norm


def train_epoch(run: PcdiffRun, batches: Iterator[dict[str, Any]]) -> bool:
    """Take the steps that are left of the epoch; return whether a stop was asked for."""
    settings, position, meter = (
        run.settings,
        run.position,
        ThroughputMeter(run.ranks.device, run.ranks.world),
    )
    # None where a list that was cut since has fewer samples than this epoch had used.
    left = max(0, (len(run.data) - position.used) // settings.bs)
    begun = run.steps_per_epoch - left
    rate = rate_of_epoch(position.epoch, run.rate, settings)
    run.reporter.phase("training")
    run.model.train()
    for place, batch in enumerate(meter.waiting(islice(batches, left)), begun):
        loss, norm = train_step(run, batch, rate)
        meter.count(run.share)
        values = {"loss": loss, "learning_rate": rate, "gradient_norm": norm, **meter.values()}
        run.reporter.step(position.epoch + 1, position.step, values)
        if place % settings.print_freq == 0:
            run.reporter.write(
                step_line(position.epoch, settings.niter, place, run.steps_per_epoch, loss, norm)
            )
        if run.stop.agreed(run.ranks.device):
            return True
    try:
        finish_epoch(run, meter)
    except StoppedError:
        run.reporter.write(LEFT)
        return True
    return run.stop.agreed(run.ranks.device)


def finish_epoch(run: PcdiffRun, meter: ThroughputMeter) -> None:
    """Judge, report and save after an epoch; raises StoppedError where judging was stopped."""
    settings, position, log = run.settings, run.position, run.reporter
    epoch, mean = position.epoch, mean_of(position.loss_sum, position.loss_count)
    if run.ranks.world > 1 and epoch % 100 == 0:
        log.write(f"Epoch {epoch}: All ranks completed {run.steps_per_epoch} steps ✓")
    with judged_or_left(run):
        position.epoch, position.used, position.last_loss = epoch + 1, 0, mean
        position.loss_sum, position.loss_count = 0.0, 0.0
        run.figures = judge(run)
    values = {"loss": mean, **meter.values(), **run.figures}
    log.epoch(position.epoch, position.step, meter.seconds, values)
    last = position.epoch == settings.niter
    due = last or position.epoch % settings.checkpoint_freq == 0
    judged = values.get("val_loss", mean if run.held_out is None else None)
    # The best first: the numbered checkpoint then knows of it; a kill between them repeats both.
    if judged is not None and judged < position.best and (due or run.held_out is not None):
        position.best = judged
        save(run, best=True)
        log.write(f"New best model saved at epoch {epoch} with loss {judged:.6f}")
    if due:
        save(run)
    if last or position.epoch % settings.saveIter == 0:
        publish(run)


def judge(run: PcdiffRun) -> dict[str, float]:
    """Return what is due after an epoch of: held-out loss, drawn implants, bits per dimension."""
    settings, done = run.settings, run.position.epoch
    last = done == settings.niter

    def due(every: int) -> bool:
        return bool(every) and (done % every == 0 or last)

    values = dict[str, float]()
    shown = run.held_out or SkullPoints(run.data.samples, run.data.recipe, fixed=True)
    with judged_weights(run):
        if run.held_out is not None and due(settings.val_freq):
            run.reporter.phase("validating")
            values |= judging.held_out_loss(
                run.network, run.diffusion, run.held_out, run.moments, run.ranks, run.stop
            )
            run.reporter.write(judging.verdict(values))
        for every, work in ((settings.vizIter, draw_samples), (settings.diagIter, diagnose)):
            if due(every):
                values |= run.stop.shared(
                    run.ranks.device, lambda work=work: work(run, shown) if run.ranks.leads else {}
                )
    return values


def diagnose(run: PcdiffRun, shown: SkullPoints) -> dict[str, float]:
    """Return an implant's bits per dimension and what they consist of."""
    settings = run.settings
    found = judging.bits_per_dimension(
        run.network,
        run.diffusion,
        shown[0, 0],
        settings.diag_steps,
        run.ranks.device,
        run.stop.watched,
    )
    run.reporter.write("Diagnosis:")
    run.reporter.write(judging.diagnosis_line(run.position.epoch - 1, settings.niter, found))
    return {f"diag_{name}": value for name, value in found.items()}


def draw_samples(run: PcdiffRun, shown: SkullPoints) -> dict[str, float]:
    """Draw implants, write them into syn/, and return how near they are to the true ones."""
    settings, epoch = run.settings, run.position.epoch - 1
    run.reporter.phase("validating")
    run.reporter.write("Generation: eval")
    some = SkullPoints(spread_evenly(shown.samples, settings.viz_samples), shown.recipe, fixed=True)
    large = settings.model_var_type == "fixedlarge"
    sampling = Sampling(settings.viz_method, settings.viz_steps, large_variance=large)
    seed, device = settings.manualSeed, run.ranks.device
    found = judging.draw_implants(
        run.network, run.diffusion, some, sampling, device, seed, run.stop.watched
    )
    picture = judging.write_implants(settings.output_dir / "syn", epoch, found)
    run.reporter.image(picture, f"implants drawn after epoch {epoch}", run.position.step)
    values = judging.compare_implants(found)
    run.reporter.write(judging.generation_line(epoch, settings.niter, found))
    run.reporter.write(judging.implant_verdict(values))
    return values


def save(run: PcdiffRun, best: bool = False) -> None:
    """Write a checkpoint that a run can go on from to the bit."""
    run.reporter.phase("saving")
    state: dict[str, Any] = {
        "model": run.network.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "precision": run.precision.state_dict(),
        "ema": run.ema.state_dict() if run.ema is not None else None,
        "position": vars(run.position),
        "sizes": run.network.sizes.as_dict(),
        "diffusion": noise_settings(run.settings),
    }
    position = run.position
    in_epoch = position.used // run.settings.bs
    saved = run.folder.save(
        state, epoch=position.epoch, step=position.step, step_in_epoch=in_epoch, best=best
    )
    run.reporter.checkpoint(saved, position.epoch + (in_epoch > 0), position.step, best)


def publish(run: PcdiffRun) -> None:
    """Write epoch_N.pth in the published format; with an average of the weights it holds that."""
    if not run.ranks.leads:
        return
    state = run.network.state_dict() if run.ema is None else run.ema.weights()
    epoch, sizes = run.position.epoch - 1, run.network.sizes.as_dict()
    folder, loss = run.settings.output_dir, run.position.last_loss
    noise = noise_settings(run.settings)
    saved = write_published(folder, epoch, state, run.optimiser, loss, sizes, noise)
    run.reporter.checkpoint(saved, epoch + 1, run.position.step)
    run.reporter.write(f"Periodic checkpoint saved: {saved[0]}")


def reckon_memory(run: PcdiffRun) -> None:
    """Say how much of /dev/shm the loader's workers fill; raise SettingsError for too much."""
    settings, workers = run.settings, run.settings.workers // run.ranks.world
    if workers:
        first = run.data[0, 0]
        item = sum(part.nbytes for part in first.values() if isinstance(part, torch.Tensor))
        each = item, run.share, workers, run.ranks.here, settings.prefetch_factor
        run.reporter.write(f"loading      {check_shared_memory(*each)}")


def train(settings: argparse.Namespace) -> int:
    """Train as the settings say and return the exit code."""
    stop = StopRequest()
    stop.listen()
    run = prepare(settings, stop)
    resumed_from = go_on(run)
    reckon_memory(run)
    announce(run, resumed_from)
    run.network.warm_up(run.reporter.phase, (run.share // settings.accumulate, settings.num_points))
    batches, stopped = load_batches(run), False
    while run.position.epoch < settings.niter and not stopped:
        stopped = train_epoch(run, batches)
    position = run.position
    if stopped and position.epoch < settings.niter:
        save(run)
        run.reporter.write(
            f"stopped on {stop.reason or 'request'} in epoch {position.epoch}, step {position.step}"
        )
        run.reporter.write("resume with  --resume auto")
        run.reporter.finish()
        return 0
    run.reporter.write("=== TRAINING COMPLETED ===")
    run.reporter.write(f"  Final epoch: {position.epoch - 1}")
    run.reporter.write("  Stop reason: max_epochs_reached")
    if run.figures and run.ranks.leads:
        weights, card = export_trained(run, run.figures)
        run.reporter.write(f"weights      {weights}, described in {card.name}")
    run.reporter.finish({"loss": position.last_loss, **run.figures})
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the trainer; return the exit code."""
    return run_main(train, make_parser(__doc__ or "", EXAMPLES), arguments)


if __name__ == "__main__":
    sys.exit(main())
