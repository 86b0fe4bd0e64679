"""The plain baseline: the bone of the healthy side, reflected to where bone is missing.

It learns nothing. A model whose implants are worse than these has learnt nothing either.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from trainers.skulls.shaping import Shaping, largest


def mirror_plane(skull: np.ndarray, axis: int = 0) -> int:
    """Return s such that index i reflects to s − i along axis with the greatest overlap of bone."""
    lines = np.moveaxis(skull, axis, 0).reshape(skull.shape[axis], -1)
    lines = lines[:, lines.any(axis=0)]
    length = 2 * skull.shape[axis]
    overlap = np.zeros(length)
    # In blocks, since the transform of every line of a 512³ volume at once takes gigabytes.
    for start in range(0, lines.shape[1], 8192):
        spectrum = np.fft.rfft(lines[:, start : start + 8192].astype(np.float32), length, axis=0)
        overlap += np.fft.irfft((spectrum**2).sum(axis=1), length)
    return int(np.argmax(overlap))


def reflect(skull: np.ndarray, plane: int, axis: int = 0) -> np.ndarray:
    """Return the mask whose index i along axis is that of the given mask at plane − i."""
    size = skull.shape[axis]
    wanted = plane - np.arange(size)
    inside = (wanted >= 0) & (wanted < size)
    mirrored = np.zeros_like(skull)
    target = np.moveaxis(mirrored, axis, 0)
    target[inside] = np.moveaxis(skull, axis, 0)[wanted[inside]]
    return mirrored


def mirror_implant(defective: np.ndarray, spacing: tuple[float, float, float]) -> np.ndarray:
    """Return the baseline's implant for a defective skull, axis 0 being left to right.

    Reflected bone that is missing on this side, opened so that the thin rims left by asymmetry
    fall away, and its largest piece.
    """
    missing = reflect(defective, mirror_plane(defective)) & ~defective
    rounds = max(1, round(1.2 / max(spacing))) if Shaping.for_spacing(spacing).smooth else 1
    opened = ndimage.binary_opening(missing, iterations=rounds)
    return largest(opened if opened.any() else missing)
