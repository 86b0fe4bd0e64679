"""How good an implant is: Dice, Dice near the bone, and the pooled 95th percentile of distances.

Definitions as published with the AutoImplant challenges and used by PCDiff (Friedrich et al.,
MICCAI 2023). HD95 here is the percentile of the distances of both directions pooled; MONAI and
others return the larger of two percentiles, which is a little more on the same pair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import ndimage

BORDER_MM = 10.0
"""Reach of the boundary Dice from the defective skull."""

Spacing = tuple[float, float, float]


def dice(a: np.ndarray, b: np.ndarray) -> float:
    """Return 2|A∩B| / (|A| + |B|) of two masks; 1 where both are empty."""
    total = int(np.count_nonzero(a)) + int(np.count_nonzero(b))
    box = bounding_box(a, [0] * a.ndim) if total else None
    # Within a box: arrays that lie in memory in different orders are slow to bring together.
    both = int(np.count_nonzero(a[box] & b[box])) if box else 0
    return 2 * both / total if total else 1.0


def boundary_dice(
    a: np.ndarray, b: np.ndarray, skull: np.ndarray, spacing: Spacing, reach: float = BORDER_MM
) -> float:
    """Return the Dice of what two masks have within `reach` mm of the skull; 1 if both are empty.

    Raises ValueError where the skull has no voxel.
    """
    if not skull.any():
        raise ValueError("the boundary Dice needs a skull that is not empty")
    box = common_box(a, b, [math.ceil(reach / step) + 1 for step in spacing])
    if box is None:
        return 1.0
    near = skull[box]
    if not near.any():
        return 1.0
    close = ndimage.distance_transform_edt(~near, sampling=spacing) <= reach
    return dice(a[box] & close, b[box] & close)


def hd95(a: np.ndarray, b: np.ndarray, spacing: Spacing, percentile: float = 95.0) -> float:
    """Return the percentile in mm of the pooled distances between two masks' surface voxels.

    A surface is what an erosion by the 6-neighbourhood takes away. Two empty masks are 0 mm apart,
    an empty and a full one infinitely far.
    """
    if not a.any() and not b.any():
        return 0.0
    if not a.any() or not b.any():
        return math.inf
    box = common_box(a, b, [1, 1, 1])
    assert box is not None
    surfaces = [_surface(mask[box]) for mask in (a, b)]
    fields = [ndimage.distance_transform_edt(~surface, sampling=spacing) for surface in surfaces]
    pooled = np.concatenate([fields[1][surfaces[0]], fields[0][surfaces[1]]])
    return float(np.percentile(pooled, percentile))


def _surface(mask: np.ndarray) -> np.ndarray:
    surface: np.ndarray = mask & ~ndimage.binary_erosion(mask)
    return surface


def bounding_box(mask: np.ndarray, margin: Iterable[int]) -> tuple[slice, ...] | None:
    """Return the slices around a mask with a margin per axis, inside its array; None if empty."""
    boxes = []
    for axis, more in enumerate(margin):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        where = np.flatnonzero(mask.any(axis=others))
        if not len(where):
            return None
        boxes.append(slice(max(int(where[0]) - more, 0), int(where[-1]) + 1 + more))
    return tuple(boxes)


def common_box(a: np.ndarray, b: np.ndarray, margin: Iterable[int]) -> tuple[slice, ...] | None:
    """Return the slices around two masks together, as bounding_box does of their union."""
    margin = tuple(margin)
    boxes = [box for mask in (a, b) if (box := bounding_box(mask, margin)) is not None]
    if not boxes:
        return None
    return tuple(
        slice(min(part.start for part in parts), max(part.stop for part in parts))
        for parts in zip(*boxes, strict=True)
    )


@dataclass(frozen=True)
class Scores:
    """The three figures of an implant."""

    dice: float
    bdice_10mm: float
    hd95_mm: float


def score(found: np.ndarray, truth: np.ndarray, skull: np.ndarray, spacing: Spacing) -> Scores:
    """Return the figures of an implant against the true one, beside the defective skull.

    All three are boolean volumes of one shape; raises ValueError where they differ.
    """
    if not found.shape == truth.shape == skull.shape:
        raise ValueError(f"shapes differ: {found.shape}, {truth.shape} and {skull.shape}")
    return Scores(
        dice(found, truth), boundary_dice(found, truth, skull, spacing), hd95(found, truth, spacing)
    )


def summarise(cases: Iterable[tuple[str, Scores]]) -> dict[str, dict[str, Any]]:
    """Return means per kind of defect and over `all`, from pairs of a kind and its figures.

    The mean HD95 is over finite values; `failed` counts implants that came out empty.
    """
    groups: dict[str, list[Scores]] = defaultdict(list)
    for kind, scores in cases:
        # Where defects are of no kind, all are of the kind `all`.
        for name in {kind, "all"}:
            groups[name].append(scores)
    table: dict[str, dict[str, Any]] = {}
    for kind in sorted(groups, key=lambda name: (name == "all", name)):
        rows = [asdict(scores) for scores in groups[kind]]
        finite = [row["hd95_mm"] for row in rows if math.isfinite(row["hd95_mm"])]
        table[kind] = {
            "cases": len(rows),
            "dice": float(np.mean([row["dice"] for row in rows])),
            "bdice_10mm": float(np.mean([row["bdice_10mm"] for row in rows])),
            "hd95_mm": float(np.mean(finite)) if finite else math.inf,
            "failed": len(rows) - len(finite),
        }
    return table
