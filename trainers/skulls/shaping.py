"""From complete skulls to an implant: vote, subtract, keep what lies at the defect, smooth.

The order of the steps is that of the original pcdiff-implant project. Its sizes are in voxels of
0.4 mm; on coarser grids, where a voxel is as thick as bone, they would eat or double the implant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from trainers.skulls.bits import dilated
from trainers.skulls.metrics import bounding_box

CUBE = np.ones((3, 3, 3), bool)


@dataclass(frozen=True)
class Shaping:
    """How an implant is cut out: dilation of the skull in voxels, reach of the crop, smoothing."""

    dilation: int = 1
    radius_scale: float = 1.1
    crop: str = "radius"
    margin: int = 12
    smooth: bool = True

    @classmethod
    def for_spacing(cls, spacing: tuple[float, float, float]) -> Shaping:
        """Return the original's steps for voxels below 1 mm, else steps that keep coarse bone."""
        fine = max(spacing) < 1.0
        return cls(dilation=1 if fine else 0, smooth=fine)


def vote(skulls: list[np.ndarray], dilation: int = 0) -> np.ndarray:
    """Return the voxels that at least half of the skulls (rounded up) hold, each dilated first."""
    votes = np.zeros(skulls[0].shape, np.min_scalar_type(len(skulls)))
    for skull in skulls:
        votes += dilated(skull, dilation) if dilation else skull
    return votes >= (len(skulls) + 1) // 2


def cut_out(
    complete: np.ndarray, defective: np.ndarray, implant_points: np.ndarray | None, how: Shaping
) -> np.ndarray:
    """Return the implant mask: complete without defective, near the implant's points, one piece.

    implant_points is (N, 3) in voxel indices; None, or crop `none`, leaves the crop away. The
    largest piece is kept, which for a defect on both sides means the larger one unless the points
    say that there are two.
    """
    allowed: tuple[slice, ...] = (slice(None),) * 3
    near = np.ones((1, 1, 1), bool)
    if implant_points is not None and len(implant_points) and how.crop != "none":
        allowed, near = _near(complete.shape, implant_points, how)
    implant = np.zeros_like(defective)
    implant[allowed] = complete[allowed] & ~defective[allowed] & near
    box = bounding_box(implant, [3, 3, 3])
    if box is None:
        return implant
    piece = implant[box]
    pieces = 1 if implant_points is None else clusters(implant_points)
    if how.smooth:
        piece = ndimage.binary_opening(piece, CUBE)
        piece = largest(piece, pieces)
        piece = ndimage.median_filter(piece.astype(np.uint8), size=3) > 0
        piece = ndimage.binary_closing(np.pad(piece, 1), CUBE)[1:-1, 1:-1, 1:-1]
        piece = ndimage.binary_fill_holes(piece) & ~defective[box]
    else:
        opened = ndimage.binary_opening(piece)
        piece = opened if opened.any() else piece
    shaped = np.zeros_like(implant)
    shaped[box] = largest(piece, pieces)
    return shaped


def _near(
    shape: tuple[int, ...], points: np.ndarray, how: Shaping
) -> tuple[tuple[slice, ...], np.ndarray]:
    """Return where the crop allows an implant: a box, and the voxels of it.

    It is a ball around the points' centre, or their box.
    """
    if how.crop == "bbox":
        return _box(shape, points.min(0) - how.margin, points.max(0) + how.margin), np.ones(
            (1, 1, 1), bool
        )
    centre = points.mean(0)
    reach = how.radius_scale * np.linalg.norm(points - centre, axis=1).max()
    box = _box(shape, centre - reach, centre + reach)
    axes = np.ogrid[box]
    squared = sum((axis - middle) ** 2 for axis, middle in zip(axes, centre, strict=True))
    near: np.ndarray = np.asarray(squared) <= reach**2
    return box, near


def _box(shape: tuple[int, ...], low: np.ndarray, high: np.ndarray) -> tuple[slice, ...]:
    """Return the voxels of a shape between two corners, which are counted in."""
    first = np.clip(np.floor(low).astype(int), 0, shape)
    end = np.clip(np.ceil(high).astype(int) + 1, 0, shape)
    return tuple(slice(a, b) for a, b in zip(first.tolist(), end.tolist(), strict=True))


def largest(mask: np.ndarray, count: int = 1) -> np.ndarray:
    """Return the `count` largest pieces of a mask, pieces being joined across faces."""
    box = bounding_box(mask, [0] * mask.ndim)
    if box is None:
        return mask
    labels, found = ndimage.label(mask[box])
    if found <= count:
        return mask
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    kept = np.zeros(len(sizes), bool)
    kept[np.argsort(sizes)[-count:]] = True
    result = np.zeros_like(mask)
    result[box] = kept[labels]
    return result


def clusters(points: np.ndarray, cells: int = 12) -> int:
    """Return in how many separate heaps (1 or 2) points (N, 3) lie: two for a defect on both sides.

    Heaps are counted on a coarse grid of the points' own box; one below a fifth of the points is
    a stray and not counted.
    """
    low, high = points.min(0), points.max(0)
    side = max(float((high - low).max()) / cells, 1e-6)
    places = np.floor((points - low) / side).astype(int)
    grid = np.zeros(places.max(0) + 1, int)
    np.add.at(grid, tuple(places.T), 1)
    labels, found = ndimage.label(grid > 0, structure=CUBE)
    sizes = ndimage.sum_labels(grid, labels, range(1, found + 1)) if found else np.array([])
    return 2 if int((np.asarray(sizes) >= 0.2 * len(points)).sum()) >= 2 else 1
