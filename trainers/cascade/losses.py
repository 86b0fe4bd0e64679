"""The losses of a stage: the error of the prediction, and that of the X-rays it would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.cascade.diffusion import VolumeDiffusion
from trainers.cascade.geometry import PARALLEL, Geometry, line_integrals

LIMIT = 1.5
"""An estimate of x0 is clipped to this before it is projected: noise would give line integrals
without meaning.
"""


@dataclass(frozen=True)
class StageLoss:
    """The loss to minimise and its parts, for each item (B,); physics is None where it is off."""

    total: Tensor
    diffusion: Tensor
    physics: Tensor | None


def physics_error(
    volume: Tensor,
    integrals: Tensor,
    views: Sequence[str],
    spacing: Tensor,
    geometry: Geometry = PARALLEL,
) -> Tensor:
    """Return how wrong each volume's line integrals are, as a share of the mean integral (B,).

    Volumes (B, 1, D, D, D) are in [-1, 1], integrals (B, V, D, D) are ∫ mu dl, the negative
    logarithm of the transmission after Beer and Lambert, spacing (B, 3) is in mm. 1.0 is an empty
    volume, 0.1 means ten per cent wrong.
    """
    predicted = line_integrals(volume.float(), views, spacing, geometry)
    error = (predicted - integrals).abs().mean((1, 2, 3))
    return error / integrals.abs().mean((1, 2, 3)).clamp(min=1e-6)


def stage_loss(
    diffusion: VolumeDiffusion,
    output: Tensor,
    x0: Tensor,
    noise: Tensor,
    t: Tensor,
    physics: tuple[Tensor, Sequence[str], Tensor, Geometry] | None,
    weight: float,
    volume_of: Callable[[Tensor], Tensor] = lambda x0: x0,
) -> StageLoss:
    """Return the losses of a model's output at t.

    `volume_of` makes volumes in [-1, 1] of what x0 holds. `physics` holds integrals, views,
    spacing and geometry, or is None. The physics term counts by abar(t), the share of the signal
    in x_t: where x_t is noise, x0 is a guess at the mean of all patients, whose X-rays need not be
    this patient's.
    """
    output = output.float()
    error = (output - diffusion.target(x0, noise, t)).square().mean((1, 2, 3, 4))
    if physics is None:
        return StageLoss(error, error, None)
    x_t = diffusion.add_noise(x0, noise, t)
    estimate = volume_of(diffusion.split(output, x_t, t)[0]).clamp(-LIMIT, LIMIT)
    share = diffusion.scales(t)[0].square().view(-1)
    term = share * physics_error(estimate, *physics)
    return StageLoss(error + weight * term, error, term)


def spoil(volume: Tensor, level: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Return volumes (B, 1, d, d, d) with noise of deviation level (B,), as coarse as errors are.

    Training on true volumes spoilt like this, with the level told, is conditioning augmentation (Ho
    et al. 2022, cascaded diffusion models): the stage learns how far to trust what it is given.
    Half of the noise is drawn at half the resolution, because a stage's own errors hang together
    over more than one voxel.
    """
    size = volume.shape[-1]
    fine = torch.stack(
        [torch.randn(volume.shape[1:], generator=g, device=volume.device) for g in generators]
    )
    half = (volume.shape[1], *(max(1, size // 2),) * 3)
    coarse = torch.stack([torch.randn(half, generator=g, device=volume.device) for g in generators])
    coarse = torch.nn.functional.interpolate(coarse, size=(size, size, size), mode="nearest")
    return volume + level.view(-1, 1, 1, 1, 1) * (fine + coarse) * 0.5**0.5
