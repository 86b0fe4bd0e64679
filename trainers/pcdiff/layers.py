"""The building blocks of PVCNN++: shared MLP, point-voxel convolution, attention, up and down.

Blocks after PVCNN (Liu et al. 2019, arXiv 1907.03739) and PVD (Zhou et al. 2021, arXiv 2104.03670),
named so that PCDiff's published state dicts load strictly. Points are rows (B * N, C).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.pcdiff.geometry import Groups, PointLevel
from trainers.pcdiff.operators import (
    average_into_voxels,
    group_norm_rows,
    largest_of_groups,
    read_from_voxels,
    weighted_rows,
)

NORM_GROUPS = 8


class SharedMLP(nn.Module):
    """The same convolution of width 1, group norm and Swish for every point, layer after layer."""

    def __init__(self, width: int, widths: Sequence[int], dimensions: int) -> None:
        super().__init__()
        convolution = nn.Conv1d if dimensions == 1 else nn.Conv2d
        layers: list[nn.Module] = []
        for out in widths:
            layers += [convolution(width, out, 1), nn.GroupNorm(NORM_GROUPS, out), nn.SiLU()]
            width = out
        self.layers = nn.Sequential(*layers)

    def first(self) -> tuple[Tensor, Tensor]:
        """Return the first layer's matrix (out, in) and bias, for callers who apply it in parts."""
        convolution = self.layers[0]
        return convolution.weight.flatten(1), convolution.bias  # type: ignore

    def finish(self, rows: Tensor, batch: int, weights: Tensor | None = None) -> Tensor:
        """Return rows (B * N, out) after everything behind the first convolution."""
        for index in range(0, len(self.layers), 3):
            convolution, norm = self.layers[index], self.layers[index + 1]
            if index:
                rows = functional.linear(rows, convolution.weight.flatten(1), convolution.bias)
            rows = functional.silu(norm_rows(norm, rows, batch, weights))
        return rows

    def forward(self, rows: Tensor, batch: int) -> Tensor:
        """Return rows (B * N, out) for rows (B * N, in)."""
        return self.finish(functional.linear(rows, *self.first()), batch)


class PointAttention(nn.Module):
    """Single-head attention over tokens without a scale, its input added, then norm and Swish."""

    def __init__(self, width: int, dimensions: int) -> None:
        super().__init__()
        convolution = nn.Conv3d if dimensions == 3 else nn.Conv1d
        self.q = convolution(width, width, 1)
        self.k = convolution(width, width, 1)
        self.v = convolution(width, width, 1)
        self.out = convolution(width, width, 1)
        self.norm = nn.GroupNorm(NORM_GROUPS, width)

    def rows(self, rows: Tensor, batch: int) -> Tensor:
        """Return rows (B * T, C) after attention among each sample's T rows."""
        # Logits without 1/sqrt(C) leave float16's range, so this stays in single precision.
        with torch.autocast(rows.device.type, enabled=False):
            rows = rows.float()
            tokens = rows.view(batch, 1, -1, rows.shape[1])
            q, k, v = (
                functional.linear(tokens, part.weight.flatten(1), part.bias)
                for part in (self.q, self.k, self.v)
            )
            read = functional.scaled_dot_product_attention(q, k, v, scale=1.0)
            summed = functional.linear(read, self.out.weight.flatten(1), self.out.bias) + tokens
            return functional.silu(norm_rows(self.norm, summed.view_as(rows), batch))

    def forward(self, grid: Tensor) -> Tensor:
        """Return a grid (B, C, R, R, R) after attention among its voxels."""
        return rows_to_grid(self.rows(grid_to_rows(grid), len(grid)), len(grid), grid.shape[-1])


