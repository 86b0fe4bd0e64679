"""Train the Fresnel Gaussian decoder: image features in, 3D Gaussians out, compared with the image they draw.

    python trainers/gaussian/train.py --epochs 5 --max_images 50
    torchrun --nproc_per_node=8 trainers/gaussian/train.py --data_dir photographs --epochs 100

Without --data_dir it learns from crops of the photographs that scikit-image and scikit-learn ship, described
by their own pixels. Checkpoints, pictures and, under a control panel, events are written while it runs. It
stops after the step it is in on SIGINT, SIGTERM or `$FRESNEL_RUN_DIR/stop.json`, and --resume goes on from
there to the bit. The decoder, its sizes, losses and file formats are those of the Fresnel project.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from pathlib import Path

BEGUN = time.monotonic()
# Run by its path, a program has its own folder in front of sys.path, and any other `trainers` wins over ours.
HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import argparse
import math
import os
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from trainers.common.ranks import Ranks, epoch_batches, join_ranks, leave_ranks, sum_over_ranks
from trainers.common.report import EventLog, Pace, run_directory
from trainers.common.settings import SettingsError, SettingsParser, number_between, whole_number
from trainers.common.stopping import StopRequest, ignore_stop_signals
from trainers.gaussian import losses
from trainers.gaussian.announcement import announce, summarise
from trainers.gaussian.contact_sheet import write_contact_sheet
from trainers.gaussian.decoder import DirectPatchDecoder, sample_gaussians
from trainers.gaussian.features import FEATURE_SUFFIXES
from trainers.gaussian.photographs import PhotographSet, collect
from trainers.gaussian.progress import Progress, Run, resume, save
from trainers.gaussian.render import render

PATIENCE = 10
"""Batches in a row without a finite loss after which a run has failed."""

# ----------------------------------------------------------------------------------------------------- config


def read_settings(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line; a bad value ends the program with one line on stderr and exit code 2."""
    parser = SettingsParser("Train the Fresnel Gaussian decoder on photographs.")
    add = parser.add_argument
    some, any_number = whole_number(1), whole_number(0)
    # fmt: off
    add("--data_dir", type=Path, help="folder of images and features/; without it: built-in photographs")
    add("--features", choices=("auto", "dinov2", "patch"), default="auto",
        help="DINOv2 files or descriptors of the image's pixels; auto: dinov2 with --data_dir, else patch")
    add("--feature_dim", type=int, choices=sorted(FEATURE_SUFFIXES), default=384, help="of DINOv2's features")
    add("--max_images", type=some, help="use at most so many images, held-out ones included")
    add("--held_out", type=number_between(0, 1), default=0.2, help="share of the images to judge by")
    add("--image_size", type=whole_number(16, 2048), default=64, help="side of the square images, in pixels")
    add("--gaussians_per_patch", type=whole_number(1, 64), default=4, help="Gaussians per patch, of 37 x 37")
    add("--epochs", type=some, default=5, help="times to go through the training images")
    add("--batch_size", type=some, default=4, help="images per step and process")
    add("--lr", type=number_between(0, 1), default=1e-3, help="highest learning rate of a cosine schedule")
    add("--stochastic_k", type=any_number, default=0, metavar="N",
        help="draw N Gaussians per training step, widened to cover as much as all; in the last quarter of"
        " the epochs all; 0: always all")
    add("--progressive_schedule", action=argparse.BooleanOptionalAction, default=False,
        help="begin with 1 Gaussian per patch, then 2, 4 and all, a quarter of the epochs each")
    add("--workers", type=any_number, default=0, help="processes that load images; 0: load in the trainer")
    add("--seed", type=any_number, default=0, help="decides the weights, the order of images and all chance")
    add("--resume", metavar="PATH|auto", help="go on from a checkpoint; auto: the newest in output_dir")
    add("--output_dir", type=Path, default=run_directory() or Path("output"), help="where results go")
    add("--checkpoint_every", type=some, default=1, metavar="EPOCHS", help="save and draw every so often")
    add("--keep", type=any_number, default=3, help="keep the last so many checkpoints and best.pt; 0: all")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if PyTorch sees one")
    add("--threads", type=any_number, default=0, help="CPU threads of PyTorch; 0: as PyTorch chooses")
    # fmt: on
    settings = parser.parse_args(arguments)
    if settings.features == "auto":
        settings.features = "dinov2" if settings.data_dir else "patch"
    return settings


