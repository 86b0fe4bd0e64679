"""The decoders: from the features of an image to 3D Gaussians.

Layer sizes, outputs and the names in a state dict are those of the Fresnel project's experiments 2
(an MLP for every patch), 4 (points of a Fibonacci spiral) and 5 (a neural cellular automaton on the
same points).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainers.common.errors import SettingsError
from trainers.gaussian.geometry import (
    GRID,
    OUTPUTS,
    SIGMOID,
    Layout,
    start_of_layers,
    to_gaussians,
    upstream_gaussians,
    upstream_places,
)
from trainers.gaussian.projection import Gaussians

HIDDEN = {2: (512, 512, 256, 128), 4: (512, 256, 128)}
SPIRAL_POINTS = 377
DEPTH_FEATURES = 64
OCTAVES = 8
MEANING = 3
"""What weights mean, counted up whenever the same names and shapes come to compute something else.
"""


@dataclass(frozen=True)
class DecoderSettings:
    """What decides a decoder's layers; `geometry` is one of GEOMETRIES."""

    experiment: int = 2
    feature_dim: int = 384
    gaussians_per_patch: int = 4
    depth_fusion: bool = False
    depth_feature_dim: int = DEPTH_FEATURES
    pose_encoding: bool = False
    spiral_points: int = SPIRAL_POINTS
    nca_steps: int = 16
    nca_neighbours: int = 6
    nca_step_size: float = 0.1
    geometry: str = "patch"
    dropout: float = 0.0


class PatchWindow(NamedTuple):
    """A square part of the patch grid: first row, first column, patches a side."""

    row: int
    column: int
    side: int

    def cut(self, grid: Tensor) -> Tensor:
        """Return the window's part of (...,37,37)."""
        return grid[..., self.row : self.row + self.side, self.column : self.column + self.side]


class HiddenLayers(nn.Module):
    """Linear layers with ReLU and dropout between them, named `net.0`, `net.3`, `net.6` …"""

    def __init__(self, width: int, hidden: tuple[int, ...], outputs: int, dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU(), nn.Dropout(dropout)]
            width = size
        self.net = nn.Sequential(*layers, nn.Linear(width, outputs))

    def forward(self, features: Tensor) -> Tensor:
        """Return (...,outputs) for (...,width)."""
        found: Tensor = self.net(features)
        return found


class DepthEncoder(nn.Module):
    """Three convolutions over disparity (B,1,S,S), averaged to the patch grid (B,D,37,37)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, width, 3, padding=1),
            nn.ReLU(),
        )

    def forward(self, disparity: Tensor) -> Tensor:
        """Encode and average."""
        return F.adaptive_avg_pool2d(self.encoder(disparity), GRID)


class PoseEncoder(nn.Module):
    """Elevation and azimuth (B,2) as sines and cosines of eight octaves, then an MLP: (B,64).

    Angles are in radians.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * OCTAVES, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pose: Tensor) -> Tensor:
        """Encode."""
        octaves = 2.0 ** torch.arange(OCTAVES, device=pose.device, dtype=pose.dtype)
        angles = pose.unsqueeze(-1) * octaves
        # Sines and cosines of the elevation, then of the azimuth: upstream's order.
        encoded: Tensor = self.mlp(torch.cat((angles.sin(), angles.cos()), dim=-1).flatten(1))
        return encoded