class SqueezeExcite(nn.Module):
    """Scales the channels of a grid by what their means say."""

    def __init__(self, width: int, reduction: int = 8) -> None:
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(width, width // reduction, bias=False),
            nn.ReLU(),
            nn.Linear(width // reduction, width, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, grid: Tensor) -> Tensor:
        """Return the scaled grid (B, C, R, R, R)."""
        return grid * self.fc(grid.mean((2, 3, 4)))[:, :, None, None, None]


class GridConv(nn.Conv3d):
    """A convolution of width 3 on a grid, by way of the faster of PyTorch's CPU kernels.

    oneDNN is used above 20,480 values in the first four dimensions or for several samples (torch's
    ConvParams::use_mkldnn); the kernel used otherwise is up to 13 times slower per value.
    """

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out, 3, padding=1)

    def forward(self, grid: Tensor) -> Tensor:
        """Return a grid (B, out, R, R, R) for one (B, in, R, R, R)."""
        batch, width, side = grid.shape[:3]
        alone = grid.device.type == "cpu" and batch == 1
        if alone and side >= 16 and width * side * side <= 20_480:
            return super().forward(grid.expand(2, -1, -1, -1, -1))[:1]
        return super().forward(grid)


class PVConv(nn.Module):
    """Convolutions on a voxel grid, read back at the points, plus a shared MLP of the points."""

    def __init__(
        self, width: int, out: int, resolution: int, dropout: float, attention: bool
    ) -> None:
        super().__init__()
        self.resolution = resolution
        layers: list[nn.Module] = [
            GridConv(width, out),
            nn.GroupNorm(NORM_GROUPS, out),
            nn.SiLU(),
            nn.Dropout(dropout),
            GridConv(out, out),
            nn.GroupNorm(NORM_GROUPS, out),
        ]
        layers += [PointAttention(out, 3)] if attention else [nn.SiLU(), SqueezeExcite(out)]
        self.voxel_layers = nn.Sequential(*layers)
        self.point_features = SharedMLP(width, [out], 1)

    def forward(self, rows: Tensor, level: PointLevel) -> Tensor:
        """Return rows (B * N, out) for rows (B * N, in) of a level's points."""
        batch, voxels = len(level.points), level.grid(self.resolution)
        grid = rows_to_grid(average_into_voxels(rows, voxels), batch, self.resolution)
        for layer in self.voxel_layers:
            if isinstance(layer, nn.GroupNorm):
                # PyTorch's own on channels_last loses digits where most voxels are empty.
                normal = norm_rows(layer, grid_to_rows(grid), batch)
                grid = rows_to_grid(normal, batch, self.resolution)
            else:
                grid = layer(grid)
        return read_from_voxels(grid_to_rows(grid), voxels) + self.point_features(rows, batch)


def norm_rows(
    norm: nn.GroupNorm, rows: Tensor, batch: int, weights: Tensor | None = None
) -> Tensor:
    """Return rows (B * N, C) after a group norm over each sample's rows."""
    scale, shift = norm.weight, norm.bias
    return group_norm_rows(rows, weights, norm.num_groups, scale, shift, norm.eps, batch)


def rows_to_grid(rows: Tensor, batch: int, side: int) -> Tensor:
    """Return voxels (B * R³, C) as a grid (B, C, R, R, R) in channels_last_3d, without a copy."""
    return rows.view(batch, side, side, side, -1).permute(0, 4, 1, 2, 3)


def grid_to_rows(grid: Tensor) -> Tensor:
    """Return a grid (B, C, R, R, R) as voxels (B * R³, C)."""
    return grid.permute(0, 2, 3, 4, 1).reshape(-1, grid.shape[1])


class SetAbstraction(nn.Module):
    """From points to fewer centres: a shared MLP of each group, then the maximum over the group."""

    def __init__(self, width: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.mlps = nn.ModuleList([SharedMLP(width + 3, widths, 2)])

    def forward(self, rows: Tensor, groups: Groups) -> Tensor:
        """Return the centres' rows (B * M, out) for the points' rows (B * N, in).

        Every distinct neighbour is computed once and weighted in the norm's statistics by the
        slots it fills; the first convolution acts on the points before they are gathered.
        """
        mlp = self.mlps[0]
        matrix, bias = mlp.first()  # type: ignore[operator]
        # Grouped tensors hold [relative position, features], in this order.
        ahead = functional.linear(rows, matrix[:, 3:])
        found = []
        for sample, (begin, end) in enumerate(groups.spans):
            here = functional.linear(groups.offsets[begin:end], matrix[:, :3], bias)
            here = here + ahead.index_select(0, groups.members[begin:end])
            here = mlp.finish(here, 1, groups.weights[begin:end])  # type: ignore[operator]
            found.append(largest_of_groups(here, groups, sample))
        return torch.cat(found)


class FeaturePropagation(nn.Module):
    """From centres back to the finer points: interpolation, the skipped features, a shared MLP."""

    def __init__(self, width: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.mlp = SharedMLP(width, widths, 1)

    def forward(
        self, coarse: Tensor, time: Tensor, skip: Tensor | None, finer: PointLevel
    ) -> Tensor:
        """Return rows (B * N, out) from coarse rows (B * M, C), time (B, E) and skip (B * N, S).

        The first convolution acts before the interpolation, with which it commutes, and on the
        time embedding once a sample, since it is the same at every point.
        """
        batch = len(time)
        matrix, bias = self.mlp.first()
        width = coarse.shape[1]
        parts = [width, time.shape[1], matrix.shape[1] - width - time.shape[1]]
        of_coarse, of_time, of_skip = matrix.split(parts, dim=1)
        assert finer.nearest is not None and finer.shares is not None
        rows = weighted_rows(functional.linear(coarse, of_coarse), finer.nearest, finer.shares)
        constant = functional.linear(time, of_time, bias)
        rows = (rows.view(batch, -1, rows.shape[1]) + constant[:, None]).flatten(0, 1)
        if skip is not None:
            rows = rows + functional.linear(skip, of_skip)
        return self.mlp.finish(rows, batch)
