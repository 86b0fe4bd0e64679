"""Slow and plain versions of PCDiff's operators and network, against which the fast ones are held.

The searches are loops over points in NumPy, written after the CUDA kernels' semantics. The network
is the dense form in plain torch: 128 slots a group, an expanded time embedding, concatenations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.pcdiff.layers import PointAttention, PVConv, SetAbstraction
from trainers.pcdiff.model import PVCNN, timestep_embedding

Array = np.ndarray[Any, Any]


def squares(points: Array, centre: Array) -> Array:
    """Squared distances in float32, one axis added after the other."""
    x, y, z = ((points[:, axis] - centre[axis]) ** 2 for axis in range(3))
    return x + y + z


def farthest_points(points: Array, count: int) -> list[int]:
    """Farthest-point sampling with 512 lanes, each keeping the first of its equals."""
    chosen, distance = [0], np.full(len(points), 1e38, np.float32)
    while len(chosen) < count:
        distance = np.minimum(distance, squares(points, points[chosen[-1]]))
        top = [index for index in range(len(points)) if distance[index] == distance.max()]
        chosen.append(min(top, key=lambda index: (index % 512, index)))
    return chosen


def ball_query(points: Array, centres: Array, radius: float, slots: int) -> list[list[int]]:
    """All slots of every centre: the first hits by index, then the first hit again."""
    limit = np.float32(radius) * np.float32(radius)
    found = []
    for centre in centres:
        hits = np.flatnonzero(squares(points, centre) < limit).tolist()[:slots] or [0]
        found.append(hits + [hits[0]] * (slots - len(hits)))
    return found


def three_nearest(points: Array, known: Array) -> list[list[int]]:
    """The three nearest by distance, then index; index 0 where there are fewer."""
    found = []
    for point in points:
        order = np.lexsort((np.arange(len(known)), squares(known, point)))[:3].tolist()
        found.append(order + [0] * (3 - len(order)))
    return found


def interpolation_shares(points: Array, known: Array) -> Array:
    """Weights 1/d² of the three nearest, clamped to [1e-10, 1e10]; absent ones are far away."""
    rows = []
    for point, nearest in zip(points, three_nearest(points, known), strict=True):
        distances = [float(squares(known[[index]], point)[0]) for index in nearest]
        distances[len(known) :] = [1e10] * (3 - len(known))
        inverse = [1 / min(max(distance, 1e-10), 1e10) for distance in distances]
        rows.append([value / sum(inverse) for value in inverse])
    return np.array(rows, np.float32)


def average_into_voxels(points: Array, features: Array, side: int) -> Array:
    """Means of the features (N, C) of the points rounded into each voxel, (R, R, R, C)."""
    grid, counts = np.zeros((side, side, side, features.shape[1])), np.zeros((side,) * 3)
    for place, feature in zip(grid_places(points, side), features, strict=True):
        voxel = tuple(np.rint(place).astype(int))
        grid[voxel] += feature
        counts[voxel] += 1
    return (grid / np.maximum(counts, 1)[..., None]).astype(np.float32)


def read_from_voxels(points: Array, grid: Array) -> Array:
    """Trilinear interpolation of a grid (R, R, R, C) at the points, corner by corner."""
    rows, side = [], grid.shape[0]
    for place in grid_places(points, side):
        low, total = np.floor(place).astype(int), np.zeros(grid.shape[3])
        for corner in np.ndindex(2, 2, 2):
            part = place - low
            weight = np.prod(np.where(corner, part, 1 - part))
            if weight > 0:
                total += weight * grid[tuple(low + corner)]
        rows.append(total)
    return np.array(rows, np.float32)


def grid_places(points: Array, side: int) -> Array:
    """Continuous voxel coordinates of points (N, 3)."""
    centred = points - points.mean(0)
    reach = np.sqrt((centred**2).sum(1)).max()
    unit = centred / (2 * reach) + 0.5 if reach > 1e-6 * np.abs(points).max() else 0.5 + 0 * centred
    return np.clip(unit * side, 0, side - 1)


# ------------------------------------------------------------------------------- the dense network


def dense_forward(model: PVCNN, points: Tensor, timesteps: Tensor) -> Tensor:
    """The network's output (B, 3, N) for points (B, 3, N) as the CUDA original computes it."""
    time = model.embedf(timestep_embedding(timesteps, model.sizes.embedding))
    coordinates, features, kept = points, points, []
    for index, stage in enumerate(model.sa_layers):
        kept.append((coordinates, features if index else None))
        if index:
            features = torch.cat([features, spread(time, features)], 1)
        for block in stage if isinstance(stage, nn.ModuleList) else [stage]:
            if isinstance(block, PVConv):
                features = dense_pvconv(block, features, coordinates)
            else:
                ball = model.balls[index]
                coordinates, features = dense_grouping(block, features, coordinates, ball)
    if model.global_att is not None:
        features = dense_attention(model.global_att, features)
    for index, (propagation, *blocks) in enumerate(model.fp_layers):
        finer, skip = kept[-1 - index]
        carried = torch.cat([features, spread(time, features)], 1)
        carried = dense_interpolation(finer, coordinates, carried)
        features = propagation.mlp.layers(
            carried if skip is None else torch.cat([carried, skip], 1)
        )
        coordinates = finer
        for block in blocks:
            features = dense_pvconv(block, features, coordinates)
    return model.classifier[2](model.classifier[1](model.classifier[0].layers(features)))


