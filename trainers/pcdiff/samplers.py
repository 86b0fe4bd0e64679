"""From noise to points: DDPM, DDIM and DPM-Solver++, for any function that predicts noise.

DDPM: Ho et al. 2020 (arXiv 2006.11239). DDIM: Song et al. 2021 (arXiv 2010.02502); its second
order is the two-step Adams-Bashforth rule in sigma (Liu et al. 2022, arXiv 2202.09778). DPM-
Solver++: Lu et al. 2022 (arXiv 2211.01095), as implemented by diffusers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainers.common.errors import NotFiniteError, SettingsError
from trainers.pcdiff.diffusion import PointDiffusion

METHODS = ("ddpm", "ddim", "dpm_solver")
Predict = Callable[[Tensor, Tensor], Tensor]
Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Sampling:
    """How points are drawn: method, steps, DDIM's order (1 or 2), DDPM's larger variance."""

    method: str = "ddpm"
    steps: int = 1000
    order: int = 2
    large_variance: bool = False


def draw(
    predict: Predict,
    start: Tensor,
    diffusion: PointDiffusion,
    sampling: Sampling,
    generator: torch.Generator | None = None,
    progress: Progress = iter,
) -> Tensor:
    """Return points (B, 3, N) drawn from noise `start`; predict(points, timesteps) is the noise.

    Points are never clipped: the data reach ±3. Raises NotFiniteError where they become NaN.
    """
    if sampling.method == "dpm_solver":
        points = _dpm_solver(predict, start, diffusion, sampling.steps, progress)
    elif sampling.method == "ddim":
        points = _ddim(predict, start, diffusion, sampling, progress)
    else:
        points = _ddpm(predict, start, diffusion, sampling, generator, progress)
    if not bool(points.isfinite().all()):
        raise NotFiniteError(
            f"{sampling.method} left the finite numbers after its last step: the network has"
            " diverged; take an earlier checkpoint"
        )
    return points


def kept_timesteps(diffusion: PointDiffusion, steps: int) -> list[int]:
    """Return at most `steps` timesteps, evenly from the last to 0."""
    if steps == 1:
        return [diffusion.steps - 1]
    even = np.linspace(0, diffusion.steps - 1, min(steps, diffusion.steps))
    return [int(step) for step in np.unique(np.round(even))[::-1]]


def _signal(diffusion: PointDiffusion, steps: int) -> list[tuple[int, float, float]]:
    """Return (timestep, its share of signal, that of the next kept step) for every step."""
    chosen, kept = kept_timesteps(diffusion, steps), diffusion.kept
    following = [float(kept[step]) for step in chosen[1:]] + [1.0]
    return [(step, float(kept[step]), after) for step, after in zip(chosen, following, strict=True)]


def _at(points: Tensor, step: int) -> Tensor:
    return torch.full((len(points),), step, dtype=torch.int64, device=points.device)


def _ddpm(
    predict: Predict,
    points: Tensor,
    diffusion: PointDiffusion,
    sampling: Sampling,
    generator: torch.Generator | None,
    progress: Progress,
) -> Tensor:
    """Ancestral sampling; with fewer steps the variances are those between the kept ones."""
    for step, kept, after in progress(_signal(diffusion, sampling.steps)):
        noise = predict(points, _at(points, step))
        alpha = kept / after
        beta = 1 - alpha
        points = (points - beta / (1 - kept) ** 0.5 * noise) / alpha**0.5
        if after < 1:
            variance = beta if sampling.large_variance else beta * (1 - after) / (1 - kept)
            fresh = torch.randn(
                points.shape, generator=generator, dtype=points.dtype, device=points.device
            )
            points = points + variance**0.5 * fresh
    return points


def _ddim(
    predict: Predict,
    points: Tensor,
    diffusion: PointDiffusion,
    sampling: Sampling,
    progress: Progress,
) -> Tensor:
    """The probability flow in points / sqrt(kept) against sigma = sqrt(1 / kept - 1)."""
    before: tuple[Tensor, float] | None = None
    for step, kept, after in progress(_signal(diffusion, sampling.steps)):
        noise = predict(points, _at(points, step))
        stride = (1 / after - 1) ** 0.5 - (1 / kept - 1) ** 0.5
        slope = noise
        if before is not None and sampling.order == 2:
            slope = noise + (noise - before[0]) * (stride / (2 * before[1]))
        points = after**0.5 * (points / kept**0.5 + stride * slope)
        before = noise, stride
    return points


def _dpm_solver(
    predict: Predict, points: Tensor, diffusion: PointDiffusion, steps: int, progress: Progress
) -> Tensor:
    """The multistep solver of order 3 in data prediction, ending without noise."""
    try:
        from diffusers import DPMSolverMultistepScheduler
    except ImportError as problem:
        raise SettingsError(
            "--sampling_method dpm_solver needs diffusers: pip install diffusers, or use ddim"
        ) from problem
    solver = DPMSolverMultistepScheduler(
        num_train_timesteps=diffusion.steps,
        trained_betas=diffusion.betas,
        solver_order=3,
        prediction_type="epsilon",
        algorithm_type="dpmsolver++",
        final_sigmas_type="zero",
        lower_order_final=True,
        # Evenly in log signal to noise; with even timesteps the last jump is far too long.
        use_lu_lambdas=True,
    )
    solver.set_timesteps(min(steps, diffusion.steps), device=points.device)
    for step in progress(list(solver.timesteps)):
        noise = predict(points, _at(points, int(step)))
        points = solver.step(noise, step, points).prev_sample
    return points
