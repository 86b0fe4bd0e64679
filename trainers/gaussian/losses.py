"""How far a rendering is from its image: terms of the loss, weights and shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.gaussian.render import Rendering

SSIM_WEIGHT = 0.5
DEPTH_WEIGHT = 0.1
"""The Fresnel project's weights."""


@dataclass(frozen=True)
class LossSettings:
    """Weights of the terms beside L1, and what the frequency term calls high."""

    ssim: float = SSIM_WEIGHT
    depth: float = DEPTH_WEIGHT
    lpips: float = 0.0
    frequency: float = 0.0
    high_frequency: float = 2.0
    cutoff: float = 0.1


def total_loss(
    drawn: Rendering,
    image: Tensor,
    disparity: Tensor | None,
    settings: LossSettings,
    lpips: Callable[[Tensor, Tensor], Tensor] | None = None,
    weights: Tensor | None = None,
    seen: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss to minimise and its parts for images (B,3,S,S).

    Disparity is (B,1,S,S) or None. Parts are bare: `l1`, `ssim` (the similarity itself), `depth`,
    `lpips`, `frequency`; `share_NAME` is the part's share of the loss. `weights` (B,1,S,S) weigh
    pixels of L1; `seen` (B,1,S,S) leaves out of L1, the only term that can, pixels nothing is known
    about, and then the other terms are left out.
    """
    difference = (drawn.image - image).abs()
    if seen is not None:
        known = (seen.sum() * image.shape[1]).clamp(min=1)
        bare = {"l1": (difference * seen).sum() / known}
        return bare["l1"], bare
    bare = {"l1": (difference if weights is None else difference * weights).mean()}
    bare["ssim"] = ssim(drawn.image, image).mean()
    terms = {"l1": bare["l1"], "ssim": settings.ssim * (1 - bare["ssim"])}
    if disparity is not None and settings.depth > 0:
        bare["depth"] = depth_loss(drawn.distance, drawn.coverage, disparity)
        terms["depth"] = settings.depth * bare["depth"]
    if lpips is not None and settings.lpips > 0:
        bare["lpips"] = lpips(drawn.image, image).mean()
        terms["lpips"] = settings.lpips * bare["lpips"]
    if settings.frequency > 0:
        bare["frequency"] = frequency_loss(
            drawn.image, image, settings.cutoff, settings.high_frequency
        )
        terms["frequency"] = settings.frequency * bare["frequency"]
    total = torch.stack(list(terms.values())).sum()
    return total, bare | shares(terms, total)


def shares(terms: Mapping[str, Tensor], total: Tensor) -> dict[str, Tensor]:
    """Return `share_NAME` of each weighted term."""
    return {f"share_{name}": term.detach() / total.detach() for name, term in terms.items()}


def ssim(first: Tensor, second: Tensor, window: int = 11, sigma: float = 1.5) -> Tensor:
    """Return the structural similarity (B,) of images (B,3,H,W) in [0,1], 1 for equal ones.

    Wang et al. 2004: a Gaussian window, K1 = 0.01, K2 = 0.03, the mean over all windows inside the
    image.
    """
    images, channels = first.shape[:2]
    moments = torch.cat((first, second, first * first, second * second, first * second))
    down, across = (blur_matrix(first, side, window, sigma) for side in first.shape[-2:])
    blurred = down @ (moments @ across.t())
    mean1, mean2, square1, square2, product = blurred.view(5, images, channels, *blurred.shape[-2:])
    steady1, steady2 = 0.01**2, 0.03**2
    structure = (2 * (product - mean1 * mean2) + steady2) / (
        square1 - mean1**2 + square2 - mean2**2 + steady2
    )
    brightness = (2 * mean1 * mean2 + steady1) / (mean1**2 + mean2**2 + steady1)
    similarity: Tensor = structure * brightness
    return similarity.mean(dim=(1, 2, 3))


def blur_matrix(like: Tensor, side: int, window: int, sigma: float) -> Tensor:
    """Return the matrix (side-window+1,side) that weighs every window's pixels by a Gaussian.

    On a CPU products with it, and their gradients, take a fraction of a convolution's time.
    """
    offsets = torch.arange(window, dtype=like.dtype, device=like.device) - window // 2
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    rows = torch.arange(side - window + 1, device=like.device).unsqueeze(1)
    places = torch.arange(side, device=like.device).unsqueeze(0) - rows
    inside = (places >= 0) & (places < window)
    return torch.where(inside, (kernel / kernel.sum())[places.clamp(0, window - 1)], 0)


def psnr(first: Tensor, second: Tensor) -> Tensor:
    """Return the peak signal-to-noise ratio (B,) in dB of images in [0,1], at most 100."""
    return -10 * (first - second).square().mean(dim=(1, 2, 3)).clamp(min=1e-10).log10()


def depth_loss(distance: Tensor, coverage: Tensor, disparity: Tensor) -> Tensor:
    """Return the mean difference of rendered distances (B,S,S) and disparities (B,1,S,S).

    Disparity is 1 where it is nearest. Both are brought to mean 0 and deviation 1 in each image,
    since a disparity has no scale.
    """
    rendered = standardise((distance / coverage.clamp(min=1e-3)).flatten(1))
    return (rendered - standardise(1 - disparity.flatten(1))).abs().mean()


def standardise(values: Tensor) -> Tensor:
    """Return rows (B,N) with mean 0 and standard deviation 1, or 0 where a row is flat."""
    centred = values - values.mean(1, keepdim=True)
    # The root of a flat row's variance has no finite slope, so the floor comes before it.
    return centred / centred.square().mean(1, keepdim=True).clamp(min=1e-8).sqrt()


def frequency_loss(first: Tensor, second: Tensor, cutoff: float, high_weight: float) -> Tensor:
    """Return the mean squared difference of amplitudes, frequencies above `cutoff` weighed more.

    `cutoff` in cycles per pixel. The transform is orthonormal (Parseval: as large as the images'
    own squared difference), where the Fresnel project's is not and outweighs all other terms.
    """
    spectra = [torch.fft.fft2(image, norm="ortho").abs() for image in (first, second)]
    down, across = (torch.fft.fftfreq(size, device=first.device) for size in first.shape[-2:])
    high = (down.view(-1, 1).square() + across.square()).sqrt() >= cutoff
    weight = torch.where(high, high_weight, 1.0)
    return ((spectra[0] - spectra[1]).square() * weight).mean()
