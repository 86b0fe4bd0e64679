"""Erosion and dilation of masks, 64 voxels to a word.

The same voxels as SciPy's, whose structuring element is the 6-neighbourhood and for which nothing
lies outside; of a volume of 512³ in about a twentieth of its time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trainers.skulls.metrics import bounding_box

WORD = 64
Packed = NDArray[np.uint64]
ONE, LAST = np.uint64(1), np.uint64(WORD - 1)


def opened(mask: np.ndarray, rounds: int = 1) -> np.ndarray:
    """Return a mask (X, Y, Z) eroded and then dilated so many times."""
    return _worked(mask, rounds, 0, lambda packed: _dilate(_erode(packed, rounds), rounds))


def dilated(mask: np.ndarray, rounds: int = 1) -> np.ndarray:
    """Return a mask (X, Y, Z) dilated so many times."""
    return _worked(mask, rounds, rounds, lambda packed: _dilate(packed, rounds))


def _worked(
    mask: np.ndarray, rounds: int, margin: int, work: Callable[[Packed], Packed]
) -> np.ndarray:
    """Do some work on the packed voxels of a mask's bounding box."""
    if rounds < 1:
        raise ValueError(f"{rounds} rounds: at least one is needed")
    result = np.zeros_like(mask)
    box = bounding_box(mask, [margin] * 3)
    if box is None:
        return result
    piece, goal = mask[box], result[box]
    if abs(piece.strides[0]) < abs(piece.strides[2]):
        # NRRD's order: the bits go along the axis that lies together in memory.
        piece, goal = piece.T, goal.T
    length = piece.shape[2]
    padded = np.zeros((*piece.shape[:2], -length % WORD + length), bool)
    padded[..., :length] = piece
    packed = np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64)
    found = work(packed).astype("<u8").view(np.uint8)
    goal[...] = np.unpackbits(found, axis=-1, count=length, bitorder="little")
    return result


def _erode(packed: Packed, rounds: int) -> Packed:
    for _ in range(rounds):
        kept = packed & _from_below(packed)
        kept &= _from_above(packed)
        for axis in (0, 1):
            ahead, behind = _shifted(axis)
            kept[ahead] &= packed[behind]
            kept[behind] &= packed[ahead]
            # Beside what lies at the edge there is nothing.
            edges = np.moveaxis(kept, axis, 0)
            edges[0] = edges[-1] = 0
        packed = kept
    return packed


def _dilate(packed: Packed, rounds: int) -> Packed:
    for _ in range(rounds):
        grown = packed | _from_below(packed)
        grown |= _from_above(packed)
        for axis in (0, 1):
            ahead, behind = _shifted(axis)
            grown[ahead] |= packed[behind]
            grown[behind] |= packed[ahead]
        packed = grown
    return packed


def _shifted(axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return all planes but the first, and all but the last."""
    before = (slice(None),) * axis
    return (*before, slice(1, None)), (*before, slice(None, -1))


def _from_below(packed: Packed) -> Packed:
    """Return for every voxel the one before it along the packed axis."""
    moved: Packed = packed << ONE
    moved[..., 1:] |= packed[..., :-1] >> LAST
    return moved


def _from_above(packed: Packed) -> Packed:
    """Return for every voxel the one after it along the packed axis."""
    moved: Packed = packed >> ONE
    moved[..., :-1] |= packed[..., 1:] << LAST
    return moved
