"""The decoder: an MLP that turns the features of each image patch into a few 3D Gaussians.

Layer sizes and outputs are those of the Fresnel project's DirectPatchDecoder (its experiment 2). Here image
row 0 is at the top, a disparity of 1 is nearest to the camera, and offsets and scales count in patch widths
at the Gaussian's own distance, so that the patches cover the whole image however far away they lie.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainers.gaussian.render import FOCAL_LENGTH, Gaussians

GRID = 37
"""Patches along each side of an image: DINOv2 cuts 518 pixels into patches of 14."""
OUTPUTS = 16
"""Numbers per Gaussian: 3 position, 3 scale, 6 rotation, 3 colour, 1 opacity."""
NEAREST = -2.0
"""Where a disparity of 1 lies on the z axis before training."""
DEPTH_RANGE = 2.0
"""How much farther away a disparity of 0 lies than a disparity of 1."""
COLOUR_GAIN = 3.0
"""Makes strong colours, for which a sigmoid needs large inputs, something a hundred steps can learn."""
LARGEST_SCALE = 6.0
"""In patch widths; larger Gaussians would say little about their patch and slow the renderer down."""
HIDDEN = (512, 512, 256, 128)


class DirectPatchDecoder(nn.Module):
    """Decodes features (B,C,37,37) into 37*37*K Gaussians, each patch by itself."""

    centres: Tensor

    def __init__(self, feature_dim: int = 384, gaussians_per_patch: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.gaussians_per_patch = gaussians_per_patch
        # Lengths grow with distance, so the image cannot tell how far away everything is: this hardly moves.
        self.depth_offset = nn.Parameter(torch.tensor(NEAREST))
        layers: list[nn.Module] = []
        width = feature_dim
        for hidden in HIDDEN:
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout)]
            width = hidden
        last = nn.Linear(width, gaussians_per_patch * OUTPUTS)
        start_from_the_grid(last, gaussians_per_patch)
        self.mlp = nn.Sequential(*layers, last)
        middles = (torch.arange(GRID, dtype=torch.float32) + 0.5) / GRID * 2 - 1
        self.register_buffer("centres", middles, persistent=False)

    def forward(self, features: Tensor, disparity: Tensor | None = None, slots: int | None = None) -> Gaussians:
        """Decode features (B,C,37,37) and disparity (B,37,37) in [0,1], 1 nearest, or None for a plane at 1.

        With slots < K only the first Gaussians of each patch are made, widened to cover the same area.
        """
        k = self.gaussians_per_patch
        slots = min(slots or k, k)
        raw = self.mlp(features.permute(0, 2, 3, 1)).unflatten(-1, (k, OUTPUTS))[..., :slots, :]
        if disparity is None:
            disparity = torch.ones_like(features[:, 0])
        distance = (DEPTH_RANGE * (1 - disparity) - self.depth_offset).clamp(min=0.1)[..., None]
        half_width = distance * (0.5 / FOCAL_LENGTH)
        patch_width = half_width * (2 / GRID)
        x = half_width * self.centres.view(1, 1, GRID, 1) + patch_width * raw[..., 0]
        y = -half_width * self.centres.view(1, GRID, 1, 1) + patch_width * raw[..., 1]
        positions = torch.stack((x, y, -distance.expand_as(x)), dim=-1)
        widths = F.softplus(raw[..., 3:6].clamp(-10, 20)) * math.sqrt(k / slots)
        scales = patch_width[..., None] * widths.clamp(1e-6, LARGEST_SCALE)
        return Gaussians(
            positions.flatten(1, 3),
            scales.flatten(1, 3),
            rotation_from_6d(raw[..., 6:12]).flatten(1, 3),
            (COLOUR_GAIN * raw[..., 12:15]).sigmoid().flatten(1, 3),
            raw[..., 15].sigmoid().flatten(1, 3),
        )


def start_from_the_grid(last: nn.Linear, k: int) -> None:
    """Set a last layer so that an untrained patch is a tight cluster of k round, nearly opaque Gaussians."""
    start = torch.zeros(k, OUTPUTS)
    for slot in range(1, k):
        # A sunflower: the first slot stays in the middle, the others spread evenly around it.
        radius, angle = 0.4 * math.sqrt(slot / (k - 1)), slot * math.pi * (3 - math.sqrt(5))
        start[slot, 0], start[slot, 1] = radius * math.cos(angle), radius * math.sin(angle)
    start[:, 3:6] = math.log(math.expm1(0.6 / math.sqrt(k)))
    start[:, 6] = start[:, 10] = 1.0
    start[:, 15] = 1.5
    with torch.no_grad():
        last.weight.mul_(0.3)
        last.bias.copy_(start.flatten())


def rotation_from_6d(raw: Tensor) -> Tensor:
    """Return rotations (...,3,3) with orthonormal columns from (...,6) numbers, after Zhou et al. 2019."""
    first = F.normalize(raw[..., :3], dim=-1, eps=1e-6)
    second = raw[..., 3:] - (first * raw[..., 3:]).sum(-1, keepdim=True) * first
    second = F.normalize(second, dim=-1, eps=1e-6)
    return torch.stack((first, second, torch.linalg.cross(first, second, dim=-1)), dim=-1)


def sample_gaussians(gaussians: Gaussians, k: int) -> Gaussians:
    """Return k of the N Gaussians, the same for the whole batch, widened so that they cover the area of all.

    Drawn without repetition, the more opaque the likelier, as in the Fresnel project's HFTS; without the
    widening the decoder would learn Gaussians that are too large for the full set.
    """
    count = gaussians.opacities.shape[1]
    if k >= count:
        return gaussians
    likely = gaussians.opacities.detach().mean(0) + 1e-6
    chosen = torch.multinomial(likely, k, replacement=False).sort().values
    kept = Gaussians(*(part.index_select(1, chosen) for part in gaussians))
    return kept._replace(scales=kept.scales * math.sqrt(count / k))
