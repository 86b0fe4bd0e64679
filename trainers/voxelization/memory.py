"""How much memory a training step needs, counted from the grids that live at the same time."""

from __future__ import annotations

import math

GUIDE = "the guide of pcdiff-implant expects 15-25 GB at 512³, batch 4"


def step_bytes(grid: tuple[int, int, int], batch: int, points: int = 30720) -> int:
    """Return bytes of a training step: grids per sample, transforms of one sample, activations.

    Kept per sample from forward to backward: field, scaled field, their batch, its tanh, target and
    its tanh. Of one sample at a time: spectrum sum (2 grids' worth), channel grid and spectrum (3),
    kernel (half). Activations: the normal decoder's 32 channels in 27 layers at 7 points each, in
    float32, and the offset decoder's at one. Counted, not measured on a GPU.
    """
    voxels = 4 * math.prod(grid)
    activations = 4 * 32 * 27 * points * (7 + 1) + 4 * 64 * 40 * points
    return int(batch * (6 * voxels + activations) + 5.5 * voxels + 1e9)


def memory_sentence(grid: tuple[int, int, int], batch: int) -> str:
    """Return what a step should need on a device, and what the guide says where it speaks of it."""
    need = f"about {step_bytes(grid, batch) / 1e9:.1f} GB a step (counted from the tensors)"
    return f"{need}; {GUIDE}" if grid == (512, 512, 512) else need
