"""The differentiable half of the point operators: features gathered, averaged and interpolated.

Features of points are rows, (B * N, C), and a voxel grid is rows of voxels, (B * R³, C), which is
PyTorch's channels_last_3d memory format; so nothing is transposed on the way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trainers.pcdiff.geometry import Groups, Voxels, neighbours_numba


def average_into_voxels(features: Tensor, voxels: Voxels) -> Tensor:
    """Return the mean feature of the points in each voxel, (B * R³, C); empty voxels are 0."""
    sums = features.new_zeros(len(voxels.counts), features.shape[1])
    sums = sums.index_add(0, voxels.cell, features)
    return sums / voxels.counts.clamp(min=1).to(features.dtype)[:, None]


def read_from_voxels(grid: Tensor, voxels: Voxels) -> Tensor:
    """Return the trilinear interpolation (B * N, C) of a grid (B * R³, C) at the points."""
    return weighted_rows(grid, voxels.corners, voxels.shares)


def weighted_rows(rows: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Return sum_k weights[n, k] * rows[index[n, k]] for rows (M, C) and index (N, K)."""
    rows = widened(rows)
    return functional.embedding_bag(
        index, rows, per_sample_weights=weights.to(rows.dtype), mode="sum"
    )


def widened(values: Tensor) -> Tensor:
    """Return values as float32, as autocast's half precision would not add up; float64 stays."""
    return values if values.dtype == torch.float64 else values.float()


def largest_of_groups(values: Tensor, groups: Groups, sample: int) -> Tensor:
    """Return the maximum over each group of one sample, (M, C), for its entries' values (P, C)."""
    begin, end = groups.spans[sample]
    centres = (len(groups.starts) - 1) // len(groups.spans)
    starts = groups.starts[sample * centres : (sample + 1) * centres + 1] - begin
    if values.device.type == "cpu" and neighbours_numba is not None:
        rows = values.detach().float().contiguous().numpy()
        winners = neighbours_numba.largest_rows(rows, starts.numpy())
        return values.gather(0, torch.from_numpy(winners))
    owners = (groups.owners[begin:end] - sample * centres)[:, None].expand_as(values)
    empty = values.new_full((centres, values.shape[1]), -torch.inf)
    return empty.scatter_reduce(0, owners, values, "amax", include_self=False)


def group_norm_rows(
    rows: Tensor,
    weights: Tensor | None,
    groups: int,
    scale: Tensor,
    shift: Tensor,
    epsilon: float = 1e-5,
    batch: int = 1,
) -> Tensor:
    """Return the group norm of rows (B * P, C), each counted weights (P,) times where B is 1.

    A sample's statistics run over its rows and the channels of a group, as if every row were there
    as often as its weight says.
    """
    with torch.autocast(rows.device.type, enabled=False):
        samples = widened(rows).view(batch, -1, rows.shape[1])
        shares = _shares(samples, weights, groups)
        normal = _GroupNormRows.apply(samples, shares, groups, scale, shift, epsilon)
        return normal.view_as(rows)


class _GroupNormRows(torch.autograd.Function):
    """Group norm of weighted rows (B, P, C) with its gradient in closed form."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        share: Tensor,
        groups: int,
        scale: Tensor,
        shift: Tensor,
        epsilon: float,
    ) -> Tensor:
        """Return the normalised rows; share is what a row counts, (P, 1) or (1, 1)."""
        # sum() adds in a tree; a matrix product adds in a row and loses digits over 32³ voxels.
        mean = _over_group(_shared_sum(rows, share), groups)
        centred = rows - mean
        variance = _over_group(_shared_sum(centred.square(), share), groups)
        inverse = torch.rsqrt(variance + epsilon)
        normal = centred.mul_(inverse)
        ctx.save_for_backward(normal, share, inverse, scale)
        ctx.groups = groups
        return torch.addcmul(shift, normal, scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of rows, scale and shift."""
        normal, share, inverse, scale = ctx.saved_tensors
        gradient = gradients[0]
        of_scale = (gradient * normal).sum(1)
        of_shift = gradient.sum(1)
        # With weighted statistics d mean / d row is the row's share, not 1 / count.
        mean = _over_group(of_shift * scale, ctx.groups)
        slope = _over_group(of_scale * scale, ctx.groups)
        of_rows = gradient * (scale * inverse)
        if share.shape[0] == 1:
            mean, slope = mean * share, slope * share
        correction = torch.addcmul(mean * inverse, normal, slope * inverse)
        of_rows -= correction if share.shape[0] == 1 else correction.mul_(share)
        return of_rows, None, None, of_scale.sum(0), of_shift.sum(0), None


def _shared_sum(rows: Tensor, share: Tensor) -> Tensor:
    """Return the sum (B, C) of rows (B, P, C), each times its share."""
    # Sums of like shares are multiplied once; rows are many, and memory is what limits here.
    return rows.sum(1) * share if share.shape[0] == 1 else (rows * share).sum(1)


def _shares(samples: Tensor, weights: Tensor | None, groups: int) -> Tensor:
    """Return what each row's entries count in the statistics: (P, 1), or (1, 1) without weights."""
    width = samples.shape[2] // groups
    if weights is None:
        return samples.new_full((1, 1), 1 / (samples.shape[1] * width))
    return (weights / (weights.sum() * width))[:, None]


def _over_group(channels: Tensor, groups: int) -> Tensor:
    """Return for each channel of (B, C) the sum over the channels of its group, (B, 1, C)."""
    batch, width = len(channels), channels.shape[-1] // groups
    sums = channels.view(batch, groups, width).sum(2)
    return sums.repeat_interleave(width, 1)[:, None]
