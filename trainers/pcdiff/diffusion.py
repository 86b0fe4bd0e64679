"""Noise schedules and the training loss of a diffusion that acts on the implant's points alone.

Ho et al. 2020 (arXiv 2006.11239); cosine schedule, Nichol and Dhariwal 2021 (arXiv 2102.09672);
min-SNR weights, Hang et al. 2023 (arXiv 2303.09556); v, Salimans and Ho 2022 (arXiv 2202.00512).
Tables are derived in double precision.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SCHEDULES = ("linear", "cosine", "warm0.1", "warm0.2", "warm0.5")
LOSSES = ("mse", "mse_minsnr")
MEANINGS = ("eps", "v")
"""What a network says: the noise, or v = sqrt(kept) noise - sqrt(1 - kept) points."""
NOISE_SETTINGS = ("schedule_type", "beta_start", "beta_end", "time_num", "model_mean_type")
"""The settings that decide a diffusion; a checkpoint holds them, and drawing needs the same."""
Network = Callable[[Tensor, Tensor], Tensor]


def noise_settings(settings: argparse.Namespace) -> dict[str, Any]:
    """Return what decides the diffusion, for a checkpoint."""
    return {name: getattr(settings, name) for name in NOISE_SETTINGS}


def make_betas(kind: str, first: float, last: float, steps: int) -> NDArray[np.float64]:
    """Return the variances (T,) of a schedule; `warmX` rises over that share and then stays.

    Raises ValueError for an unknown kind.
    """
    if kind == "linear":
        return np.linspace(first, last, steps)
    if kind == "cosine":
        times = np.arange(steps + 1) / steps
        kept = np.cos((times + 0.008) / 1.008 * math.pi / 2) ** 2
        return np.clip(1 - kept[1:] / kept[:-1], 1e-6, 0.999)
    if kind not in SCHEDULES:
        raise ValueError(f"schedule {kind!r} is none of {', '.join(SCHEDULES)}")
    betas = np.full(steps, last)
    rise = int(steps * float(kind.removeprefix("warm")))
    betas[:rise] = np.linspace(first, last, rise)
    return betas


@dataclass(frozen=True)
class PointDiffusion:
    """A schedule's variances (T,) in double precision, what the network says, and what follows."""

    betas: NDArray[np.float64]
    says: str = "eps"
    _tables: dict[torch.device, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def described(cls, about: Mapping[str, Any]) -> PointDiffusion:
        """Return the diffusion of settings as `NOISE_SETTINGS` names them."""
        kind, first, last, steps, says = (about[name] for name in NOISE_SETTINGS)
        return cls(make_betas(kind, first, last, steps), says)

    @property
    def steps(self) -> int:
        """T."""
        return len(self.betas)

    @cached_property
    def kept(self) -> NDArray[np.float64]:
        """How much of the signal's power is left after each step, (T,)."""
        return np.cumprod(1 - self.betas)

    def kept_at(self, timesteps: Tensor) -> Tensor:
        """Return the signal's power that is left at timesteps (B,), on their device."""
        device = timesteps.device
        if device not in self._tables:
            self._tables[device] = torch.from_numpy(self.kept).to(device)
        return self._tables[device][timesteps]

    def factors(self, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """Return the factors (B, 1, 1) of signal and noise at timesteps (B,)."""
        kept = self.kept_at(timesteps)[:, None, None]
        return kept.sqrt().float(), (1 - kept).sqrt().float()

    def noised(self, clean: Tensor, timesteps: Tensor, noise: Tensor) -> Tensor:
        """Return clean points (B, 3, N) with noise of their timesteps (B,)."""
        signal, spread = self.factors(timesteps)
        return signal * clean + spread * noise

    def noise(self, predicted: Tensor, noised: Tensor, timesteps: Tensor) -> Tensor:
        """Return the noise that follows from what the network says of points (B, 3, N)."""
        if self.says == "eps":
            return predicted
        signal, spread = self.factors(timesteps)
        return signal * predicted + spread * noised

    def weights(self, timesteps: Tensor, loss: str, gamma: float) -> Tensor:
        """Return the weight (B,) of the noise's squared error.

        For `mse` it makes it the error of what the network says: 1, or 1 / kept for v. For
        `mse_minsnr` it is min(SNR, gamma) / SNR, whichever of them that is.
        """
        kept = self.kept_at(timesteps)
        ratio = kept / (1 - kept)
        if loss == "mse":
            return (1 / kept if self.says == "v" else torch.ones_like(kept)).float()
        return (ratio.clamp(max=gamma) / ratio).float()


def implant_noise(
    network: Network, diffusion: PointDiffusion, skull: Tensor, implant: Tensor, timesteps: Tensor
) -> Tensor:
    """Return the noise predicted in an implant (B, 3, I) beside a clean skull (B, 3, S)."""
    predicted = network(torch.cat([skull, implant], dim=2), timesteps)[:, :, skull.shape[2] :]
    return diffusion.noise(predicted.float(), implant, timesteps)


def noise_losses(
    network: Network,
    diffusion: PointDiffusion,
    skull: Tensor,
    implant: Tensor,
    timesteps: Tensor,
    noise: Tensor,
) -> Tensor:
    """Return the mean squared error (B,) of the predicted noise on the implant's points."""
    noised = diffusion.noised(implant, timesteps, noise)
    predicted = implant_noise(network, diffusion, skull, noised, timesteps)
    return (predicted - noise).square().mean((1, 2))


def gaussian_noise_losses(
    diffusion: PointDiffusion,
    mean: Tensor,
    deviation: Tensor,
    implant: Tensor,
    timesteps: Tensor,
    noise: Tensor,
) -> Tensor:
    """Return the error (B,) of the best guess that knows only where implants lie on average.

    It takes every point for an independent draw from a normal distribution with this mean and
    deviation (3,) and sees no skull: the baseline that a network has to beat.
    """
    signal, spread = diffusion.factors(timesteps)
    noised = signal * implant + spread * noise
    centre, width = mean[None, :, None], deviation[None, :, None]
    power = (signal * width) ** 2 + spread**2
    guess = spread * (noised - signal * centre) / power
    return (guess - noise).square().mean((1, 2))
