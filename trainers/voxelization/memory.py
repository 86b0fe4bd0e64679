"""How much memory a training step needs, counted from the grids that live at the same time."""

from __future__ import annotations

import math

GUIDE = "the guide of pcdiff-implant expects 15-25 GB at 512³, batch 4"


def step_bytes(
    grid: tuple[int, int, int], batch: int, points: int = 30720, offsets: int = 7, width: int = 32
) -> int:
    """Return bytes of a training step: grids per sample, transforms of one sample, activations.

    Kept per sample from forward to backward: field, scaled field, their batch, its tanh, target and
    its tanh. Of one sample at a time: spectrum sum (2 grids' worth), channel grid and spectrum (3),
    kernel (half). Activations in float32: the normal decoder's 27 layers at every offset point, the
    offset decoder's at every point, and about 40 of the encoder's.
    """
    voxels = 4 * math.prod(grid)
    activations = 4 * width * points * (27 * (offsets + 1) + 2 * 40)
    return int(batch * (6 * voxels + activations) + 5.5 * voxels)


def memory_sentence(grid: tuple[int, int, int], batch: int, *sizes: int) -> str:
    """Return what a step should need on a device, and what the guide says where it speaks of it."""
    need = step_bytes(grid, batch, *sizes) / 1e9
    sentence = f"about {need:.1f} GB for a step's tensors (counted, not measured)"
    return f"{sentence}; {GUIDE}" if grid == (512, 512, 512) else sentence
