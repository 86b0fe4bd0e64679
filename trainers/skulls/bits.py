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
Words = NDArray[np.uint64]
ONE, LAST = np.uint64(1), np.uint64(WORD - 1)


def opened(mask: np.ndarray, rounds: int = 1) -> np.ndarray:
    """Return a mask (X, Y, Z) eroded and then dilated so many times."""
    return _worked(mask, rounds, 0, lambda words: _dilate(_erode(words, rounds), rounds))


def dilated(mask: np.ndarray, rounds: int = 1) -> np.ndarray:
    """Return a mask (X, Y, Z) dilated so many times."""
    return _worked(mask, rounds, rounds, lambda words: _dilate(words, rounds))


def _worked(
    mask: np.ndarray, rounds: int, margin: int, work: Callable[[Words], Words]
) -> np.ndarray:
    """Do some work on the words of a mask's bounding box."""
    if rounds < 1:
        raise ValueError(f"{rounds} rounds: at least one is needed")
    result = np.zeros_like(mask)
    box = bounding_box(mask, [margin] * 3)
    if box is None:
        return result
    piece, goal = mask[box], result[box]
    if abs(piece.strides[0]) < abs(piece.strides[2]):
        # NRRD's order: the words go along the axis that lies together in memory.
        piece, goal = piece.T, goal.T
    length = piece.shape[2]
    padded = np.zeros((*piece.shape[:2], -length % WORD + length), bool)
    padded[..., :length] = piece
    words = np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64)
    found = work(words).astype("<u8").view(np.uint8)
    goal[...] = np.unpackbits(found, axis=-1, count=length, bitorder="little")
    return result


def _erode(words: Words, rounds: int) -> Words:
    for _ in range(rounds):
        kept = words & _from_below(words)
        kept &= _from_above(words)
        for axis in (0, 1):
            ahead, behind = _shifted(axis)
            kept[ahead] &= words[behind]
            kept[behind] &= words[ahead]
            # Beside what lies at the edge there is nothing.
            edges = np.moveaxis(kept, axis, 0)
            edges[0] = edges[-1] = 0
        words = kept
    return words


def _dilate(words: Words, rounds: int) -> Words:
    for _ in range(rounds):
        grown = words | _from_below(words)
        grown |= _from_above(words)
        for axis in (0, 1):
            ahead, behind = _shifted(axis)
            grown[ahead] |= words[behind]
            grown[behind] |= words[ahead]
        words = grown
    return words


def _shifted(axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return all planes but the first, and all but the last."""
    before = (slice(None),) * axis
    return (*before, slice(1, None)), (*before, slice(None, -1))


def _from_below(words: Words) -> Words:
    """Return for every voxel the one before it along the words' axis."""
    moved: Words = words << ONE
    moved[..., 1:] |= words[..., :-1] >> LAST
    return moved


def _from_above(words: Words) -> Words:
    """Return for every voxel the one after it along the words' axis."""
    moved: Words = words >> ONE
    moved[..., :-1] |= words[..., 1:] << LAST
    return moved