class GaussianDecoder(nn.Module):
    """What all decoders share: a learned distance of the nearest plane, and their layout."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        self.settings = settings
        # Lengths grow with distance, so the image cannot tell how far away everything is: this
        # hardly moves.
        self.depth_offset = nn.Parameter(torch.tensor(-2.0))

    @property
    def slots(self) -> int:
        """Gaussians for each point."""
        return 1

    @property
    def gaussians(self) -> int:
        """Gaussians an image."""
        return self.settings.spiral_points


class DirectPatchDecoder(GaussianDecoder):
    """Decodes features (B,C,37,37) into 37·37·K Gaussians, each patch by itself (experiment 2)."""

    patches_across: Tensor
    patches_down: Tensor

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__(settings)
        k = settings.gaussians_per_patch
        width = settings.feature_dim
        if settings.depth_fusion:
            self.depth_encoder = DepthEncoder(settings.depth_feature_dim)
            width += settings.depth_feature_dim
        self.mlp = HiddenLayers(width, HIDDEN[2], k * OUTPUTS, settings.dropout)
        if settings.pose_encoding:
            self.pose_encoder = PoseEncoder()
            self.opacity_modulator = nn.Sequential(
                nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid()
            )
        layout = Layout.of_patches(settings.geometry)
        self.register_buffer("patches_across", layout.across, persistent=False)
        self.register_buffer("patches_down", layout.down, persistent=False)
        self.layout = layout
        start_of_layers(self.mlp.net, k, settings.geometry)

    @property
    def slots(self) -> int:
        """Gaussians for each patch."""
        return self.settings.gaussians_per_patch

    @property
    def gaussians(self) -> int:
        """Gaussians an image."""
        return GRID * GRID * self.slots

    def patch_depths(self, disparity: Tensor) -> Tensor:
        """Return the disparity (B,37,37) of each patch of (B,1,H,W).

        Ours is the patch's mean; upstream's the bilinear value in its middle, which sees four
        pixels however large the patch is.
        """
        if self.settings.geometry == "upstream":
            return F.interpolate(disparity, size=(GRID, GRID), mode="bilinear")[:, 0]
        return patch_means(disparity)

    def forward(
        self,
        features: Tensor,
        disparity: Tensor | None = None,
        slots: int | None = None,
        pose: Tensor | None = None,
        window: PatchWindow | None = None,
    ) -> Gaussians:
        """Decode features (B,C,37,37) and disparity (B,1,H,W), or None for a plane.

        Disparity is in [0,1], 1 nearest. With slots < K only the first Gaussians of each patch are
        made, widened to cover the same area; with a window only its patches are; pose (B,2),
        elevation and azimuth in radians, tells the pose encoder from where the Gaussians will be
        seen.
        """
        k, used = self.slots, min(slots or self.slots, self.slots)
        window = window or PatchWindow(0, 0, GRID)
        inputs = window.cut(features)
        if self.settings.depth_fusion:
            seen = torch.zeros_like(features[:, :1]) if disparity is None else disparity
            inputs = torch.cat((inputs, window.cut(self.depth_encoder(seen))), dim=1)
        raw = self.mlp(inputs.permute(0, 2, 3, 1)).unflatten(-1, (k, OUTPUTS))[..., :used, :]
        depths = None if disparity is None else window.cut(self.patch_depths(disparity)).flatten(1)
        places = (self.patches_across, self.patches_down)
        across, down = (window.cut(part.view(GRID, GRID)).flatten() for part in places)
        points = self.layout._replace(across=across, down=down)
        made = to_gaussians(
            raw.flatten(1, 2), points, depths, self.depth_offset, math.sqrt(k / used)
        )
        if self.settings.pose_encoding and pose is not None:
            strength = 0.5 + self.opacity_modulator(self.pose_encoder(pose))
            made = made._replace(opacities=(made.opacities * strength).clamp(0, 1))
        return made


class SpiralDecoder(GaussianDecoder):
    """What experiments 4 and 5 share: features and depths sampled at a Fibonacci spiral."""

    spiral_x: Tensor
    spiral_y: Tensor

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__(settings)
        index = torch.arange(settings.spiral_points, dtype=torch.float32)
        radius, angle = (
            (index / settings.spiral_points).sqrt(),
            index * math.pi * (3 - math.sqrt(5)),
        )
        self.register_buffer("spiral_x", radius * angle.cos())
        self.register_buffer("spiral_y", radius * angle.sin())

    @property
    def points(self) -> Layout:
        """Where the points lie; ours are stretched from the disc to the whole square."""
        return Layout.of_spiral(self.spiral_x, self.spiral_y, self.settings.geometry)

    def at_points(self, grid: Tensor, points: Layout) -> Tensor:
        """Sample (B,C,H,W) at the points as (B,N,C), bilinearly."""
        places = torch.stack((points.across, points.down), dim=-1).view(1, 1, -1, 2)
        sampled = F.grid_sample(
            grid,
            places.expand(grid.shape[0], -1, -1, -1),
            align_corners=True,
            padding_mode="border",
        )
        return sampled[:, :, 0].transpose(1, 2)


class FibonacciPatchDecoder(SpiralDecoder):
    """One Gaussian for each of 377 points, from the features there (experiment 4)."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__(settings)
        self.mlp = HiddenLayers(settings.feature_dim, HIDDEN[4], OUTPUTS, settings.dropout)
        start_of_layers(self.mlp.net, 1, settings.geometry)

    def forward(self, features: Tensor, disparity: Tensor | None = None, **_: Any) -> Gaussians:
        """Decode features (B,C,37,37) and disparity (B,1,H,W) or None."""
        points = self.points
        raw = self.mlp(self.at_points(features, points))
        depths = None if disparity is None else self.at_points(disparity, points)[..., 0]
        return to_gaussians(raw, points, depths, self.depth_offset)


