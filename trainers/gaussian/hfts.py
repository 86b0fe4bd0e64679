"""The fast training schedule (HFTS): cheap epochs first, then a last phase at full size.

Four savings, each usable alone: random windows of the patch grid instead of whole images
(`window`), a smaller image (`train_resolution`) and fewer Gaussians a patch that are split until
they are all there (`progressive`), both in the first half of the cheap epochs, and random Gaussians
(`stochastic_k`), whose draw leaves the expected picture as it is. In the last `final_share` of the
epochs none of them is in force.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trainers.gaussian.decoder import PatchWindow
from trainers.gaussian.geometry import GRID, OUTPUTS
from trainers.gaussian.projection import OPAQUE, Camera, Gaussians

REACH = 3.0
"""Pixels that the Gaussians of a patch may reach beyond it: they are widened to be seen at all."""
STAGES = (1, 2, 4)
APART = 0.25
"""How far from their parent, in its patches' widths over the root of their number, halves begin."""


@dataclass(frozen=True)
class Savings:
    """What is asked for; 0 or False: not in force. `window` is in patches a side."""

    train_resolution: int = 0
    progressive: bool = False
    stochastic_k: int = 0
    window: int = 0
    final_share: float = 0.02

    @property
    def any(self) -> bool:
        """Whether any is in force."""
        asked = (self.train_resolution, self.progressive, self.stochastic_k, self.window)
        return any(asked)


@dataclass(frozen=True)
class Phase:
    """One epoch's image size, Gaussians a patch, Gaussians drawn and window (0: all).

    The size is in pixels a side.
    """

    resolution: int
    slots: int
    stochastic_k: int
    window: int
    final: bool

    def describe(self) -> str:
        """Return a few words for a log."""
        drawn = f", at least {self.stochastic_k} Gaussians drawn" if self.stochastic_k else ""
        cut = f", windows of {self.window} x {self.window} patches" if self.window else ""
        return f"{self.resolution} px, {self.slots} Gaussians a patch{drawn}{cut}"


def phase_of(epoch: int, epochs: int, size: int, slots: int, savings: Savings) -> Phase:
    """Return the phase of an epoch counted from 0; the last epoch is always final."""
    begins = final_epoch(epochs, savings.final_share)
    if not savings.any or epoch >= begins:
        return Phase(size, slots, 0, 0, True)
    coarse = math.ceil(begins / 2)
    if epoch >= coarse:
        return Phase(size, slots, savings.stochastic_k, savings.window, False)
    used = min(slots, STAGES[len(STAGES) * epoch // coarse]) if savings.progressive else slots
    resolution = min(size, savings.train_resolution or size)
    return Phase(resolution, used, savings.stochastic_k, savings.window, False)


def final_epoch(epochs: int, share: float) -> int:
    """Return the epoch, from 0, at which the last phase begins; it has at least one epoch."""
    return max(0, min(epochs - 1, round(epochs * (1 - share))))


class Work(NamedTuple):
    """How many times fewer patches a schedule decodes, and pixels it draws, than full training."""

    patches: float
    pixels: float


def work_saved(size: int, slots: int, savings: Savings, epochs: int) -> Work:
    """Return the work of as many full epochs over that of this schedule."""
    patches = pixels = 0.0
    for epoch in range(epochs):
        phase = phase_of(epoch, epochs, size, slots, savings)
        side = phase.window or GRID
        decoded = min(GRID, side + 2 * margin_at(phase.resolution))
        patches += (decoded / GRID) ** 2
        pixels += (phase.resolution / size * side / GRID) ** 2
    return Work(epochs / patches, epochs / pixels)


def margin_at(size: int) -> int:
    """Return how many patches are decoded around a window, in images of `size` pixels a side."""
    return max(1, math.ceil(REACH * GRID / size))


@torch.no_grad()
def split_gaussians(
    last: nn.Linear, optimiser: torch.optim.Optimizer, before: int, after: int
) -> None:
    """Let the Gaussians `before` ... `after` of every patch begin as halves of the first ones.

    `last` is a decoder's last layer, 16 outputs a Gaussian. A half has its parent's weights, with
    what the optimiser knows of them, and lies beside it; that both are narrower, by the root of
    their number, is the decoder's own doing, which widens the Gaussians while they are few.
    """
    parameters = {part: optimiser.state.get(part, {}) for part in (last.weight, last.bias)}
    while before < after:
        following = min(2 * before, after)
        first, rows = before * OUTPUTS, (following - before) * OUTPUTS
        for part, state in parameters.items():
            for values in (part.data, *(value for value in state.values() if value.dim())):
                values[first : first + rows] = values[:rows].clone()
        bias = last.bias.view(-1, OUTPUTS)
        # Along x at first, then along y, and so on in turns.
        axis = round(math.log2(before)) % 2
        bias[before:following, axis] += APART / math.sqrt(before)
        bias[: following - before, axis] -= APART / math.sqrt(before)
        before = following


def sample_gaussians(
    gaussians: Gaussians, k: int, generator: torch.Generator | None = None
) -> Gaussians:
    """Return the Gaussians with some made invisible at random and the rest's opacity raised.

    Gaussian i stays with probability p = max(k/N, opacity/0.99), by itself, with opacity / p. What
    a camera sees is linear in every single opacity, so the expected picture is the picture of all,
    to the bit of the 0.99 cap, which opacity / p never passes. That is why at least the sum of the
    opacities must be drawn: fewer cannot give the same picture in the mean.
    """
    opacities = gaussians.opacities
    chance = keep_chances(opacities.detach(), k)
    draw = torch.rand(
        opacities.shape, generator=generator, device=opacities.device, dtype=opacities.dtype
    )
    kept = torch.where(draw < chance, opacities / chance, torch.zeros_like(opacities))
    return gaussians._replace(opacities=kept)


def keep_chances(opacities: Tensor, k: int) -> Tensor:
    """Return the probability (B,N) of each Gaussian to be drawn."""
    return (opacities / OPAQUE).clamp(min=min(1.0, k / opacities.shape[1]), max=1.0)


def random_window(
    side: int, size: int, generator: torch.Generator | None = None
) -> tuple[PatchWindow, Camera]:
    """Return a random window of `side` patches with a margin, and the camera that sees it.

    Positions beyond the border are drawn too and pushed back, so that border patches are not rarer.
    """
    corner = torch.randint(-(side // 2), GRID - side + side // 2 + 1, (2,), generator=generator)
    row, column = (int(value) for value in corner.clamp(0, GRID - side))
    margin = margin_at(size)
    first_row, first_column = max(0, row - margin), max(0, column - margin)
    last = max(
        min(GRID, row + side + margin) - first_row, min(GRID, column + side + margin) - first_column
    )
    window = PatchWindow(min(first_row, GRID - last), min(first_column, GRID - last), last)
    width = side * size // GRID
    left, top = (min(size - width, round(place * size / GRID)) for place in (column, row))
    return window, Camera(size, window=(left, top, width))
