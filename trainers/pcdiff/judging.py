"""How good the network is: its loss on held-out skulls, implants it draws, bits per dimension.

Beside every figure stands a plain baseline that has learnt nothing of the skull at hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor, nn

from trainers.common.ranks import Ranks, sum_over_ranks
from trainers.common.stopping import StopRequest, Watched
from trainers.pcdiff.completing import noise_predictor
from trainers.pcdiff.data import SkullPoints
from trainers.pcdiff.diffusion import PointDiffusion, gaussian_noise_losses, noise_losses
from trainers.pcdiff.model import PVCNN
from trainers.pcdiff.pictures import views, write_ply, write_sheet
from trainers.pcdiff.samplers import Sampling, draw

LEVELS = (0.05, 0.25, 0.5, 0.75)
"""Where in the schedule held-out samples are judged, as shares of T."""
Array = NDArray[Any]


@torch.no_grad()
def held_out_loss(
    network: nn.Module,
    diffusion: PointDiffusion,
    data: SkullPoints,
    moments: tuple[Tensor, Tensor],
    ranks: Ranks,
    stop: StopRequest,
) -> dict[str, float]:
    """Return the mean loss on all samples at fixed noise and timesteps, and the baseline's.

    The samples are dealt to the ranks; every rank must call this. Raises StoppedError on all of
    them where a stop was asked for meanwhile.
    """

    def judge_own() -> list[float]:
        sums = [0.0, 0.0, 0.0]
        for index in stop.watched(range(ranks.rank, len(data), ranks.world)):
            sample = data[0, index]
            skull, implant, noise = (
                sample[name][None].to(ranks.device) for name in ("skull", "implant", "noise")
            )
            for level in LEVELS:
                steps = torch.tensor([int(level * diffusion.steps)], device=ranks.device)
                judged = noise_losses(network, diffusion, skull, implant, steps, noise)
                plain = gaussian_noise_losses(
                    diffusion, *(part.to(ranks.device) for part in moments), implant, steps, noise
                )
                sums = [sums[0] + float(judged), sums[1] + float(plain), sums[2] + 1]
        return sums

    network.eval()
    sums = stop.shared(ranks.device, judge_own)
    network.train()
    loss, baseline, count = sum_over_ranks(sums, ranks.device)
    return {"val_loss": loss / count, "val_loss_baseline": baseline / count}


@torch.no_grad()
def draw_implants(
    network: PVCNN,
    diffusion: PointDiffusion,
    data: SkullPoints,
    sampling: Sampling,
    device: torch.device,
    seed: int,
    watched: Watched = iter,
) -> list[dict[str, Any]]:
    """Return every sample with a drawn implant (I, 3) `drawn` beside it, normalised points."""
    network.eval()
    found = []
    for index in range(len(data)):
        sample = data[0, index]
        skull = sample["skull"].to(device)
        chance = torch.Generator(device).manual_seed(seed + index)
        start = torch.randn(1, 3, data.recipe.implant_points, generator=chance, device=device)
        predict = noise_predictor(network, diffusion, skull)
        points = draw(predict, start, diffusion, sampling, chance, watched)
        clouds = {name: sample[name].T.numpy() for name in ("skull", "implant")}
        found.append({**sample, **clouds, "drawn": points[0].T.cpu().numpy()})
    network.train()
    return found


def compare_implants(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the mean chamfer distance of drawn and of mirrored implants to the true ones.

    In units of the longest side of the skull; the mirrored implant is the baseline.
    """
    drawn, mirrored = [], []
    for sample in samples:
        drawn.append(chamfer(sample["drawn"], sample["implant"]) / 6)
        guess = mirrored_implant(sample["skull"], len(sample["implant"]))
        mirrored.append(chamfer(guess, sample["implant"]) / 6)
    return {"chamfer": float(np.mean(drawn)), "chamfer_mirror": float(np.mean(mirrored))}


def chamfer(first: Array, second: Array) -> float:
    """Return the mean distance to the nearest point of the other cloud, both ways averaged."""
    to_first, _ = cKDTree(second).query(first)
    back, _ = cKDTree(first).query(second)
    return float((to_first.mean() + back.mean()) / 2)


def mirrored_implant(skull: Array, count: int) -> Array:
    """Return those `count` points (count, 3) of the mirrored skull that lie farthest from bone.

    Axis 0 runs from left to right; the plane is the middle of the skull's bounding box.
    """
    mirrored = skull.copy()
    mirrored[:, 0] = skull[:, 0].min() + skull[:, 0].max() - skull[:, 0]
    gap, _ = cKDTree(skull).query(mirrored)
    return mirrored[np.argsort(-gap, kind="stable")[:count]]