class NCAGaussianDecoder(SpiralDecoder):
    """377 cells that exchange their states with six nearest neighbours, 16 times (5)."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__(settings)
        width = (1 + settings.nca_neighbours) * OUTPUTS
        self.step_size = nn.Parameter(torch.tensor(settings.nca_step_size))
        self.init_state_net = nn.Sequential(
            nn.Linear(settings.feature_dim, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, OUTPUTS),
        )
        self.perception = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 128))
        self.update_rule = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, OUTPUTS))
        start_of_layers(self.init_state_net, 1, settings.geometry)
        nn.init.zeros_(self.update_rule[-1].weight)
        nn.init.zeros_(self.update_rule[-1].bias)

    def forward(self, features: Tensor, disparity: Tensor | None = None, **_: Any) -> Gaussians:
        """Decode features (B,C,37,37) and disparity (B,1,H,W) or None.

        In our geometry the state holds offsets and z keeps to the depth. In upstream's it holds
        places, which the rule sees and moves, z too.
        """
        points, upstream = self.points, self.settings.geometry == "upstream"
        state = self.init_state_net(self.at_points(features, points))
        depths = None if disparity is None else self.at_points(disparity, points)[..., 0]
        if upstream:
            places = upstream_places(state.unsqueeze(2), points, depths, self.depth_offset)
            state = torch.cat((places.squeeze(2), state[..., 3:]), dim=-1)
        for _step in range(self.settings.nca_steps):
            where = state[..., :3]
            if not upstream:
                where = to_gaussians(state, points, depths, self.depth_offset).positions
            state = state + self.step_size * self.change(state, where.detach())
        if upstream:
            return upstream_gaussians(state[..., None, :3], state.unsqueeze(2))
        return to_gaussians(state, points, depths, self.depth_offset)

    def change(self, state: Tensor, places: Tensor) -> Tensor:
        """Return what one step adds to states (B,N,16) of cells at places (B,N,3)."""
        neighbours = 1 + self.settings.nca_neighbours
        near = torch.cdist(places, places).topk(neighbours, largest=False).indices
        messages = state.gather(1, near.flatten(1).unsqueeze(-1).expand(-1, -1, OUTPUTS))
        seen = F.relu(self.perception(messages.unflatten(1, near.shape[1:]).flatten(2)))
        change: Tensor = self.update_rule(seen)
        if self.training:
            change = change * torch.bernoulli(torch.full_like(change[..., :1], 0.5))
        return change


def patch_means(disparity: Tensor) -> Tensor:
    """Return the mean disparity (B,37,37) of each patch of (B,1,H,W)."""
    if disparity.shape[-1] == GRID:
        return disparity[:, 0]
    return F.adaptive_avg_pool2d(disparity, GRID)[:, 0]


DECODERS: dict[int, type[GaussianDecoder]] = {
    2: DirectPatchDecoder,
    4: FibonacciPatchDecoder,
    5: NCAGaussianDecoder,
}


def make_decoder(settings: DecoderSettings) -> GaussianDecoder:
    """Return the decoder of an experiment."""
    return DECODERS[settings.experiment](settings)


def geometry_of(content: Mapping[str, Any]) -> str:
    """Return the geometry in which a checkpoint of this trainer means what it learnt.

    Before MEANING was 3, our geometry had colours of a sigmoid.
    """
    stated = str(content.get("geometry", "patch"))
    return SIGMOID if stated == "patch" and content.get("meaning", 1) < 3 else stated


def refuse_older_meaning(content: Mapping[str, Any], settings: DecoderSettings, path: Path) -> None:
    """Raise SettingsError where a checkpoint's weights mean something else than they do here.

    `content` is a checkpoint of this trainer. Weights written before MEANING was 2 took the angles
    of a pose in another order, and in upstream's geometry moved offsets where they now move places.
    """
    older, geometry = content.get("meaning", 1) < 2, geometry_of(content)
    cells = settings.experiment == 5 and settings.geometry == "upstream"
    if older and (settings.pose_encoding or cells):
        what = "cells' places" if cells else "a pose's angles"
        raise SettingsError(
            f"{path} was written by an earlier version of this trainer, which read {what} otherwise"
            " than the Fresnel project does: its weights would draw something else; train it anew"
        )
    if geometry != settings.geometry:
        raise SettingsError(
            f"{path} was trained in the geometry {geometry}, not {settings.geometry}:"
            f" go on with --geometry {geometry}"
        )
