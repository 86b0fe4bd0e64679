"""The cascade: stages that turn noise into a CT volume, given X-rays and the volume before.

Sizes (voxel_dim, vit_depth, num_heads, volume_size) are those of the Hybrid-ViT-Cascade project's
configuration files. Every stage is a model of its own: what it learns leaves the stages before it
as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from trainers.cascade.blocks import Block, Lifting, XrayEncoder, groups_of, sinusoids
from trainers.cascade.geometry import PARALLEL, Geometry

CONTEXT_SIDE = 16
"""Tokens along each side of a view for cross-attention; larger feature maps are averaged down to
it.
"""


@dataclass(frozen=True)
class StageSizes:
    """What decides the shape of a stage's weights."""

    name: str
    size: int
    patch: int
    dim: int
    depth: int
    heads: int
    head_channels: int
    learned_depth: bool
    views: tuple[str, ...]
    share_view_weights: bool
    image_size: int
    previous: int | None
    geometry: Geometry = PARALLEL

    @property
    def grid(self) -> int:
        """Tokens along each side of the volume."""
        return self.size // self.patch


class CascadeStage(nn.Module):
    """Predicts v (or eps) for x_t at size^3.

    It is given x_t, t, the X-rays and, in later stages, the volume before. A head with a value for
    every voxel and convolutions that see x_t itself can express noise; one value for each token,
    enlarged, cannot.
    """

    def __init__(self, sizes: StageSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.gradient_checkpointing = False
        dim, channels, views = sizes.dim, max(16, sizes.dim // 2 // 8 * 8), len(sizes.views)
        self.encoders = nn.ModuleList(
            XrayEncoder(channels) for _ in range(1 if sizes.share_view_weights else views)
        )
        self.view_embedding = nn.Parameter(torch.randn(views, channels) * 0.02)
        side = min(CONTEXT_SIDE, sizes.image_size // 8)
        self.context_position = nn.Parameter(torch.randn(channels, side, side) * 0.02)
        self.lifting = Lifting(
            sizes.views, channels, sizes.grid, dim, sizes.learned_depth, sizes.geometry
        )
        # x_t, the views spread along their rays, and the enlarged volume before.
        self.inputs = 1 + views + (sizes.previous is not None)
        self.embed = nn.Conv3d(self.inputs, dim, sizes.patch, stride=sizes.patch)
        self.position = nn.Parameter(torch.randn(1, sizes.grid**3, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.summary = nn.Linear(views * channels, dim)
        self.level = nn.Linear(dim, dim) if sizes.previous is not None else None
        self.blocks = nn.ModuleList(
            Block(dim, sizes.heads, channels, dim) for _ in range(sizes.depth)
        )
        self.norm = nn.LayerNorm(dim)
        self.unpatch = nn.Linear(dim, sizes.head_channels * sizes.patch**3)
        self.head = VoxelHead(sizes.head_channels, self.inputs, dim)
        # Of the training volumes, once they are known: see standardise.
        self.register_buffer("centre", torch.zeros(1, *(sizes.size,) * 3))
        self.register_buffer("scale", torch.ones(()))
        self.register_load_state_dict_pre_hook(complete_older_weights)

    @property
    def regions(self) -> list[nn.Module]:
        """The parts that are compiled each by itself: one block's code serves all blocks."""
        return [*self.blocks, self.head]

    def standardise(self, volume: Tensor) -> Tensor:
        """Return volumes (..., 1, D, D, D) less the mean training volume, with deviation 1.

        Noise is added to these. Where all patients look alike the mean is most of a volume, and a
        model that has learnt nothing yet draws it instead of noise.
        """
        return (volume - self.centre) / self.scale

    def volume_of(self, standardised: Tensor) -> Tensor:
        """Return volumes in [-1, 1] from standardised ones."""
        return standardised * self.scale + self.centre

    def forward(
        self,
        x_t: Tensor,
        t: Tensor,
        xrays: Tensor,
        before: Tensor | None = None,
        level: Tensor | None = None,
    ) -> Tensor:
        """Return the prediction (B, 1, D, D, D).

        x_t is (B, 1, D, D, D), t (B,), xrays (B, V, S, S) in [-1, 1]; before (B, 1, d, d, d) is the
        volume of the stage before and level (B,) the deviation of the errors that it is said to
        have.
        """
        features = self.encode(xrays)
        voxels = self.voxel_inputs(x_t, xrays, before)
        condition = self.condition(t, features, level)
        tokens = (
            self.embed(voxels).flatten(2).transpose(1, 2) + self.lifting(features) + self.position
        )
        context = self.context(features)
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                tokens = checkpoint(block, tokens, context, condition, use_reentrant=False)
            else:
                tokens = block(tokens, context, condition)
        if self.gradient_checkpointing and self.training:
            return checkpoint(self.to_voxels, tokens, voxels, condition, use_reentrant=False)
        return self.to_voxels(tokens, voxels, condition)

    def encode(self, xrays: Tensor) -> list[Tensor]:
        """Return each view's features (B, C, S/8, S/8), told apart by an embedding of the view."""
        features = []
        for place in range(len(self.sizes.views)):
            encoder = self.encoders[place if len(self.encoders) > 1 else 0]
            features.append(
                encoder(xrays[:, place : place + 1]) + self.view_embedding[place, :, None, None]
            )
        return features

    def voxel_inputs(self, x_t: Tensor, xrays: Tensor, before: Tensor | None) -> Tensor:
        """Return what is known of every voxel (B, inputs, D, D, D)."""
        size = self.sizes.size
        known = [x_t]
        pixels = F.interpolate(xrays, size=(size, size), mode="area")
        for place, view in enumerate(self.sizes.views):
            known.append(self.sizes.geometry.spread(pixels[:, place : place + 1], view, size))
        if self.sizes.previous is not None:
            if before is None:
                raise ValueError(f"{self.sizes.name} needs the volume of the stage before")
            known.append(self.standardise(enlarge(before, size)))
        return torch.cat([part.to(x_t.dtype) for part in known], dim=1)

    def condition(self, t: Tensor, features: Sequence[Tensor], level: Tensor | None) -> Tensor:
        """Return one vector (B, dim) of time, the views' means and trust in the stage before."""
        dim = self.sizes.dim
        vector = self.time(sinusoids(t, dim)) + self.summary(
            torch.cat([f.mean((2, 3)) for f in features], dim=1)
        )
        if self.level is not None:
            if level is None:
                raise ValueError(
                    f"{self.sizes.name} needs the level of the errors of the stage before"
                )
            vector = vector + self.level(sinusoids(level * 1000, dim))
        return F.silu(vector)

    def context(self, features: Sequence[Tensor]) -> Tensor:
        """Return the tokens (B, V side^2, C) that cross-attention looks at."""
        side = self.context_position.shape[-1]
        pooled = [
            F.interpolate(f, size=(side, side), mode="area") + self.context_position
            for f in features
        ]
        return torch.cat([part.flatten(2).transpose(1, 2) for part in pooled], dim=1)

    def to_voxels(self, tokens: Tensor, voxels: Tensor, condition: Tensor) -> Tensor:
        """Return the prediction from tokens (B, grid^3, dim) and what is known of every voxel."""
        grid, patch = self.sizes.grid, self.sizes.patch
        cut = self.unpatch(self.norm(tokens)).view(
            len(tokens), grid, grid, grid, -1, patch, patch, patch
        )
        whole = cut.permute(0, 4, 1, 5, 2, 6, 3, 7).flatten(6, 7).flatten(4, 5).flatten(2, 3)
        return self.head(torch.cat((whole, voxels.to(whole.dtype)), dim=1), condition)


class VoxelHead(nn.Module):
    """Convolutions from tokens and voxel inputs to one number a voxel, zero before training.

    The condition scales and shifts its channels: how much of x_t belongs into v depends on t.
    """

    def __init__(self, channels: int, inputs: int, condition_dim: int) -> None:
        super().__init__()
        self.first = nn.Conv3d(channels + inputs, channels, 3, padding=1)
        self.second = nn.Conv3d(channels, channels, 3, padding=1)
        self.last = nn.Conv3d(channels, 1, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(groups_of(channels), channels) for _ in range(2))
        self.modulation = nn.Linear(condition_dim, 4 * channels)
        for layer in (self.last, self.modulation):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, voxels: Tensor, condition: Tensor) -> Tensor:
        """Return (B, 1, D, D, D) from (B, channels + inputs, D, D, D) and a condition.

        The condition is (B, condition_dim).
        """
        parts = self.modulation(condition)[:, :, None, None, None].chunk(4, dim=1)
        for place, layer in enumerate((self.first, self.second)):
            scale, shift = parts[2 * place : 2 * place + 2]
            voxels = F.silu(self.norms[place](layer(voxels)) * (1 + scale) + shift)
        return self.last(voxels)


def complete_older_weights(stage: CascadeStage, weights: dict[str, Tensor], *_: object) -> None:
    """Let weights without centre and scale, of an earlier version, mean what they did."""
    weights.setdefault("centre", torch.zeros_like(stage.centre))
    weights.setdefault("scale", torch.ones_like(stage.scale))


def enlarge(volume: Tensor, size: int) -> Tensor:
    """Return a volume (B, 1, d, d, d) at size^3, trilinear between the middles of voxels."""
    if volume.shape[-1] == size:
        return volume
    return F.interpolate(volume, size=(size, size, size), mode="trilinear", align_corners=False)


def reduce(volume: Tensor, size: int) -> Tensor:
    """Return a volume (B, 1, D, D, D) at size^3, each voxel the mean of those it covers."""
    return volume if volume.shape[-1] == size else F.adaptive_avg_pool3d(volume, size)
