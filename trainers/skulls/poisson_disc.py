"""Poisson-disk sampling's inner loop, compiled by numba."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def keep_apart(
    points: np.ndarray, cells: np.ndarray, shape: np.ndarray, squared: float, most: int
) -> np.ndarray:  # pragma: no cover - compiled
    """Return the indices of points (N, 3) that keep a squared distance from all kept before them.

    No more than `most` of them. cells (N, 3) are the points' cells in a grid of that shape, no
    smaller than the distance.
    """
    heads = np.full(shape[0] * shape[1] * shape[2], -1, np.int32)
    following = np.full(len(points), -1, np.int32)
    kept = np.empty(len(points), np.int64)
    found = 0
    for index in range(len(points)):
        x, y, z = cells[index]
        free = True
        for i in range(max(x - 1, 0), min(x + 2, shape[0])):
            for j in range(max(y - 1, 0), min(y + 2, shape[1])):
                for k in range(max(z - 1, 0), min(z + 2, shape[2])):
                    other = heads[(i * shape[1] + j) * shape[2] + k]
                    while free and other >= 0:
                        a = points[index, 0] - points[other, 0]
                        b = points[index, 1] - points[other, 1]
                        c = points[index, 2] - points[other, 2]
                        free = a * a + b * b + c * c >= squared
                        other = following[other]
        if free:
            cell = (x * shape[1] + y) * shape[2] + z
            following[index] = heads[cell]
            heads[cell] = index
            kept[found] = index
            found += 1
            if found == most:
                break
    return kept[:found]
