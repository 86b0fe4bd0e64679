"""Parts of a stage: attention, transformer blocks, X-ray encoder, lifting of views to a volume."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainers.cascade.geometry import PARALLEL, Geometry


def sinusoids(values: Tensor, width: int, highest: float = 10_000.0) -> Tensor:
    """Return sines and cosines (B, width) of values (B,) at frequencies that fall geometrically."""
    half = width // 2
    rates = torch.exp(-math.log(highest) * torch.arange(half, device=values.device) / half)
    angles = values.float()[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class TokenAttention(nn.Module):
    """Multi-head attention of tokens (B, N, dim) to a context, or to themselves without one.

    The context is (B, M, context_dim). Scores are never kept: PyTorch's fused kernels need memory
    in proportion to N + M.
    """

    def __init__(self, dim: int, heads: int, context_dim: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(context_dim or dim, 2 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor, context: Tensor | None = None) -> Tensor:
        """Return (B, N, dim)."""
        queries = self.q(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        pairs = self.kv(tokens if context is None else context).unflatten(-1, (2, self.heads, -1))
        keys, values = pairs.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Self-attention, attention to the X-rays and an MLP, each modulated by a condition.

    The condition scales, shifts and gates. The gates start at zero (adaLN-Zero, Peebles & Xie
    2023), so that an untrained block passes its tokens through.
    """

    def __init__(self, dim: int, heads: int, context_dim: int, condition_dim: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim, elementwise_affine=False) for _ in range(3))
        self.self_attention = TokenAttention(dim, heads)
        self.cross_attention = TokenAttention(dim, heads, context_dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.modulation = nn.Linear(condition_dim, 9 * dim)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, tokens: Tensor, context: Tensor, condition: Tensor) -> Tensor:
        """Return tokens (B, N, dim).

        The context is (B, M, context_dim), the condition (B, condition_dim).
        """
        parts = self.modulation(condition)[:, None].chunk(9, dim=-1)
        layers = (self.self_attention, lambda x: self.cross_attention(x, context), self.mlp)
        for place, layer in enumerate(layers):
            shift, scale, gate = parts[3 * place : 3 * place + 3]
            tokens = tokens + gate * layer(self.norms[place](tokens) * (1 + scale) + shift)
        return tokens


class XrayEncoder(nn.Module):
    """Turns one view (B, 1, S, S) into features (B, C, S/8, S/8)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for width, kernel in ((channels // 4, 7), (channels // 2, 3), (channels, 3)):
            layers += [nn.Conv2d(before, width, kernel, stride=2, padding=kernel // 2)]
            layers += [nn.GroupNorm(groups_of(width), width), nn.SiLU()]
            before = width
        layers += [
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(groups_of(channels), channels),
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        """Return features of images."""
        return self.layers(image)


def groups_of(channels: int) -> int:
    """Return a number of groups for GroupNorm that divides the channels."""
    return math.gcd(8, channels)


class Lifting(nn.Module):
    """Spreads each view's features along its own rays into a grid of tokens, views side by side.

    With learned depth every pixel says how its features are shared out among the tokens on its ray;
    without, all get the same. Upstream's lifting holds 512 channels at D x 64 x 64; this one works
    on the grid of tokens.
    """

    def __init__(
        self,
        views: Sequence[str],
        channels: int,
        grid: int,
        dim: int,
        learned_depth: bool,
        geometry: Geometry = PARALLEL,
    ) -> None:
        super().__init__()
        self.views, self.grid, self.geometry = tuple(views), grid, geometry
        self.depths = (
            nn.ModuleList(nn.Conv2d(channels, grid, 1) for _ in views) if learned_depth else None
        )
        self.mix = nn.Linear(len(self.views) * channels, dim)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Return tokens (B, grid^3, dim) from features (B, C, h, w) of each view."""
        lifted = []
        for place, (view, feature) in enumerate(zip(self.views, features, strict=True)):
            pixels = F.interpolate(feature, size=(self.grid, self.grid), mode="area")
            volume = self.geometry.spread(pixels, view, self.grid)
            if self.depths is not None:
                shares = self.depths[place](pixels).softmax(1) * self.grid
                volume = volume * self.geometry.spread_depths(shares, view)
            lifted.append(volume)
        return self.mix(torch.cat(lifted, dim=1).flatten(2).transpose(1, 2))
