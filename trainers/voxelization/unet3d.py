"""The 3D U-Net inside the encoder: names and shapes of pytorch-3dunet (Wolny et al., 2020)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class SingleConv(nn.Module):
    """GroupNorm, 3³ convolution without bias, ReLU: (B, cin, D, H, W) → (B, cout, D, H, W)."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.groupnorm = nn.GroupNorm(8 if channels_in >= 8 else 1, channels_in)
        self.conv = nn.Conv3d(channels_in, channels_out, 3, padding=1, bias=False)

    def forward(self, grid: Tensor) -> Tensor:
        """Normalise, convolve, rectify."""
        return functional.relu(self.conv(self.groupnorm(grid)))


class DoubleConv(nn.Module):
    """Two SingleConv; going down the first widens halfway, going up it narrows at once."""

    def __init__(self, channels_in: int, channels_out: int, down: bool) -> None:
        super().__init__()
        between = max(channels_out // 2, channels_in) if down else channels_out
        self.SingleConv1 = SingleConv(channels_in, between)
        self.SingleConv2 = SingleConv(between, channels_out)

    def forward(self, grid: Tensor) -> Tensor:
        """Apply both."""
        return cast(Tensor, self.SingleConv2(self.SingleConv1(grid)))


class UNetLevel(nn.Module):
    """One level of the U-Net; its block is called basic_module in published state dicts."""

    def __init__(self, channels_in: int, channels_out: int, down: bool) -> None:
        super().__init__()
        self.basic_module = DoubleConv(channels_in, channels_out, down)

    def forward(self, grid: Tensor) -> Tensor:
        """Apply the block."""
        return cast(Tensor, self.basic_module(grid))


class UNet3D(nn.Module):
    """(B, cin, R, R, R) → (B, cout, R, R, R); R divisible by 2^(levels − 1)."""

    def __init__(self, channels_in: int, channels_out: int, width: int, levels: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        ins = [channels_in, *widths[:-1]]
        self.encoders = nn.ModuleList(
            UNetLevel(a, b, True) for a, b in zip(ins, widths, strict=True)
        )
        up = list(zip(widths[::-1][:-1], widths[::-1][1:], strict=True))
        self.decoders = nn.ModuleList(UNetLevel(deep + skip, skip, False) for deep, skip in up)
        self.final_conv = nn.Conv3d(width, channels_out, 1)

    def forward(self, grid: Tensor) -> Tensor:
        """Go down with max pooling and up with the nearest neighbour and the skipped features."""
        skips: list[Tensor] = []
        for number, level in enumerate(self.encoders):
            grid = level(functional.max_pool3d(grid, 2) if number else grid)
            skips.append(grid)
        for level, skip in zip(self.decoders, skips[-2::-1], strict=True):
            wide = functional.interpolate(grid, skip.shape[2:], mode="nearest")
            grid = level(torch.cat([skip, wide], 1))
        return cast(Tensor, self.final_conv(grid))
