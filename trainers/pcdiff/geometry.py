"""What a forward pass needs to know of where the points lie, found before it and without gradients.

Sampling, neighbours, nearest points and voxels depend on coordinates alone, so they are computed
once per forward pass; the network then only gathers, multiplies and adds.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trainers.common.errors import NotFiniteError, SettingsError
from trainers.common.loading import sent
from trainers.pcdiff import neighbours_torch

try:
    from trainers.pcdiff import neighbours_numba
except ImportError:
    neighbours_numba = None  # type: ignore[assignment]

SEARCHES = ("auto", "numba", "torch", "triton")
"""All find the same points: numba on the CPU, the others on the device."""


NOT_FINITE = (
    "the point cloud has coordinates that are not finite: where a network drew them, it has"
    " diverged; take an earlier checkpoint"
)
RADIUS = 2.5
"""About where the points of a skull lie whose longest side spans -3 to 3."""


@dataclass(frozen=True)
class Ball:
    """How one set abstraction groups: centres, radius and the slots of a group."""

    centres: int
    radius: float
    slots: int


@dataclass(frozen=True)
class Groups:
    """The distinct neighbours of every centre, one centre after the other, for a batch.

    A group has `slots` slots; those beyond the neighbours found repeat the first, and `weights`
    says how many slots an entry stands for. members (P,) are flat indices into B * N points,
    starts (B * M + 1,) where each centre's begin, spans the range of entries of each sample.
    """

    members: Tensor
    starts: Tensor
    weights: Tensor
    owners: Tensor
    offsets: Tensor
    spans: tuple[tuple[int, int], ...]
    slots: int


@dataclass(frozen=True)
class Voxels:
    """Where the points of a batch lie in grids of `resolution` cells a side.

    cell (B * N,) is the flat voxel a point is averaged into, counts (B * R³,) how many share it;
    corners and shares (B * N, 8) are the voxels a point is interpolated from.
    """

    resolution: int
    cell: Tensor
    counts: Tensor
    corners: Tensor
    shares: Tensor


@dataclass
class PointLevel:
    """The points of one resolution, (B, N, 3), and how they relate to the next coarser ones."""

    points: Tensor
    groups: Groups | None = None
    nearest: Tensor | None = None
    shares: Tensor | None = None
    voxels: dict[int, Voxels] = field(default_factory=dict)

    def grid(self, resolution: int) -> Voxels:
        """Return these points' place in a grid, computed at the first call."""
        if resolution not in self.voxels:
            self.voxels[resolution] = place_in_grid(self.points, resolution)
        return self.voxels[resolution]


class Steady:
    """What the searches keep of points that stay where they are while others move.

    While an implant is drawn, the first `count` points of every cloud are the skull's. Their
    division into boxes is made at the first survey and used in the following ones.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._boxes: dict[int, tuple[Any, Any]] = {}

    def boxes(self, sample: int, cloud: Any) -> tuple[Any, Any]:
        """Return the boxes of a sample's cloud (N, 3), those of its first points kept."""
        if sample not in self._boxes:
            still = cloud[: self.count]
            self._boxes[sample] = neighbours_numba.boxes(still, neighbours_numba.BOX)
        order, starts = self._boxes[sample]
        moving, cuts = neighbours_numba.boxes(cloud[self.count :], neighbours_numba.BOX)
        return np.concatenate([order, moving + np.int32(self.count)]), np.concatenate(
            [starts, cuts[1:] + np.int32(self.count)]
        )


def survey(
    points: Tensor,
    balls: Sequence[Ball],
    search: str = "auto",
    steady: Steady | None = None,
    known_finite: bool = False,
) -> list[PointLevel]:
    """Return one level per ball and a last one, for points (B, N, 3).

    Raises NotFiniteError where a coordinate is not finite, unless it is known that all are: to
    look waits for the device. Raises ValueError for an unknown search.
    """
    points = points.detach().float().contiguous()
    search = search_on(points.device, search)
    if search == "numba":
        found, ends = _search_numba(points, balls, steady, known_finite)
    else:
        found, ends = _search_on_device(points, balls, search, known_finite)
    levels = [_level(*each) for each in zip(found, ends, strict=True)]
    return [*levels, PointLevel(found[-1].centres if found else points)]


def searches_of(device: torch.device) -> list[str]:
    """Return the searches that can be had on a device, the one that was always there first."""
    found = ["torch"] if neighbours_numba is None else ["numba", "torch"]
    if device.type == "cuda":
        found = found[::-1] + (["triton"] if find_spec("triton") else [])
    return found


