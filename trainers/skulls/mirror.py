"""The plain baseline: the bone of the healthy side, reflected to where bone is missing.

It learns nothing. A model whose implants are worse than these has learnt nothing either.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from trainers.skulls.bits import opened
from trainers.skulls.shaping import Shaping, largest


def mirror_plane(skull: np.ndarray, axis: int = 0) -> int:
    """Return s such that index i reflects to s − i along axis with the greatest overlap of bone."""
    size = skull.shape[axis]
    counts = np.zeros(2 * size + 1, np.int64)
    # A line is stretches of bone. The overlap of two of them is linear in s between sums of their
    # ends, so its second differences are counted there: exact, and as few as there are ends.
    for part in np.moveaxis(skull, axis, 0).swapaxes(0, 2):
        bone = np.zeros((part.shape[0], size + 2), np.int8)
        bone[:, 1:-1] = part
        line, place = np.nonzero(np.diff(bone))
        signs = bone[line, place + 1].astype(np.int64) * 2 - 1
        ends = sparse.csr_array((signs, (place, line)), shape=(size + 1, len(bone)))
        both = (ends @ ends.T).tocoo()
        np.add.at(counts, both.row + both.col, both.data)
    return int(np.argmax(counts.cumsum().cumsum()[: 2 * size]))


def reflect(skull: np.ndarray, plane: int, axis: int = 0) -> np.ndarray:
    """Return the mask whose index i along axis is that of the given mask at plane − i."""
    size = skull.shape[axis]
    low, high = max(plane - size + 1, 0), min(plane, size - 1) + 1
    mirrored = np.zeros_like(skull)
    target, source = np.moveaxis(mirrored, axis, 0), np.moveaxis(skull, axis, 0)
    target[low:high] = source[plane - high + 1 : plane - low + 1][::-1]
    return mirrored


def mirror_implant(defective: np.ndarray, spacing: tuple[float, float, float]) -> np.ndarray:
    """Return the baseline's implant for a defective skull, axis 0 being left to right.

    Reflected bone that is missing on this side, opened so that the thin rims left by asymmetry
    fall away, and its largest piece.
    """
    missing = reflect(defective, mirror_plane(defective)) & ~defective
    rounds = max(1, round(1.2 / max(spacing))) if Shaping.for_spacing(spacing).smooth else 1
    thick = opened(missing, rounds)
    return largest(thick if thick.any() else missing)
