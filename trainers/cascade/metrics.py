"""How near a volume comes to the CT, in the window [-1024, 1024] HU, with intervals over patients.

PSNR takes the window's 2048 HU as its range; SSIM (Wang et al. 2004) is three-dimensional, with a
Gaussian window of sigma 1.5 cut at 11 voxels, reflected at the border, on the same range:
torchmetrics' figure, which a test compares. MAE is in HU. Means are over patients, never over
voxels of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trainers.cascade.projector import HU_HIGH, HU_LOW, hu_from_unit
from trainers.common.arithmetic import exact_products

RANGE = HU_HIGH - HU_LOW
NAMES = ("psnr", "ssim", "mae_hu")
RESAMPLES = 2000


def volume_metrics(volume: Tensor, truth: Tensor) -> dict[str, float]:
    """Return psnr in dB, ssim and mae_hu of a volume (1, D, D, D) in [-1, 1] against its CT.

    Equal volumes have 100 dB.
    """
    found, wanted = (hu_from_unit(part.float().clamp(-1, 1)) for part in (volume, truth))
    error = float((found - wanted).square().mean())
    psnr = min(100.0, 10 * math.log10(RANGE**2 / error)) if error > 0 else 100.0
    return {
        "psnr": psnr,
        "ssim": ssim(found, wanted),
        "mae_hu": float((found - wanted).abs().mean()),
    }


def ssim(first: Tensor, second: Tensor, data_range: float = RANGE, sigma: float = 1.5) -> float:
    """Return the mean structural similarity of two volumes (1, D, H, W) with sides from 2."""
    radius = min(5, min(first.shape[1:]) - 1)
    side = 2 * radius + 1
    offsets = torch.arange(side, dtype=torch.float64) - radius
    window = torch.exp(-(offsets**2) / (2 * sigma**2))
    window = (window / window.sum()).to(first)
    stacked = torch.stack((first, second, first**2, second**2, first * second))
    stacked = F.pad(stacked, (radius,) * 6, mode="reflect")
    with exact_products():
        for shape in ((side, 1, 1), (1, side, 1), (1, 1, side)):
            stacked = F.conv3d(stacked, window.view(1, 1, *shape))
    mean1, mean2, square1, square2, product = stacked
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    variance1, variance2, both = square1 - mean1**2, square2 - mean2**2, product - mean1 * mean2
    top = (2 * mean1 * mean2 + c1) * (2 * both + c2)
    return float((top / ((mean1**2 + mean2**2 + c1) * (variance1 + variance2 + c2))).mean())


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Return the mean over patients and a 95 % bootstrap interval; not a number without any.

    One patient has no interval: its bounds are not numbers.
    """
    drawn = np.asarray(values, dtype=np.float64)
    if len(drawn) < 2:
        return (float(drawn.mean()) if len(drawn) else math.nan), math.nan, math.nan
    places = np.random.default_rng(seed).integers(0, len(drawn), (RESAMPLES, len(drawn)))
    low, high = np.percentile(drawn[places].mean(1), [2.5, 97.5])
    return float(drawn.mean()), float(low), float(high)


def paired_lead(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference patient by patient, and its 95 % bootstrap interval."""
    return interval([a - b for a, b in zip(ours, theirs, strict=True)])


class VolumeStatistics:
    """Sums over training patients behind two baselines: mean volume and back-projection."""

    def __init__(self, size: int) -> None:
        self.mean = torch.zeros(1, size, size, size, dtype=torch.float64)
        self.sums = torch.zeros(6, dtype=torch.float64)
        self.count = 0

    def add(self, volume: Tensor, spread: Tensor) -> None:
        """Take in a volume and its back-projected views, both (1, D, D, D)."""
        x, b = volume.double(), spread.double()
        self.mean += x
        self.count += 1
        self.sums += torch.stack(
            (torch.tensor(float(x.numel())), *(part.sum() for part in (b, x, b * b, b * x, x * x)))
        )

    def packed(self) -> Tensor:
        """Return everything as one vector, to be added over ranks."""
        return torch.cat(
            (self.mean.flatten(), self.sums, torch.tensor([float(self.count)], dtype=torch.float64))
        )

    def unpack(self, packed: Tensor) -> None:
        """Take over a vector that packed returned, or the sum of several."""
        self.mean = packed[:-7].reshape(self.mean.shape)
        self.sums, self.count = packed[-7:-1], int(packed[-1])

    def mean_volume(self) -> Tensor:
        """Return the mean training volume (1, D, D, D)."""
        return (self.mean / max(1, self.count)).float()

    def deviation(self) -> float:
        """Return the deviation of the training volumes from their mean volume, over all voxels."""
        squares = float(self.sums[5]) - float((self.mean**2).sum()) / max(1, self.count)
        return math.sqrt(max(0.0, squares) / max(1.0, float(self.sums[0])))

    def line(self) -> tuple[float, float]:
        """Return slope and offset of the least-squares line from back-projections to volumes."""
        n, b, x, bb, bx, _ = self.sums.tolist()
        variance = bb - b * b / n
        slope = (bx - b * x / n) / variance if variance > 0 else 0.0
        return slope, (x - slope * b) / n
