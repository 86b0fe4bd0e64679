"""PVCNN++ as PCDiff has it: the noise of the implant's points, given all points and the time.

27,648,963 parameters in 296 tensors; 62,181,411 at width 1.5 and embedding 96. Sizes and names
follow the published checkpoints (pfriedri/pcdiff-implant and DimensionLab/pcdiff-implant, MIT).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainers.common.errors import SettingsError
from trainers.pcdiff.geometry import Ball, PointLevel, fastest_search, search_on, survey
from trainers.pcdiff.layers import (
    NORM_GROUPS,
    FeaturePropagation,
    PointAttention,
    PVConv,
    SetAbstraction,
    SharedMLP,
)

FULL_POINTS = 30_720


@dataclass(frozen=True)
class Down:
    """A set abstraction stage: its point-voxel convolutions, then its grouping."""

    convolutions: tuple[tuple[int, int], ...]
    attention: bool
    centres: int
    radius: float
    widths: tuple[int, ...]


@dataclass(frozen=True)
class Up:
    """A feature propagation stage: its MLP, then its point-voxel convolutions."""

    widths: tuple[int, ...]
    convolution: int
    repeats: int
    resolution: int


# Only the first stage gets all the convolutions its specification names; the published
# checkpoints were trained so.
DOWN = (
    Down(((32, 32), (32, 32)), False, 10_240, 0.1, (32, 64)),
    Down(((64, 16),), True, 2_560, 0.2, (64, 128)),
    Down(((128, 8),), False, 640, 0.4, (128, 256)),
    Down((), False, 160, 0.8, (256, 256, 512)),
)
UP = (
    Up((256, 256), 256, 3, 8),
    Up((256, 256), 256, 3, 8),
    Up((256, 128), 128, 2, 16),
    Up((128, 128, 64), 64, 2, 32),
)
SLOTS = 128
HEAD = 128
MOST_UP = max(step.repeats for step in UP)
"""Point-voxel convolutions of an upward stage that has the most; small networks take fewer."""


@dataclass(frozen=True)
class Sizes:
    """What a network is built from; the defaults are the published network's."""

    points: int = FULL_POINTS
    implant_points: int = 3_072
    embedding: int = 64
    width: float = 1.0
    voxels: float = 1.0
    dropout: float = 0.1
    attention: bool = True
    head_dropout: float = 0.5
    up_convolutions: int = MOST_UP

    def check(self) -> None:
        """Raise SettingsError where a width cannot be divided into the norms' groups."""
        narrow = [int(self.width * width) for stage in (*DOWN, *UP) for width in stage.widths]
        bad = sorted({width for width in narrow if width < NORM_GROUPS or width % NORM_GROUPS})
        if bad:
            raise SettingsError(
                f"--width_mult {self.width:g} makes layers of {bad[0]} channels; a multiple of"
                f" {NORM_GROUPS} is needed: take a multiple of 0.25"
            )
        if int(self.voxels * 8) < 2:
            raise SettingsError(
                f"--vox_res_mult {self.voxels:g} leaves grids of less than 2 voxels"
            )

    def balls(self) -> tuple[Ball, ...]:
        """Return how the stages group; other point counts scale centres and radii by density."""
        ratio = self.points / FULL_POINTS
        return tuple(
            Ball(max(round(stage.centres * ratio), 1), stage.radius / math.sqrt(ratio), SLOTS)
            for stage in DOWN
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as plain types, for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Sizes:
        """Return the sizes that as_dict gave."""
        return cls(**found)


class PVCNN(nn.Module):
    """Predicts noise (B, 3, N) for points (B, 3, N) at timesteps (B,); N = skull + implant."""

    def __init__(self, sizes: Sizes, search: str = "auto") -> None:
        super().__init__()
        self.sizes, self.search, self.balls = sizes, search, sizes.balls()
        channels, skips = 3, []
        stages: list[nn.Module] = []
        for index, stage in enumerate(DOWN):
            blocks: list[nn.Module] = []
            if index:
                channels += sizes.embedding
            for _number, (width, resolution) in enumerate(stage.convolutions):
                out, attends = self._width(width), stage.attention and sizes.attention
                blocks.append(self._convolution(channels, out, resolution, attends))
                channels = out
            grouped = SetAbstraction(channels, [self._width(width) for width in stage.widths])
            channels = self._width(stage.widths[-1])
            stages.append(nn.ModuleList([*blocks, grouped]) if blocks else grouped)
            skips.append(channels)
        self.sa_layers = nn.ModuleList(stages)
        self.global_att = PointAttention(channels, 1) if sizes.attention else None
        ups: list[nn.Module] = []
        for index, step in enumerate(UP):
            skip = skips[2 - index] if index < 3 else 0
            widths = [self._width(width) for width in step.widths]
            ups.append(
                nn.ModuleList(
                    [FeaturePropagation(channels + sizes.embedding + skip, widths)]
                    + [
                        self._convolution(widths[-1], widths[-1], step.resolution, False)
                        for _ in range(min(step.repeats, sizes.up_convolutions))
                    ]
                )
            )
            channels = widths[-1]
        self.fp_layers = nn.ModuleList(ups)
        head = self._width(HEAD)
        self.classifier = nn.Sequential(
            SharedMLP(channels, [head], 1), nn.Dropout(sizes.head_dropout), nn.Conv1d(head, 3, 1)
        )
        width = sizes.embedding
        self.embedf = nn.Sequential(
            nn.Linear(width, width), nn.LeakyReLU(0.1), nn.Linear(width, width)
        )

    def _width(self, width: int) -> int:
        return int(self.sizes.width * width)

    def _convolution(self, channels: int, out: int, resolution: int, attends: bool) -> PVConv:
        side = int(self.sizes.voxels * resolution)
        return PVConv(channels, out, side, self.sizes.dropout, attends)

    def warm_up(self, phase: Callable[[str, str], None], shape: tuple[int, int]) -> None:
        """Have the neighbour searches compiled before the first step, and say so.

        On a GPU `auto` is the one that is fastest there for clouds of the shape (B, N).
        """
        device = next(self.parameters()).device
        if self.search == "auto" and device.type == "cuda":
            phase("compiling", "neighbour searches, each measured once")
            self.search, measured = fastest_search(device, shape, self.balls)
            phase("compiling", f"neighbour searches: {self.search} is taken ({measured})")
        elif search_on(device, self.search) == "numba":
            phase("compiling", "neighbour searches by numba; kept for the next start")
            line = torch.linspace(0, 1, 192, device=device).view(1, 64, 3)
            survey(line, [Ball(8, 0.2, 4)], self.search)

    def forward(
        self, points: Tensor, timesteps: Tensor, levels: list[PointLevel] | None = None
    ) -> Tensor:
        """Return the noise (B, 3, N); levels are `survey`'s of these points where known already."""
        batch = len(points)
        if levels is None:
            # While it trains, points are those of clouds that were checked.
            cloud = points.transpose(1, 2)
            levels = survey(cloud, self.balls, self.search, known_finite=self.training)
        time = self.embedf(timestep_embedding(timesteps, self.sizes.embedding))
        rows = points.transpose(1, 2).reshape(-1, 3)
        skips: list[Tensor | None] = [None]
        for index, stage in enumerate(self.sa_layers):
            if index:
                skips.append(rows)
                rows = torch.cat([rows, time.repeat_interleave(len(rows) // batch, 0)], 1)
            *convolutions, grouped = stage if isinstance(stage, nn.ModuleList) else [stage]
            for convolution in convolutions:
                rows = convolution(rows, levels[index])
            rows = grouped(rows, levels[index].groups)
        if self.global_att is not None:
            rows = self.global_att.rows(rows, batch)
        for index, up in enumerate(self.fp_layers):
            finer = levels[len(DOWN) - 1 - index]
            propagated, *convolutions = up
            rows = propagated(rows, time, skips[-1 - index], finer)
            for convolution in convolutions:
                rows = convolution(rows, finer)
        rows = self.classifier[1](self.classifier[0](rows, batch))
        last = self.classifier[2]
        rows = nn.functional.linear(rows, last.weight.flatten(1), last.bias)
        return rows.view(batch, -1, 3).transpose(1, 2)


def timestep_embedding(timesteps: Tensor, width: int) -> Tensor:
    """Return the sinusoidal embedding (B, width) of whole timesteps (B,): sines, then cosines."""
    half = width // 2
    steps = torch.arange(half, device=timesteps.device, dtype=torch.float32)
    frequencies = torch.exp(steps * (-math.log(10_000) / (half - 1)))
    angles = timesteps.float()[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)
