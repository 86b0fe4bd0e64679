"""From complete skulls to an implant: vote, subtract, keep what lies at the defect, smooth.

The order of the steps is that of the original pcdiff-implant project. Its sizes are in voxels of
0.4 mm; on coarser grids, where a voxel is as thick as bone, they would eat or double the implant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

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
    votes = np.zeros(skulls[0].shape, np.uint8)
    for skull in skulls:
        votes += ndimage.binary_dilation(skull, iterations=dilation) if dilation else skull
    return votes >= (len(skulls) + 1) // 2


def cut_out(
    complete: np.ndarray, defective: np.ndarray, implant_points: np.ndarray | None, how: Shaping
) -> np.ndarray:
    """Return the implant mask: complete without defective, near the implant's points, one piece.

    implant_points is (N, 3) in voxel indices; None, or crop `none`, leaves the crop away. The
    largest piece is kept, which for a defect on both sides means the larger one unless the points
    say that there are two.
    """
    implant = complete & ~defective
    if implant_points is not None and len(implant_points) and how.crop != "none":
        implant &= _near(implant.shape, implant_points, how)
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


def _near(shape: tuple[int, ...], points: np.ndarray, how: Shaping) -> np.ndarray:
    """Return where the crop allows an implant: a ball around the points' centre, or their box."""
    if how.crop == "bbox":
        allowed = np.zeros(shape, bool)
        low = np.maximum(np.floor(points.min(0)).astype(int) - how.margin, 0)
        high = np.ceil(points.max(0)).astype(int) + how.margin + 1
        allowed[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = True
        return allowed
    centre = points.mean(0)
    reach = how.radius_scale * np.linalg.norm(points - centre, axis=1).max()
    axes = np.ogrid[tuple(slice(0, length) for length in shape)]
    squared = sum((axis - middle) ** 2 for axis, middle in zip(axes, centre, strict=True))
    near: np.ndarray = np.asarray(squared) <= reach**2
    return near


def largest(mask: np.ndarray, count: int = 1) -> np.ndarray:
    """Return the `count` largest pieces of a mask, pieces being joined across faces."""
    labels, found = ndimage.label(mask)
    if found <= count:
        return mask
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    return np.isin(labels, np.argsort(sizes)[-count:])


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
