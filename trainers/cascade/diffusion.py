"""Noise schedule, targets and the DDIM sampler of the cascade.

The schedule is diffusers' cosine one (Nichol & Dhariwal 2021), rescaled so that its last step is
pure noise (zero terminal SNR, Lin et al. 2024, algorithm 1). There eps says nothing about x0, so it
goes with v-prediction (Salimans & Ho 2022): v = sqrt(abar) eps - sqrt(1 - abar) x0. Without
v-prediction the schedule is not rescaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from trainers.common.stopping import Watched

Denoiser = Callable[[Tensor, Tensor], Tensor]
"""Maps x_t (B, 1, D, D, D) and t (B,) to the model's output."""


class VolumeDiffusion:
    """Adds noise, makes targets, reads x0 out of them, and samples, over a number of timesteps."""

    def __init__(self, timesteps: int, v_prediction: bool = True) -> None:
        # Slow to import: a trainer's first words come before it.
        from diffusers import DDIMScheduler

        self.timesteps, self.v_prediction = timesteps, v_prediction
        scheduler = DDIMScheduler(
            num_train_timesteps=timesteps,
            beta_schedule="squaredcos_cap_v2",
            prediction_type="v_prediction" if v_prediction else "epsilon",
            rescale_betas_zero_snr=v_prediction,
        )
        self.alpha_bar = scheduler.alphas_cumprod.double()
        kept = torch.cat((self.alpha_bar, torch.ones(1, dtype=torch.float64)))
        self._scales = {torch.device("cpu"): torch.stack((kept.sqrt(), (1 - kept).sqrt())).float()}

    def scales(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return sqrt(abar) and sqrt(1 - abar) at t (B,), shaped (B, 1, 1, 1, 1).

        At t = -1 there is no noise at all.
        """
        if t.device not in self._scales:
            # Kept there: looked up on the CPU, a GPU would be waited for several times a step.
            self._scales[t.device] = self._scales[torch.device("cpu")].to(t.device)
        signal, spread = self._scales[t.device][:, t].view(2, -1, 1, 1, 1, 1)
        return signal, spread

    def add_noise(self, x0: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return x_t."""
        signal, spread = self.scales(t)
        return signal * x0 + spread * noise

    def target(self, x0: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return what the model should say at t: v, or eps without v-prediction."""
        if not self.v_prediction:
            return noise
        signal, spread = self.scales(t)
        return signal * noise - spread * x0

    def split(self, output: Tensor, x_t: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the x0 and eps that a model's output at x_t means."""
        signal, spread = self.scales(t)
        if self.v_prediction:
            return signal * x_t - spread * output, signal * output + spread * x_t
        return (x_t - spread * output) / signal, output

    def steps(self, count: int) -> list[tuple[int, int]]:
        """Return a sampler's timesteps with count steps, each with the one after it, at last -1.

        They trail, that is, they begin at the last timestep, where a schedule with zero terminal
        SNR has its noise.
        """
        places = (
            np.round(np.linspace(self.timesteps, 0, min(count, self.timesteps) + 1)).astype(int) - 1
        )
        return list(zip(places[:-1].tolist(), places[1:].tolist(), strict=True))

    @torch.no_grad()
    def sample(
        self,
        denoiser: Denoiser,
        noise: Tensor,
        count: int,
        eta: float = 0.0,
        fresh: Iterator[Tensor] | None = None,
        limits: tuple[float | Tensor, float | Tensor] | None = (-1.0, 1.0),
        watched: Watched = iter,
    ) -> Tensor:
        """Return x0 from noise by DDIM (Song et al. 2021) in count steps; eta 0 is deterministic, 1
        is DDPM.

        fresh yields the noise of the steps where eta > 0. At every step x0 is clipped to the
        limits, unless there are none, and eps taken from the clipped one.
        """
        x = noise
        for now, later in watched(self.steps(count)):
            t = torch.full((len(x),), now, device=x.device)
            x0, eps = self.split(denoiser(x, t), x, t)
            signal, spread = self.scales(t)
            if limits is not None:
                x0 = x0.clamp(*limits)
                eps = (x - signal * x0) / spread
            next_signal, next_spread = self.scales(torch.full_like(t, later))
            ratio = (signal / next_signal) ** 2
            added = eta * next_spread / spread * (1 - ratio).clamp(min=0).sqrt()
            x = next_signal * x0 + (next_spread**2 - added**2).clamp(min=0).sqrt() * eps
            if eta > 0 and fresh is not None and later >= 0:
                x = x + added * next(fresh)
        return x


def seeded_noise(shape: Sequence[int], device: torch.device, *seed: int) -> Tensor:
    """Return normal noise that follows from the seed alone, whichever rank or batch draws it."""
    return torch.randn(tuple(shape), generator=seeded_generator(device, *seed), device=device)


def seeded_generator(device: torch.device, *seed: int) -> torch.Generator:
    """Return a generator for a sequence of whole numbers from 0."""
    mixed = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    return torch.Generator(device).manual_seed(int(mixed[0]) << 31 ^ int(mixed[1]))