def search_on(device: torch.device, search: str) -> str:
    """Return the search that `auto` means on a device, or the one asked for.

    Raises SettingsError where it cannot be had.
    """
    if search not in SEARCHES:
        raise SettingsError(f"neighbour search {search!r} is none of {', '.join(SEARCHES)}")
    here = searches_of(device)
    if search == "auto":
        return here[0]
    if search not in here:
        missing = "numba is not installed" if search == "numba" else "it needs a GPU and triton"
        raise SettingsError(f"--neighbours {search}: {missing}")
    return search


def fastest_search(
    device: torch.device, shape: tuple[int, int], balls: Sequence[Ball]
) -> tuple[str, str]:
    """Return which search is fastest on a device, measured once, and the times in words.

    The cloud has the shape (B, N) and lies on a sphere, as skulls do. A search that fails is left,
    and said to.
    """
    chance = torch.Generator().manual_seed(0)
    sphere = functional.normalize(torch.randn(*shape, 3, generator=chance), dim=-1)
    cloud = (RADIUS * sphere).to(device)
    seconds: dict[str, float] = {}
    found = []
    for search in searches_of(device):
        try:
            survey(cloud, balls, search)
            seconds[search] = _seconds(cloud, balls, search)
            found.append(f"{search} {1000 * seconds[search]:.0f} ms")
        except Exception as problem:  # whatever a compiler or a driver raises
            first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
            found.append(f"{search} fails: {first}")
    return min(seconds, key=lambda name: seconds[name], default="torch"), ", ".join(found)


def _seconds(cloud: Tensor, balls: Sequence[Ball], search: str) -> float:
    """Return how long a survey takes."""
    begun = time.monotonic()
    # Reading an answer waits for the device.
    float(survey(cloud, balls, search)[-1].points.sum())
    return time.monotonic() - begun


@dataclass(frozen=True)
class Found:
    """What the searches of a level found, on the points' device.

    `numbers` (B * M,) of each centre's neighbours, which `members` holds as Groups does, or in a
    table (B * M, slots) of which the rest means nothing.
    """

    ball: Ball
    points: Tensor
    centres: Tensor
    members: Tensor
    numbers: Tensor
    nearest: Tensor
    squares: Tensor


def _search_on_device(
    points: Tensor, balls: Sequence[Ball], search: str, known_finite: bool
) -> tuple[list[Found], list[list[int]]]:
    """Return all levels by batched torch or Triton's kernels, and where their samples end.

    What the host needs to know of all levels is read at once: every reading waits for the device.
    """
    if search == "triton":
        from trainers.pcdiff import neighbours_triton as neighbours
    else:
        neighbours = neighbours_torch  # type: ignore[misc]
    finite = torch.isfinite(points).all()
    found = []
    for ball in balls:
        chosen = neighbours.farthest_points(points, ball.centres)
        centres = points.gather(1, chosen[..., None].expand(-1, -1, 3))
        members, numbers = neighbours.ball_query(points, centres, ball.radius, ball.slots)
        nearest, squares = neighbours.three_nearest(points, centres)
        found.append(Found(ball, points, centres, members, numbers, nearest, squares))
        points = centres
    totals = [level.numbers.view(len(points), -1).sum(1).cumsum(0) for level in found]
    counted = torch.cat([finite.view(1).long(), *totals]).tolist()
    if not counted.pop(0) and not known_finite:
        raise NotFiniteError(NOT_FINITE)
    batch = len(points)
    return found, [[0, *counted[at : at + batch]] for at in range(0, len(counted), batch)]


def _search_numba(
    points: Tensor, balls: Sequence[Ball], steady: Steady | None, known_finite: bool
) -> tuple[list[Found], list[list[int]]]:
    """Return all levels by compiled searches, a thread per sample, and where their samples end.

    The host waits for the device once, for the points.
    """
    device, clouds = points.device, points.cpu().numpy()
    if not known_finite and not np.isfinite(clouds).all():
        raise NotFiniteError(NOT_FINITE)

    def search(sample: int) -> list[tuple[Any, ...]]:
        cloud, levels = clouds[sample], []
        for number, ball in enumerate(balls):
            boxes = (
                neighbours_numba.boxes(cloud, neighbours_numba.BOX)
                if steady is None or number
                else steady.boxes(sample, cloud)
            )
            centres = cloud[neighbours_numba.farthest_points(cloud, ball.centres, *boxes)]
            members, numbers = neighbours_numba.ball_query(cloud, centres, ball.radius, ball.slots)
            members += sample * len(cloud)
            levels.append(
                (centres, members, numbers, *neighbours_numba.three_nearest(cloud, centres))
            )
            cloud = centres
        return levels

    found, ends = [], []
    for ball, *samples in zip(balls, *each_sample(search, range(len(clouds))), strict=True):
        centres, members, numbers, nearest, squares = zip(*samples, strict=True)
        ends.append([0, *itertools.accumulate(map(len, members))])
        # All at once and 32 bits wide, not waited for.
        stacked = (np.stack(centres), *map(np.concatenate, (members, numbers)), np.stack(nearest))
        parts = [sent(torch.from_numpy(part), device) for part in (*stacked, np.stack(squares))]
        whole = [part.long() for part in parts[1:4]]
        found.append(Found(ball, points, parts[0], *whole, parts[4]))
        points = parts[0]
    return found, ends


