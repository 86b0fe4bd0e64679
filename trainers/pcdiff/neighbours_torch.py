"""The point operators' index searches for a batch of clouds in plain torch, on any device.

Semantics of the CUDA kernels of PVCNN (Liu et al. 2019, arXiv 1907.03739) as used by PCDiff. They
are what runs on a GPU without Triton, and on a CPU without numba.
"""

from __future__ import annotations

import torch
from torch import Tensor

TIE_STRIDE = 512
FAR = 1e38
# Elements of one block of pairwise distances; three of these blocks are alive at a time.
BLOCK = 1 << 26


def tie_order(number: int, device: torch.device) -> Tensor:
    """Return the indices of points (number,) in the order in which equals are taken."""
    indices = torch.arange(number, device=device)
    return torch.argsort(indices % TIE_STRIDE * number + indices)


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Return (B, count) indices of farthest-point sampling of points (B, N, 3), first index 0."""
    batch, number, _ = points.shape
    # argmax takes the first of equal values, so the points stand in the order of the tie rule.
    order = tie_order(number, points.device)
    columns = points[:, order].unbind(-1)
    distance = torch.full((batch, number), FAR, device=points.device)
    chosen = torch.zeros(batch, count, dtype=torch.int64, device=points.device)
    last = chosen[:, :1]
    for step in range(1, count):
        square = sum((column - column.gather(1, last)) ** 2 for column in columns)
        torch.minimum(distance, square, out=distance)
        last = distance.argmax(1, keepdim=True)
        chosen[:, step] = last[:, 0]
    return order[chosen]


def ball_query(points: Tensor, centres: Tensor, radius: float, most: int) -> tuple[Tensor, Tensor]:
    """Return the points (B, N, 3) within radius of centres (B, M, 3), the first `most` by index.

    Returns flat indices into (B * N) one centre after the other, and their number (B * M,).
    Without a point with d² < r² it is point 0.
    """
    batch, number, _ = points.shape
    limit = torch.full((), radius, dtype=torch.float32, device=points.device) ** 2
    found, numbers = [], []
    width = max(BLOCK // number, 1)
    for sample in range(batch):
        for some in centres[sample].split(width):
            near = _squares(some, points[sample]) < limit
            near[:, 0] |= ~near.any(1)
            near &= near.cumsum(1) <= most
            found.append(near.nonzero()[:, 1] + sample * number)
            numbers.append(near.sum(1))
    return torch.cat(found), torch.cat(numbers)


def three_nearest(points: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Return the three of known (B, M, 3) nearest to points (B, N, 3): indices and d², (B, N, 3).

    They are sorted by distance, then by index; fewer known points leave index 0 at a distance
    that counts for nothing.
    """
    batch, number, _ = points.shape
    index = torch.zeros(batch, number, 3, dtype=torch.int64, device=points.device)
    square = torch.full((batch, number, 3), FAR, device=points.device)
    width = max(BLOCK // known.shape[1], 1)
    for sample in range(batch):
        for start in range(0, number, width):
            some = slice(start, start + width)
            squares = _squares(points[sample, some], known[sample])
            for place in range(min(3, known.shape[1])):
                # argmin takes the first of equal values; topk promises no order.
                nearest = squares.argmin(1, keepdim=True)
                index[sample, some, place] = nearest[:, 0]
                square[sample, some, place] = squares.gather(1, nearest)[:, 0]
                squares.scatter_(1, nearest, torch.inf)
    return index, square


def _squares(points: Tensor, others: Tensor) -> Tensor:
    """Return the squared distances (N, M) by plain differences, which lose no digits."""
    total = (points[:, None, 0] - others[None, :, 0]) ** 2
    for axis in (1, 2):
        total += (points[:, None, axis] - others[None, :, axis]) ** 2
    return total
