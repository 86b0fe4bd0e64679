"""The point operators' index searches for one cloud on the CPU, compiled by numba.

They return exactly what the plain versions in `neighbours_torch.py` return: the semantics of the
CUDA kernels of PVCNN (Liu et al. 2019, arXiv 1907.03739) as used by PCDiff. All arithmetic is in
float32 without fused operations, so a box's distance computed in the same order is a bound that
holds to the bit and pruning by it changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

TIE_STRIDE = 512
FAR = np.float32(1e38)
MOST_CELLS = 96
BOX = 48

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]


@njit(nogil=True, cache=True)
def boxes(points: Floats, size: int) -> tuple[Integers, Integers]:
    """Sort points (N, 3) into boxes of at most `size` by halving along the widest axis.

    Returns the order (N,) and where each box starts in it, (boxes + 1,).
    """
    count = points.shape[0]
    order = np.arange(count).astype(np.int32)
    cuts = [0, count]
    place = 0
    while place < len(cuts) - 1:
        start, end = cuts[place], cuts[place + 1]
        if end - start <= size:
            place += 1
            continue
        widest, axis = np.float32(-1.0), 0
        for candidate in range(3):
            low = high = points[order[start], candidate]
            for at in range(start, end):
                value = points[order[at], candidate]
                low, high = min(low, value), max(high, value)
            if high - low > widest:
                widest, axis = high - low, candidate
        keys = np.empty(end - start, np.float32)
        for at in range(start, end):
            keys[at - start] = points[order[at], axis]
        # By a loop, here as elsewhere: for a slice numba compiles the words of its error, too.
        before = order[start:end].copy()
        for at, found in enumerate(np.argsort(keys)):
            order[start + at] = before[found]
        cuts.insert(place + 1, (start + end) // 2)
    return order, np.array(cuts, dtype=np.int32)


@njit(nogil=True, cache=True)
def farthest_points(points: Floats, count: int, order: Integers, starts: Integers) -> Integers:
    """Return (count,) indices of farthest-point sampling of points (N, 3), beginning with index 0.

    Ties go to the least (index mod 512), then to the least index. order and starts are `boxes` of
    the points; any division gives the same answer.
    """
    number = starts.shape[0] - 1
    sorted_points = points[order]
    distance = np.full(points.shape[0], FAR, np.float32)
    lows, highs = np.empty((number, 3), np.float32), np.empty((number, 3), np.float32)
    for box in range(number):
        for axis in range(3):
            lows[box, axis] = sorted_points[starts[box] : starts[box + 1], axis].min()
            highs[box, axis] = sorted_points[starts[box] : starts[box + 1], axis].max()
    farthest, holder = np.full(number, FAR, np.float32), np.zeros(number, np.int32)
    chosen = np.zeros(count, np.int32)
    zero = np.float32(0.0)
    for step in range(1, count):
        x, y, z = points[chosen[step - 1]]
        best, best_index = np.float32(-1.0), np.int32(0)
        for box in range(number):
            dx = max(max(lows[box, 0] - x, x - highs[box, 0]), zero)
            dy = max(max(lows[box, 1] - y, y - highs[box, 1]), zero)
            dz = max(max(lows[box, 2] - z, z - highs[box, 2]), zero)
            if dx * dx + dy * dy + dz * dz < farthest[box]:
                top, index = np.float32(-1.0), np.int32(0)
                for at in range(starts[box], starts[box + 1]):
                    ex = sorted_points[at, 0] - x
                    ey = sorted_points[at, 1] - y
                    ez = sorted_points[at, 2] - z
                    near = min(ex * ex + ey * ey + ez * ez, distance[at])
                    distance[at] = near
                    if near > top or (near == top and _before(order[at], index)):
                        top, index = near, order[at]
                farthest[box], holder[box] = top, index
            ahead = farthest[box] > best
            if ahead or (farthest[box] == best and _before(holder[box], best_index)):
                best, best_index = farthest[box], holder[box]
        chosen[step] = best_index
    return chosen


@njit(nogil=True, cache=True, inline="always")
def _before(index: Any, other: Any) -> Any:
    """Whether the CUDA reduction prefers an index over another at an equal distance."""
    key, other_key = index % TIE_STRIDE, other % TIE_STRIDE
    return key < other_key or (key == other_key and index < other)


@njit(nogil=True, cache=True)
def cells(points: Floats, size: float, most: int) -> tuple[Any, ...]:
    """Sort points (N, 3) into cubic cells at least `size` wide, at most `most` along an axis.

    Returns the least corner (3,), the width, the cells along each axis (3,), the order (N,) and
    where each cell starts in it; cell (i, j, k) is number (i * ny + j) * nz + k.
    """
    low, dims, extent = np.empty(3, np.float32), np.empty(3, np.int64), 0.0
    for axis in range(3):
        low[axis] = points[:, axis].min()
        extent = max(extent, float(points[:, axis].max()) - low[axis])
    width = max(size, extent / (most - 1), 1e-30)
    for axis in range(3):
        dims[axis] = min(int((points[:, axis].max() - low[axis]) / width) + 1, most)
    number = np.empty(points.shape[0], np.int64)
    starts = np.zeros(dims[0] * dims[1] * dims[2] + 1, np.int32)
    for index in range(points.shape[0]):
        i = cell_of(points[index, 0], low[0], width, dims[0])
        j = cell_of(points[index, 1], low[1], width, dims[1])
        k = cell_of(points[index, 2], low[2], width, dims[2])
        number[index] = (i * dims[1] + j) * dims[2] + k
        starts[number[index] + 1] += 1
    for cell in range(starts.shape[0] - 1):
        starts[cell + 1] += starts[cell]
    filled, order = starts[:-1].copy(), np.empty(points.shape[0], np.int32)
    for index in range(points.shape[0]):
        order[filled[number[index]]] = index
        filled[number[index]] += 1
    return low, width, dims, order, starts


@njit(nogil=True, cache=True, inline="always")
def cell_of(value: Any, low: Any, width: Any, count: Any) -> Any:
    """Return the cell of a coordinate along one axis, clamped to those that exist."""
    return min(max(int((float(value) - low) / width), 0), count - 1)


@njit(nogil=True, cache=True)
def ball_query(
    points: Floats, centres: Floats, radius: float, most: int
) -> tuple[Integers, Integers]:
    """Return the points (N, 3) within `radius` of centres (M, 3), at most `most` each.

    They are the first by index with d² < r² (strictly), where r² is float32(r) squared; without
    any it is point 0. Returns their indices one centre after the other and their number (M,).
    """
    limit = np.float32(radius) * np.float32(radius)
    low, width, dims, order, starts = cells(points, radius * 1.001, MOST_CELLS)
    found = np.empty(centres.shape[0] * most, np.int32)
    numbers = np.empty(centres.shape[0], np.int32)
    hits, total = np.empty(points.shape[0], np.int32), 0
    sorted_points = points[order]
    for centre in range(centres.shape[0]):
        x, y, z = centres[centre]
        i = cell_of(x, low[0], width, dims[0])
        j = cell_of(y, low[1], width, dims[1])
        k = cell_of(z, low[2], width, dims[2])
        first, last, count = max(k - 1, 0), min(k + 1, dims[2] - 1), 0
        for near_i in range(max(i - 1, 0), min(i + 2, dims[0])):
            for near_j in range(max(j - 1, 0), min(j + 2, dims[1])):
                row = (near_i * dims[1] + near_j) * dims[2]
                for at in range(starts[row + first], starts[row + last + 1]):
                    dx = sorted_points[at, 0] - x
                    dy = sorted_points[at, 1] - y
                    dz = sorted_points[at, 2] - z
                    if dx * dx + dy * dy + dz * dz < limit:
                        hits[count] = order[at]
                        count += 1
        if count > most:
            # The cells hold them out of order; the first by index are soon found where many are.
            count, at = 0, 0
            while count < most:
                dx, dy, dz = points[at, 0] - x, points[at, 1] - y, points[at, 2] - z
                if dx * dx + dy * dy + dz * dz < limit:
                    hits[count] = at
                    count += 1
                at += 1
        elif count == 0:
            hits[0], count = 0, 1
        else:
            _sort(hits, count)
        for at in range(count):
            found[total + at] = hits[at]
        numbers[centre] = count
        total += count
    return found[:total].copy(), numbers


@njit(nogil=True, cache=True)
def _sort(values: Integers, count: int) -> None:
    """Sort the first `count` values in place; they are few."""
    for at in range(1, count):
        value, before = values[at], at - 1
        while before >= 0 and values[before] > value:
            values[before + 1] = values[before]
            before -= 1
        values[before + 1] = value


@njit(nogil=True, cache=True)
def three_nearest(points: Floats, known: Floats) -> tuple[Integers, Floats]:
    """Return the three of known (M, 3) nearest to each point (N, 3): indices and d², both (N, 3).

    They are sorted by distance, then by index. Where fewer than three are known the rest are
    index 0 at a distance that counts for nothing.
    """
    amount = min(3, known.shape[0])
    across = max(int(np.sqrt(known.shape[0] / 4)), 2)
    low, width, dims, order, starts = cells(known, 0.0, min(across, MOST_CELLS))
    index = np.zeros((points.shape[0], 3), np.int32)
    square = np.full((points.shape[0], 3), FAR, np.float32)
    sorted_known = known[order]
    widest = max(dims[0], dims[1], dims[2])
    for point in range(points.shape[0]):
        x, y, z = points[point]
        i = cell_of(x, low[0], width, dims[0])
        j = cell_of(y, low[1], width, dims[1])
        k = cell_of(z, low[2], width, dims[2])
        mine, best = index[point], square[point]
        for ring in range(widest + 1):
            for near_i in range(max(i - ring, 0), min(i + ring + 1, dims[0])):
                for near_j in range(max(j - ring, 0), min(j + ring + 1, dims[1])):
                    edge = abs(near_i - i) == ring or abs(near_j - j) == ring
                    stride = 1 if edge else max(2 * ring, 1)
                    for near_k in range(k - ring, k + ring + 1, stride):
                        if near_k < 0 or near_k >= dims[2]:
                            continue
                        cell = (near_i * dims[1] + near_j) * dims[2] + near_k
                        for at in range(starts[cell], starts[cell + 1]):
                            dx = sorted_known[at, 0] - x
                            dy = sorted_known[at, 1] - y
                            dz = sorted_known[at, 2] - z
                            _insert(mine, best, dx * dx + dy * dy + dz * dz, order[at])
            # What lies in a farther ring is at least `ring` cells away.
            reach = ring * width * 0.999
            if float(best[amount - 1]) < reach * reach:
                break
    return index, square


@njit(nogil=True, cache=True, inline="always")
def _insert(index: Any, square: Any, value: Any, which: Any) -> None:
    """Put a candidate into three sorted ones."""
    if value > square[2] or (value == square[2] and which > index[2]):
        return
    at = 2
    while at > 0 and (
        value < square[at - 1] or (value == square[at - 1] and which < index[at - 1])
    ):
        square[at], index[at] = square[at - 1], index[at - 1]
        at -= 1
    square[at], index[at] = value, which


@njit(nogil=True, cache=True)
def largest_rows(values: Floats, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which row of values (P, C) holds the maximum of each group, (groups, C).

    Group g is the rows from starts[g] to starts[g + 1], of which there is at least one.
    """
    groups, channels = starts.shape[0] - 1, values.shape[1]
    winner = np.empty((groups, channels), np.int64)
    best = np.empty(channels, np.float32)
    for group in range(groups):
        first = starts[group]
        for channel in range(channels):
            best[channel], winner[group, channel] = values[first, channel], first
        for row in range(first + 1, starts[group + 1]):
            for channel in range(channels):
                if values[row, channel] > best[channel]:
                    best[channel], winner[group, channel] = values[row, channel], row
    return winner
