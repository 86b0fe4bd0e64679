"""The network of 1,085,272 parameters: points (B, N, 3) to oriented points (B, 7N, 3).

A point encoder with local max pooling, a 3D U-Net over its feature grid, and two decoders that
predict seven offsets and a normal for each point. Architecture of Shape As Points (Peng et al.,
NeurIPS 2021) as configured by PCDiff (Friedrich et al., MICCAI 2023); tensor names and shapes are
those of their checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.common.settings_parser import SettingsError
from trainers.voxelization.unet3d import UNet3D

WRAPPERS = re.compile(r"(?<![\w])(?:module|_orig_mod)\.")
"""What DDP and torch.compile add anywhere in a tensor's name; `basic_module.` is not that."""


@dataclass(frozen=True)
class Architecture:
    """Sizes of the network; the defaults are the published ones."""

    c_dim: int = 32
    hidden_dim: int = 32
    grid_resolution: int = 32
    num_levels: int = 3
    f_maps: int = 32
    hidden_size: int = 32
    num_offset: int = 7
    s_offset: float = 0.001
    local_coord: bool = True
    normal_normalize: bool = False
    sample_mode: str = "bilinear"


class ResnetBlockFC(nn.Module):
    """x ↦ shortcut(x) + fc_1(relu(fc_0(relu(x)))), fc_1 starting at zero: (…, a) → (…, b)."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__()
        between = min(size_in, size_out)
        self.fc_0 = nn.Linear(size_in, between)
        self.fc_1 = nn.Linear(between, size_out)
        nn.init.zeros_(self.fc_1.weight)
        self.shortcut = nn.Linear(size_in, size_out, bias=False) if size_in != size_out else None

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        change = self.fc_1(functional.relu(self.fc_0(functional.relu(x))))
        return cast(Tensor, (x if self.shortcut is None else self.shortcut(x)) + change)


def bounded(points: Tensor) -> Tensor:
    """Return points with coordinates of 1 and more at 1 − 1e-5 and negative ones at 0."""
    points = torch.where(points >= 1, torch.full_like(points, 1 - 1e-5), points)
    return torch.where(points < 0, torch.zeros_like(points), points)


def local_coordinates(points: Tensor, resolution: int) -> Tensor:
    """Return where in its cell each point lies, 0…1, of the coordinates as they are."""
    return points.remainder(1 / resolution) * resolution


class Encoder(nn.Module):
    """Points (B, N, 3) in [0, 1) to a feature grid (B, c_dim, R, R, R) with axes z, y, x."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        hidden, self.resolution = sizes.hidden_dim, sizes.grid_resolution
        self.fc_pos = nn.Linear(3, 2 * hidden)
        self.blocks = nn.ModuleList(ResnetBlockFC(2 * hidden, hidden) for _ in range(5))
        self.fc_c = nn.Linear(hidden, sizes.c_dim)
        self.unet3d = UNet3D(sizes.c_dim, sizes.c_dim, sizes.f_maps, sizes.num_levels)
        self.local = sizes.local_coord

    def forward(self, points: Tensor) -> Tensor:
        """Describe points, pool within cells between the blocks, and convolve the cells' means."""
        batch = len(points)
        cells = (bounded(points) * self.resolution).long()
        flat = cells[..., 0] + self.resolution * (cells[..., 1] + self.resolution * cells[..., 2])
        start = local_coordinates(points, self.resolution) if self.local else points
        features = self.blocks[0](self.fc_pos(start))
        for block in list(self.blocks)[1:]:
            features = block(torch.cat([features, self._pooled(features, flat)], -1))
        features = self.fc_c(features)
        grid = self._reduced(features, flat, "mean")
        side = (self.resolution,) * 3
        return cast(Tensor, self.unet3d(grid.transpose(1, 2).reshape(batch, -1, *side)))

    def _pooled(self, features: Tensor, flat: Tensor) -> Tensor:
        """Return per point the largest features of its cell."""
        most = self._reduced(features, flat, "amax")
        return most.gather(1, flat[..., None].expand_as(features))

    def _reduced(self, features: Tensor, flat: Tensor, how: str) -> Tensor:
        """Return (B, R³, C): features reduced over the points of each cell, 0 in empty cells."""
        grid = features.new_zeros(features.shape[0], self.resolution**3, features.shape[2])
        index = flat[..., None].expand_as(features)
        return grid.scatter_reduce(1, index, features, how, include_self=False)


class FeatureDecoder(nn.Module):
    """Coordinates (B, N, 3) and a feature grid to `size_out` values per point."""

    def __init__(self, sizes: Architecture, size_out: int) -> None:
        super().__init__()
        width = sizes.hidden_size
        self.fc_c = nn.ModuleList(nn.Linear(sizes.c_dim, width) for _ in range(5))
        self.fc_p = nn.Linear(3, width)
        self.blocks = nn.ModuleList(ResnetBlockFC(width, width) for _ in range(5))
        self.fc_out = nn.Linear(width, size_out)
        self.mode = sizes.sample_mode

    def forward(self, points: Tensor, grid: Tensor, coordinates: Tensor) -> Tensor:
        """Look features up at the points and turn the coordinates into values with them."""
        where = 2 * bounded(points)[:, :, None, None] - 1
        looked_up = functional.grid_sample(
            grid, where, mode=self.mode, padding_mode="border", align_corners=True
        )
        features = looked_up[..., 0, 0].transpose(1, 2)
        state = self.fc_p(coordinates)
        for add, block in zip(self.fc_c, self.blocks, strict=True):
            state = block(state + add(features))
        return cast(Tensor, self.fc_out(functional.relu(state)))


class Voxelizer(nn.Module):
    """Points (B, N, 3) in [0, 1) to points and normals, both (B, num_offset · N, 3)."""

    def __init__(self, sizes: Architecture | None = None) -> None:
        super().__init__()
        self.sizes = sizes = sizes or Architecture()
        self.encoder = Encoder(sizes)
        self.decoder_normal = FeatureDecoder(sizes, 3)
        self.decoder_offset = FeatureDecoder(sizes, 3 * sizes.num_offset)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the offset points, kept within 0…0.99, and their normals (not of unit length)."""
        sizes = self.sizes
        grid = self.encoder(points)
        local = local_coordinates(points, sizes.grid_resolution) if sizes.local_coord else points
        offsets = self.decoder_offset(points, grid, local)
        repeated = points.repeat_interleave(sizes.num_offset, 1)
        moved = repeated + sizes.s_offset * offsets.reshape(repeated.shape)
        normals = self.decoder_normal(moved, grid, moved)
        if sizes.normal_normalize:
            normals = functional.normalize(normals, dim=-1)
        return moved.clamp(0, 0.99), normals


def load_weights(model: Voxelizer, state: Mapping[str, Any], source: object) -> None:
    """Load a state dict strictly, DDP's and torch.compile's prefixes taken off wherever they are.

    Raises SettingsError that names the first tensor which is missing, unknown or ill-sized.
    """
    named = {WRAPPERS.sub("", name): tensor for name, tensor in state.items()}
    expected = model.state_dict()
    wrong = sorted(set(expected) ^ set(named))
    if wrong:
        which = "missing" if wrong[0] in expected else "unknown to this network"
        raise SettingsError(f"{source}: tensor {wrong[0]} is {which} ({len(wrong)} such)")
    for name, tensor in expected.items():
        if named[name].shape != tensor.shape:
            raise SettingsError(
                f"{source}: tensor {name} has shape {tuple(named[name].shape)}, this network's"
                f" is {tuple(tensor.shape)}; the configuration's sizes differ from the file's"
            )
    model.load_state_dict(named)