def spread(time: Tensor, features: Tensor) -> Tensor:
    """The time embedding at every point."""
    return time[:, :, None].expand(-1, -1, features.shape[2])


def dense_pvconv(block: PVConv, features: Tensor, coordinates: Tensor) -> Tensor:
    """A point-voxel convolution by scatter and grid_sample."""
    side, (batch, channels, number) = block.resolution, features.shape
    centred = coordinates.detach() - coordinates.detach().mean(2, keepdim=True)
    reach = centred.norm(dim=1, keepdim=True).amax(2, keepdim=True)
    place = ((centred / (2 * reach) + 0.5) * side).clamp(0, side - 1)
    x, y, z = place.round().long().unbind(1)
    cell = (x * side * side + y * side + z)[:, None]
    grid = features.new_zeros(batch, channels, side**3)
    grid = grid.scatter_add(2, cell.expand(-1, channels, -1), features)
    counts = features.new_zeros(batch, 1, side**3).scatter_add(
        2, cell, torch.ones_like(place[:, :1])
    )
    grid = (grid / counts.clamp(min=1)).view(batch, channels, side, side, side)
    for layer in block.voxel_layers:
        if isinstance(layer, PointAttention):
            grid = dense_attention(layer, grid.flatten(2)).view_as(grid)
        else:
            grid = layer(grid.contiguous())
    at = (2 * place / (side - 1) - 1).flip(1).transpose(1, 2).view(batch, 1, 1, number, 3)
    read = functional.grid_sample(grid, at, align_corners=True)
    return read.view(batch, -1, number) + block.point_features.layers(features)


def dense_attention(layer: PointAttention, tokens: Tensor) -> Tensor:
    """Unscaled attention over tokens (B, C, T) with a whole matrix of weights."""

    def part(convolution: nn.Module, values: Tensor) -> Tensor:
        matrix = convolution.weight.flatten(1)
        return matrix @ values + convolution.bias[:, None]

    q, k, v = (part(convolution, tokens) for convolution in (layer.q, layer.k, layer.v))
    weights = torch.softmax(q.transpose(1, 2) @ k, dim=-1)
    read = part(layer.out, v @ weights.transpose(1, 2))
    return functional.silu(layer.norm(read + tokens))


def dense_grouping(
    block: SetAbstraction, features: Tensor, coordinates: Tensor, ball: Any
) -> tuple[Tensor, Tensor]:
    """Set abstraction with every slot computed, and a loop of torch calls for the sampling."""
    points = coordinates.transpose(1, 2)
    chosen = torch.stack([torch_farthest(cloud, ball.centres) for cloud in points])
    centres = coordinates.gather(2, chosen[:, None].expand(-1, 3, -1))
    index = torch.stack(
        [torch_ball(cloud, cloud[some], ball) for cloud, some in zip(points, chosen, strict=True)]
    )
    near = [taken(values, index) for values in (coordinates, features)]
    grouped = torch.cat([near[0] - centres[..., None], near[1]], 1)
    return centres, block.mlps[0].layers(grouped).amax(3)


def taken(values: Tensor, index: Tensor) -> Tensor:
    """Values (B, C, N) at index (B, M, K)."""
    flat = index.flatten(1)[:, None].expand(-1, values.shape[1], -1)
    return values.gather(2, flat).unflatten(2, index.shape[1:])


def torch_farthest(cloud: Tensor, count: int) -> Tensor:
    """Farthest-point sampling of one cloud (N, 3), a few torch calls a step."""
    distance, chosen = cloud.new_full((len(cloud),), 1e38), [0]
    while len(chosen) < count:
        distance = torch.minimum(distance, (cloud - cloud[chosen[-1]]).square().sum(1))
        chosen.append(int(distance.argmax()))
    return torch.tensor(chosen)


def torch_ball(cloud: Tensor, centres: Tensor, ball: Any, block: int = 512) -> Tensor:
    """Ball query by chunks of all distances and a top-k of the smallest indices."""
    limit, found = torch.tensor(ball.radius) ** 2, []
    slots, numbers = min(ball.slots, len(cloud)), torch.arange(len(cloud))
    for some in centres.split(block):
        far = (some[:, None] - cloud[None]).square().sum(2) >= limit
        index = numbers.expand(len(some), -1).masked_fill(far, len(cloud))
        index = index.topk(slots, dim=1, largest=False, sorted=True).values
        index = torch.where(index == len(cloud), index[:, :1], index)
        found.append(functional.pad(index, (0, ball.slots - slots), value=-1))
    index = torch.cat(found)
    return torch.where(index < 0, index[:, :1], index)


def dense_interpolation(finer: Tensor, coarse: Tensor, features: Tensor) -> Tensor:
    """3-NN interpolation of features (B, C, M) at finer points (B, 3, N)."""
    rows = []
    for points, known, values in zip(
        finer.transpose(1, 2), coarse.transpose(1, 2), features, strict=True
    ):
        parts = []
        for some in points.split(2048):
            square, index = (some[:, None] - known[None]).square().sum(2).topk(3, 1, largest=False)
            inverse = 1 / square.clamp(1e-10, 1e10)
            weights = inverse / inverse.sum(1, keepdim=True)
            parts.append((values[:, index] * weights).sum(2))
        rows.append(torch.cat(parts, 1))
    return torch.stack(rows)