def learning_rate(step: int, steps: int, highest: float) -> float:
    """Return the rate for a step counted from 0: a short rise, then half a cosine down to a fiftieth."""
    rise = max(1, min(steps // 20, 500))
    if step < rise:
        return highest * (step + 1) / rise
    return highest * (0.02 + 0.49 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise))))


# ------------------------------------------------------------------------------------------------------- data


def load_batches(
    photographs: PhotographSet, batches: list[list[int]], settings: argparse.Namespace, device: torch.device
) -> DataLoader[dict[str, Any]]:
    """Return a loader of these batches that leaves the random generators alone."""
    return DataLoader(
        photographs,
        batch_sampler=batches,
        num_workers=settings.workers,
        worker_init_fn=ignore_stop_signals,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(settings.seed),
    )


# ------------------------------------------------------------------------------------------------------ model


def losses_of_batch(
    model: nn.Module, batch: dict[str, Any], slots: int, settings: argparse.Namespace, sampled: int
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss to minimise and its parts, of which `ssim` is the similarity itself."""
    gaussians = model(batch["features"], batch.get("patch_disparity"), slots)
    drawn = render(sample_gaussians(gaussians, sampled) if sampled else gaussians, settings.image_size)
    l1 = (drawn.image - batch["image"]).abs().mean()
    similarity = losses.ssim(drawn.image, batch["image"]).mean()
    total = l1 + losses.SSIM_WEIGHT * (1 - similarity)
    parts = {"l1": l1, "ssim": similarity}
    if "disparity" in batch:
        parts["depth"] = losses.depth_loss(drawn.distance, drawn.coverage, batch["disparity"])
        total = total + losses.DEPTH_WEIGHT * parts["depth"]
    return total, {name: part.item() for name, part in {"loss": total, **parts}.items()}


@torch.no_grad()
def evaluate(
    decoder: DirectPatchDecoder,
    held_out: PhotographSet,
    slots: int,
    settings: argparse.Namespace,
    ranks: Ranks,
    sheet: tuple[Path, str] | None,
) -> dict[str, float]:
    """Return mean PSNR, SSIM and mean-colour PSNR over held-out images; draw some where a sheet is named."""
    decoder.eval()
    mine = list(range(len(held_out)))[ranks.rank :: ranks.world]
    batches = [mine[start : start + settings.batch_size] for start in range(0, len(mine), settings.batch_size)]
    sums = [0.0, 0.0, 0.0, 0.0]
    shown: list[tuple[Tensor, Tensor, str, float]] = []
    for loaded in load_batches(held_out, batches, settings, ranks.device):
        batch = to_device(loaded, ranks.device)
        image = batch["image"]
        gaussians = decoder(batch["features"], batch.get("patch_disparity"), slots)
        drawn = render(gaussians, settings.image_size).image
        found = (losses.psnr(drawn, image), losses.ssim(drawn, image), losses.mean_colour_psnr(image))
        for place, values in enumerate(found):
            sums[place] += values.sum().item()
        sums[3] += len(image)
        shown += zip(image, drawn, batch["name"], found[0].tolist(), strict=True)
    decoder.train()
    totals = sum_over_ranks(sums, ranks.device)
    if sheet and ranks.leads:
        photographs, renders, names, marks = zip(*shown[:8], strict=True)
        write_contact_sheet(sheet[0], torch.stack(photographs), torch.stack(renders), names, marks, sheet[1])
    means = [total / totals[3] for total in totals]
    return {"held_out_psnr": means[0], "held_out_ssim": means[1], "mean_colour_psnr": means[2]}


def to_device(batch: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the batch with its tensors on the device."""
    return {
        name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
        for name, value in batch.items()
    }


# -------------------------------------------------------------------------------------------------- optimiser


def prepare(settings: argparse.Namespace, stop: StopRequest) -> Run:
    """Return a run before its first step."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if settings.resume not in (None, "auto") and not Path(settings.resume).is_file():
        raise SettingsError(f"--resume: there is no file {settings.resume}")
    collection = collect(
        settings.data_dir, settings.features, settings.feature_dim, settings.max_images, settings.held_out
    )
    try:
        (settings.output_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise SettingsError(f"--output_dir: {problem}") from problem
    ranks = join_ranks(settings.device)
    seed_everything(settings.seed)
    decoder = DirectPatchDecoder(settings.feature_dim, settings.gaussians_per_patch).to(ranks.device)
    model: nn.Module = decoder
    if ranks.world > 1:
        model = DistributedDataParallel(decoder, device_ids=[ranks.device] if ranks.device.type == "cuda" else None)
    seed_everything(settings.seed + 1_000_003 * (ranks.rank + 1))
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=settings.lr, weight_decay=1e-5)
    batches = epoch_batches(len(collection.training), settings.batch_size, settings.seed, 0, ranks.rank, ranks.world)
    events = EventLog(run_directory() if ranks.leads else None)
    return Run(settings, ranks, collection, events, stop, decoder, model, optimiser, len(batches))


def seed_everything(seed: int) -> None:
    """Start Python's, NumPy's and PyTorch's generators from a seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


# ------------------------------------------------------------------------------------------------------- loop


def train_epoch(run: Run, photographs: PhotographSet) -> bool:
    """Take the steps that are left of the current epoch; return whether a stop was asked for."""
    settings, ranks, progress = run.settings, run.ranks, run.progress
    batches = epoch_batches(
        len(photographs), settings.batch_size, settings.seed, progress.epoch, ranks.rank, ranks.world
    )
    all_in_use = 4 * progress.epoch >= 3 * settings.epochs
    sampled = 0 if all_in_use else settings.stochastic_k
    talk, measure = Pace(2.0), Pace(0.5)
    begun, seen_before, seconds_before = time.monotonic(), progress.images, progress.seconds
    run.model.train()
    for batch in load_batches(photographs, batches[progress.step :], settings, ranks.device):
        rate = learning_rate(run.step, run.steps, settings.lr)
        for group in run.optimiser.param_groups:
            group["lr"] = rate
        run.optimiser.zero_grad(set_to_none=True)
        loss, parts = losses_of_batch(run.model, to_device(batch, ranks.device), run.slots, settings, sampled)
        torch.autograd.backward(loss)
        norm = float(nn.utils.clip_grad_norm_(run.decoder.parameters(), 1.0))
        weight = len(batch["image"])
        images, *sums = sum_over_ranks([weight, *(part * weight for part in parts.values())], ranks.device)
        means = {name: total / images for name, total in zip(parts, sums, strict=True)}
        progress.step += 1
        progress.seconds = seconds_before + time.monotonic() - begun
        # The norm is that of the gradient averaged over all ranks, so all ranks decide alike.
        if math.isfinite(norm) and all(map(math.isfinite, sums)):
            run.optimiser.step()
            progress.lost_in_a_row = 0
            progress.images += images
            for name, total in zip(parts, sums, strict=True):
                progress.sums[name] = progress.sums.get(name, 0.0) + total
        else:
            progress.lost_in_a_row += 1
            run.say(f"warning      step {run.step}: the loss or its gradient is not finite; the batch is skipped")
            if progress.lost_in_a_row == PATIENCE:
                raise ArithmeticError(f"no finite loss in {PATIENCE} batches in a row; the last was step {run.step}")
        speed = (progress.images - seen_before) / (time.monotonic() - begun)
        last = progress.step == run.steps_per_epoch
        if measure.due() or last:
            values = {**means, "images_per_second": speed, "learning_rate": rate, "gradient_norm": norm}
            run.events.emit("metrics", epoch=progress.epoch + 1, step=run.step, values=values)
        if talk.due() or run.step == 1:
            run.say(
                f"epoch {progress.epoch + 1}/{settings.epochs}  step {progress.step}/{run.steps_per_epoch}"
                f"  loss {means['loss']:.4f}  l1 {means['l1']:.4f}  ssim {means['ssim']:.4f}"
                f"  lr {rate:.2e}  {speed:.1f} images/s"
            )
        if run.stop.agreed(ranks.device):
            return True
    return False


def finish_epoch(run: Run, held_out: PhotographSet) -> None:
    """Judge the decoder after an epoch, report, and save."""
    settings, progress, begun = run.settings, run.progress, time.monotonic()
    number, slots = progress.epoch + 1, run.slots
    due = number % settings.checkpoint_every == 0 or number == settings.epochs
    picture = settings.output_dir.absolute() / "images" / f"epoch_{number:04d}.png"
    title = f"held-out photographs and renders after epoch {number} of {settings.epochs}"
    judged = evaluate(run.decoder, held_out, slots, settings, run.ranks, (picture, title) if due else None)
    means = {name: total / progress.images for name, total in progress.sums.items()}
    seconds = progress.seconds + time.monotonic() - begun
    values = means | judged
    best = judged["held_out_psnr"] > progress.best_psnr
    run.progress = Progress(
        epoch=number,
        lost_in_a_row=progress.lost_in_a_row,
        best_psnr=max(progress.best_psnr, judged["held_out_psnr"]),
        values=values,
    )
    run.events.emit("epoch", epoch=number, step=run.step, seconds=seconds, values=values)
    run.say(
        f"epoch {number}/{settings.epochs} done  loss {means.get('loss', math.nan):.4f}"
        f"  held-out PSNR {judged['held_out_psnr']:.2f} dB (mean colour {judged['mean_colour_psnr']:.2f})"
        f"  SSIM {judged['held_out_ssim']:.4f}  {seconds:.1f} s"
    )
    if due:
        run.events.emit("image", path=picture, caption=title)
    if best:
        save(run, best=True)
    if due:
        run.say(f"             {save(run)}")


def train(settings: argparse.Namespace) -> int:
    """Train as the settings say and return the exit code."""
    stop = StopRequest()
    stop.listen()
    run = prepare(settings, stop)
    resumed_from = resume(run)
    announce(run, resumed_from)
    training = PhotographSet(run.collection.training, run.collection, settings.image_size)
    held_out = PhotographSet(run.collection.held_out, run.collection, settings.image_size)
    stopped = False
    while run.progress.epoch < settings.epochs and not stopped:
        stopped = train_epoch(run, training)
        if not stopped:
            finish_epoch(run, held_out)
            stopped = run.progress.epoch < settings.epochs and stop.agreed(run.ranks.device)
    if stopped:
        progress, phrase = run.progress, save(run)
        epoch = progress.epoch + (progress.step > 0)
        run.say(f"stopped on request after epoch {epoch} step {progress.step or run.steps_per_epoch}; {phrase}")
        run.say(f"resume with  --resume {run.saved}")
    else:
        summarise(run, time.monotonic() - BEGUN)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the trainer; return 0 when done or stopped, 1 failed, 2 for a bad setting, 130 interrupted."""
    leads = os.environ.get("RANK", "0") == "0"
    try:
        return train(read_settings(arguments))
    except (SettingsError, ArithmeticError) as problem:
        if leads:
            print(f"error: {problem}", file=sys.stderr, flush=True)
        return 2 if isinstance(problem, SettingsError) else 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        return 130
    finally:
        leave_ranks()


if __name__ == "__main__":
    sys.exit(main())