def write_implants(folder: Path, epoch: int, samples: Sequence[dict[str, Any]]) -> Path:
    """Write syn/epoch_N_{samples,ground_truth,partial}/*.ply in voxel units, and a PNG of them."""
    rows: dict[str, list[Array]] = {"drawn": [], "truth": [], "mirrored": []}
    for place, sample in enumerate(samples):
        shift, scale = sample["shift"].numpy(), sample["scale"].numpy()
        skull, truth, drawn = (sample[n] * scale + shift for n in ("skull", "implant", "drawn"))
        name = f"sample_{place}.ply"
        write_ply(folder / f"epoch_{epoch}_samples" / name, skull, drawn)
        write_ply(folder / f"epoch_{epoch}_ground_truth" / name, skull, truth)
        write_ply(folder / f"epoch_{epoch}_partial" / name, skull)
        mirrored = mirrored_implant(sample["skull"], len(sample["implant"]))
        for row, implant in zip(rows, (sample["drawn"], sample["implant"], mirrored), strict=True):
            rows[row].append(views(sample["skull"], implant))
    names = [sample["name"] for sample in samples]
    path = folder / f"epoch_{epoch}.png"
    return write_sheet(path, dict(rows), f"implants after epoch {epoch}", names)


@torch.no_grad()
def bits_per_dimension(
    network: nn.Module,
    diffusion: PointDiffusion,
    sample: dict[str, Any],
    steps: int,
    device: torch.device,
    watched: Watched = iter,
) -> dict[str, float]:
    """Return the variational bound in bits per coordinate of one implant, and what it consists of.

    Ho et al. 2020, eq. 5 with the posterior's variance; the sum over T terms is estimated by
    `steps` of them, evenly chosen. For step 0 the density of a normal distribution is taken.
    """
    network.eval()
    skull, implant, noise = (sample[n][None].to(device) for n in ("skull", "implant", "noise"))
    kept, betas = diffusion.kept, diffusion.betas
    chosen = np.unique(np.linspace(1, diffusion.steps - 1, steps).round().astype(int))
    terms, errors = [], []
    for step in watched((0, *chosen.tolist())):
        at = torch.tensor([step], device=device)
        error = float(noise_losses(network, diffusion, skull, implant, at, noise))
        errors.append(error)
        if step == 0:
            # The variance is the posterior's of step 1.
            variance = betas[1] * (1 - kept[0]) / (1 - kept[1])
            off = betas[0] / (1 - betas[0]) * error
            first = 0.5 * (math.log(2 * math.pi * variance) + off / variance)
        else:
            posterior = betas[step] * (1 - kept[step - 1]) / (1 - kept[step])
            weight = betas[step] ** 2 / (2 * posterior * (1 - betas[step]) * (1 - kept[step]))
            terms.append(weight * error)
    network.train()
    spread, mean = 1 - kept[-1], float(kept[-1] * implant.square().mean())
    prior = 0.5 * (spread + mean - 1 - math.log(spread)) / math.log(2)
    summed = (first + float(np.mean(terms)) * (diffusion.steps - 1)) / math.log(2)
    return {
        "total_bpd": summed + prior,
        "terms_bpd": summed,
        "prior_bpd": prior,
        "mse": float(np.mean(errors)),
        "x_min": float(implant.min()),
        "x_max": float(implant.max()),
    }


def verdict(values: dict[str, float]) -> str:
    """Return a line on the held-out loss."""
    loss, plain = values["val_loss"], values["val_loss_baseline"]
    verdict = "better" if loss < plain else "WORSE THAN ITS BASELINE"
    return (
        f"Validation loss: {loss:.6f} (baseline {plain:.6f}, which knows only where implants lie on"
        f" average: the network is {verdict})"
    )


def implant_verdict(values: dict[str, float]) -> str:
    """Return a line on drawn implants."""
    mine, mirror = values["chamfer"], values["chamfer_mirror"]
    verdict = "better" if mine < mirror else "WORSE THAN ITS BASELINE"
    return (
        f"Chamfer distance to the true implants: {mine:.4f} of the skull's length (mirrored skull"
        f" {mirror:.4f}: the network is {verdict})"
    )


def generation_line(epoch: int, epochs: int, samples: Sequence[dict[str, Any]]) -> str:
    """Return range, mean and deviation of drawn points."""
    points = np.concatenate([sample["drawn"] for sample in samples])
    return (
        f"      [{epoch:>3d}/{epochs:>3d}]  eval_gen_range: [{points.min():>10.4f},"
        f" {points.max():>10.4f}]     eval_gen_stats: [mean={points.mean():>10.4f},"
        f" std={points.std():>10.4f}]"
    )


def diagnosis_line(epoch: int, epochs: int, found: dict[str, float]) -> str:
    """Return the bits per dimension of one implant."""
    return (
        f"      [{epoch:>3d}/{epochs:>3d}]    x_range: [{found['x_min']:>10.4f},"
        f" {found['x_max']:>10.4f}],   total_bpd_b: {found['total_bpd']:>10.4f},   "
        f" terms_bpd: {found['terms_bpd']:>10.4f},  prior_bpd_b: {found['prior_bpd']:>10.4f}   "
        f" mse_bt: {found['mse']:>10.4f}"
    )
