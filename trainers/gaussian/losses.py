"""How far a rendering is from its image."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SSIM_WEIGHT = 0.5
DEPTH_WEIGHT = 0.1
"""The Fresnel project's weights; its LPIPS term is left out because it needs weights from the net."""


def ssim(first: Tensor, second: Tensor, window: int = 11, sigma: float = 1.5) -> Tensor:
    """Return the structural similarity (B,) of images (B,3,H,W) in [0,1]: 1 for equal ones, higher is better.

    Wang et al. 2004: a Gaussian window, K1 = 0.01, K2 = 0.03, the mean over all windows inside the image.
    """
    offsets = torch.arange(window, dtype=first.dtype, device=first.device) - window // 2
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel = kernel / kernel.sum()
    images, channels = first.shape[:2]
    moments = torch.cat((first, second, first * first, second * second, first * second))
    flat = moments.flatten(0, 1).unsqueeze(1)
    blurred = F.conv2d(F.conv2d(flat, kernel.view(1, 1, 1, -1)), kernel.view(1, 1, -1, 1))
    mean1, mean2, square1, square2, product = blurred.view(5, images, channels, *blurred.shape[-2:])
    steady1, steady2 = 0.01**2, 0.03**2
    structure = (2 * (product - mean1 * mean2) + steady2) / (square1 - mean1**2 + square2 - mean2**2 + steady2)
    brightness = (2 * mean1 * mean2 + steady1) / (mean1**2 + mean2**2 + steady1)
    similarity: Tensor = structure * brightness
    return similarity.mean(dim=(1, 2, 3))


def psnr(first: Tensor, second: Tensor) -> Tensor:
    """Return the peak signal-to-noise ratio (B,) in dB of images (B,3,H,W) in [0,1]; at most 100."""
    return -10 * (first - second).square().mean(dim=(1, 2, 3)).clamp(min=1e-10).log10()


def mean_colour_psnr(image: Tensor) -> Tensor:
    """Return the PSNR (B,) in dB that each image's own mean colour reaches: what any model has to beat."""
    return psnr(image, image.mean(dim=(2, 3), keepdim=True).expand_as(image))


def depth_loss(distance: Tensor, coverage: Tensor, disparity: Tensor) -> Tensor:
    """Return the mean difference of rendered distances (B,S,S) and disparities (B,1,S,S), 1 nearest.

    Both are brought to mean 0 and deviation 1 in each image, since a disparity has no scale.
    """
    rendered = standardise((distance / coverage.clamp(min=1e-3)).flatten(1))
    return (rendered - standardise(1 - disparity.flatten(1))).abs().mean()


def standardise(values: Tensor) -> Tensor:
    """Return rows (B,N) with mean 0 and standard deviation 1, or 0 where a row is flat."""
    centred = values - values.mean(1, keepdim=True)
    return centred / centred.square().mean(1, keepdim=True).sqrt().clamp(min=1e-4)