def each_sample(task: Callable[[Any], Any], samples: Sequence[Any]) -> list[Any]:
    """Return the task's result for every sample, in threads where there are several."""
    threads = min(len(samples), torch.get_num_threads(), os.cpu_count() or 1)
    if threads < 2:
        return [task(sample) for sample in samples]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(task, samples))


def _level(found: Found, ends: list[int]) -> PointLevel:
    """Return the level of what was found; `ends` are those of the samples' entries, from 0 on."""
    points, centres, numbers, ball = found.points, found.centres, found.numbers, found.ball
    starts = torch.cat([numbers.new_zeros(1), numbers.cumsum(0)])
    weights = torch.ones(ends[-1], device=points.device)
    weights[starts[:-1]] += (ball.slots - numbers).float()
    owners = torch.repeat_interleave(
        torch.arange(len(numbers), device=points.device), numbers, output_size=ends[-1]
    )
    members = found.members
    if members.dim() == 2:
        slots = torch.arange(ends[-1], device=points.device) - starts[owners]
        members = members[owners, slots]
    offsets = points.flatten(0, 1)[members] - centres.flatten(0, 1)[owners]
    spans = tuple(itertools.pairwise(ends))
    groups = Groups(members, starts, weights, owners, offsets, spans, ball.slots)
    base = torch.arange(len(points), device=points.device)[:, None, None] * ball.centres
    nearest = (found.nearest + base).flatten(0, 1)
    return PointLevel(points, groups, nearest, interpolation_shares(found.squares))


def interpolation_shares(squares: Tensor) -> Tensor:
    """Return the weights (B * N, 3) of three neighbours from their d²: 1/d², normalised.

    d² is clamped to [1e-10, 1e10] in double precision and multiplied in single, as the kernel does.
    """
    a, b, c = squares.double().clamp(1e-10, 1e10).float().flatten(0, 1).unbind(-1)
    products = torch.stack([b * c, a * c, a * b], dim=-1)
    return products / products.sum(-1, keepdim=True)


def place_in_grid(points: Tensor, resolution: int) -> Voxels:
    """Return where points (B, N, 3) lie in grids of resolution³ voxels.

    Centred on the mean and divided by twice the largest norm, so that they fill [0, 1]; a cloud
    without extent lies in the middle. Rounded half to even for averaging, exact for interpolation.
    """
    batch, _, _ = points.shape
    side = resolution
    centred = points - points.mean(1, keepdim=True)
    reach = centred.norm(dim=2).amax(1)[:, None, None]
    # Below this the norm is the rounding error of the mean, and directions mean nothing.
    least = 1e-6 * points.abs().amax((1, 2))[:, None, None]
    unit = torch.where(reach > least, centred / (2 * reach), torch.zeros_like(centred)) + 0.5
    place = (unit * side).clamp(0, side - 1)
    base = torch.arange(batch, device=points.device)[:, None] * side**3
    x, y, z = place.round().long().unbind(-1)
    cell = (((x * side + y) * side + z) + base).flatten()
    low = place.floor()
    part = place - low
    # Without a fraction there is no upper corner; its share is zero and it may not exist.
    ends = [low.long().unbind(-1), (low.long() + 1).clamp(max=side - 1).unbind(-1)]
    parts = [(1 - part).unbind(-1), part.unbind(-1)]
    corners, shares = [], []
    for steps in np.ndindex(2, 2, 2):
        x, y, z = (ends[step][axis] for axis, step in enumerate(steps))
        corners.append(((x * side + y) * side + z + base).flatten())
        each = [parts[step][axis] for axis, step in enumerate(steps)]
        shares.append(torch.stack(each, -1).prod(-1).flatten())
    counts = _counts(cell, batch * side**3)
    return Voxels(side, cell, counts, torch.stack(corners, 1), torch.stack(shares, 1))


def _counts(cells: Tensor, number: int) -> Tensor:
    """Return how often each of `number` cells is named (number,); bincount makes a GPU wait."""
    if cells.device.type == "cpu":
        return torch.bincount(cells, minlength=number).float()
    ones = torch.ones(len(cells), device=cells.device)
    return torch.zeros(number, device=cells.device).scatter_add_(0, cells, ones)
