"""From a decoder's raw numbers to Gaussians in the camera's frame, ours and upstream's.

In ours image row 0 is at the top, a disparity of 1 is nearest to the camera, and offsets and scales
count in patch widths at the Gaussian's own distance, so that the patches cover the whole image
however far away they lie. In `upstream` row 0 lies at y = -1 (the bottom of the picture), a
disparity of 1 is farthest, and lengths are world units whatever the distance: kept only so that
weights trained that way draw what they learnt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainers.gaussian.projection import FOCAL_LENGTH, Gaussians

GRID = 37
"""Patches along each side of an image: DINOv2 cuts 518 pixels into patches of 14."""
OUTPUTS = 16
"""Numbers per Gaussian: 3 position, 3 scale, 6 rotation, 3 colour, 1 opacity."""
DEPTH_RANGE = 2.0
"""How much farther away a disparity of 0 lies than a disparity of 1."""
COLOUR_GAIN = 3.0
"""Of the sigmoid that colours went through in this trainer's first versions."""
LINEAR_GAIN = 0.7
"""What every layer shrinks its input to at the start; the first steps overshoot without."""
LARGEST_SCALE = 6.0
"""In patch widths; larger Gaussians would say little about their patch and slow the renderer down.
"""
SIGMOID = "patch-sigmoid"
"""Our geometry as it was until colours became linear, for checkpoints of that time."""
GEOMETRIES = ("patch", "upstream", SIGMOID)
PIVOT = -3.0
"""The point on the z axis about which poses turn: the middle of the depth range."""


class Layout(NamedTuple):
    """Points in the image: across and down (N,) in [-1,1], spacing, reach and geometry.

    The spacing is in half images. `reach` is how far, in world units, a raw offset of 1 moves a
    Gaussian in upstream's geometry.
    """

    across: Tensor
    down: Tensor
    spacing: float
    reach: float
    geometry: str

    @classmethod
    def of_patches(cls, geometry: str) -> Layout:
        """Return the 37 x 37 patches, row by row."""
        if geometry == "upstream":
            places = torch.linspace(-1, 1, GRID)
        else:
            places = (torch.arange(GRID, dtype=torch.float32) + 0.5) / GRID * 2 - 1
        down, across = torch.meshgrid(places, places, indexing="ij")
        return cls(across.flatten(), down.flatten(), 2 / GRID, 0.25, geometry)

    @classmethod
    def of_spiral(cls, x: Tensor, y: Tensor, geometry: str) -> Layout:
        """Return points of the unit disc, in our geometry stretched to the square."""
        if geometry == "upstream":
            return cls(x, y, math.sqrt(math.pi / len(x)), 0.15, geometry)
        longer = torch.maximum(x.abs(), y.abs()).clamp(min=1e-6)
        stretch = (x.square() + y.square()).sqrt() / longer
        return cls(x * stretch, y * stretch, 2 / math.sqrt(len(x)), 0.15, geometry)


def to_gaussians(
    raw: Tensor,
    points: Layout,
    disparity: Tensor | None,
    depth_offset: Tensor,
    widening: float = 1.0,
) -> Gaussians:
    """Return B·N·K Gaussians from raw (B,N,K,16) or (B,N,16) and disparity (B,N) or None.

    Without disparity they lie on a plane.
    """
    raw = raw.unsqueeze(2) if raw.dim() == 3 else raw
    if points.geometry == "upstream":
        return upstream_gaussians(
            upstream_places(raw, points, disparity, depth_offset), raw, widening
        )
    across, down = points.across.view(1, -1, 1), points.down.view(1, -1, 1)
    nearness = 1.0 if disparity is None else disparity.unsqueeze(-1)
    distance = (DEPTH_RANGE * (1 - nearness) - depth_offset).clamp(min=0.1).expand_as(raw[..., 0])
    half_width = distance * (0.5 / FOCAL_LENGTH)
    unit = half_width * points.spacing
    x, y = half_width * across + unit * raw[..., 0], unit * raw[..., 1] - half_width * down
    widths = F.softplus(raw[..., 3:6].clamp(-10, 20)) * widening
    scales = unit.unsqueeze(-1) * widths.clamp(1e-6, LARGEST_SCALE)
    colours = to_colours(raw[..., 12:15], points.geometry)
    return _flat(torch.stack((x, y, -distance), dim=-1), scales, colours, raw)


def to_colours(raw: Tensor, geometry: str) -> Tensor:
    """Return colours in [0,1] from raw (...,3), 0 meaning grey.

    In our geometry they are linear, so that a colour no training photograph shows is drawn as far
    from grey as its features are; a sigmoid draws strong colours towards those it knows.
    """
    if geometry == SIGMOID:
        return (COLOUR_GAIN * raw).sigmoid()
    clamped: Tensor = ClampedInwards.apply(raw.float() + 0.5)  # type: ignore[no-untyped-call]
    return clamped


class ClampedInwards(torch.autograd.Function):
    """Clamps to [0,1]; beyond, only gradients that lead back inside pass."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        """Clamp."""
        ctx.save_for_backward(values)
        return values.clamp(0, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient, 0 where a step against it would lead farther outside."""
        (values,) = ctx.saved_tensors
        outwards = ((values < 0) & (gradient > 0)) | ((values > 1) & (gradient < 0))
        return gradient.masked_fill(outwards, 0)


def upstream_places(
    raw: Tensor, points: Layout, disparity: Tensor | None, depth_offset: Tensor
) -> Tensor:
    """Return positions (B,N,K,3) in upstream's geometry, from raw (B,N,K,16)."""
    across, down = points.across.view(1, -1, 1), points.down.view(1, -1, 1)
    nearness = 0.0 if disparity is None else disparity.unsqueeze(-1)
    z = (depth_offset - DEPTH_RANGE * nearness).expand_as(raw[..., 0])
    x, y = across + points.reach * raw[..., 0], down + points.reach * raw[..., 1]
    return torch.stack((x, y, z), dim=-1)


def upstream_gaussians(positions: Tensor, raw: Tensor, widening: float = 1.0) -> Gaussians:
    """Return B·N·K Gaussians at positions (B,N,K,3), the rest from raw (B,N,K,16)."""
    scales = (F.softplus(raw[..., 3:6].clamp(-10, 20) + 1) * 0.15 * widening).clamp(1e-6, 2.0)
    return _flat(positions, scales, raw[..., 12:15].sigmoid(), raw)


def _flat(positions: Tensor, scales: Tensor, colours: Tensor, raw: Tensor) -> Gaussians:
    return Gaussians(
        positions.flatten(1, 2),
        scales.flatten(1, 2),
        rotation_from_6d(raw[..., 6:12]).flatten(1, 2),
        colours.flatten(1, 2),
        raw[..., 15].sigmoid().flatten(1, 2),
    )


def start_of_layers(network: nn.Sequential, k: int, geometry: str) -> None:
    """Set layers so that they are linear and an untrained point is a cluster of k opaque Gaussians.

    In upstream's geometry nothing but the rotation is set, which starts as the identity.
    """
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    last = layers[-1]
    if geometry == "patch":
        begin_linear(layers)
    start = torch.zeros(k, OUTPUTS)
    start[:, 6] = start[:, 10] = 1.0
    if geometry == "upstream":
        with torch.no_grad():
            last.bias.copy_(start.flatten())
        return
    for slot in range(1, k):
        # A sunflower: the first slot stays in the middle, the others spread evenly around it.
        radius, angle = 0.4 * math.sqrt(slot / (k - 1)), slot * math.pi * (3 - math.sqrt(5))
        start[slot, 0], start[slot, 1] = radius * math.cos(angle), radius * math.sin(angle)
    start[:, 3:6] = math.log(math.expm1(0.6 / math.sqrt(k)))
    start[:, 15] = 1.5
    with torch.no_grad():
        last.weight.mul_(0.3)
        last.bias.copy_(start.flatten())


@torch.no_grad()
def begin_linear(layers: Sequence[nn.Linear]) -> None:
    """Let layers with ReLUs between them begin as one linear map of their input.

    Every unit has a twin of opposite sign, whose difference a ReLU leaves linear ("looks linear",
    Balduzzi et al. 2017); the maps between are orthogonal. A network that begins so carries
    colours it never saw through; one of random weights turns them into those it was shown. The
    last layer's answers keep their spread.
    """
    *hidden, last = layers
    for place, layer in enumerate(hidden):
        rows, columns = layer.weight.shape
        half = torch.empty(rows // 2, columns if place == 0 else columns // 2)
        _twins(layer, nn.init.orthogonal_(half, LINEAR_GAIN), inputs=place > 0)
        layer.bias.zero_()
    half = last.weight[:, : last.in_features // 2] * math.sqrt(2)
    last.weight.copy_(torch.cat((half, -half), dim=1))


def _twins(layer: nn.Linear, half: Tensor, inputs: bool) -> None:
    """Set a layer's weights to a half and its mirror image, over twin inputs if there are any."""
    over = torch.cat((half, -half), dim=1) if inputs else half
    layer.weight.copy_(torch.cat((over, -over)))


def rotation_from_6d(raw: Tensor) -> Tensor:
    """Return rotations (...,3,3) with orthonormal columns from (...,6) numbers, after Zhou et al.
    2019.
    """
    first = F.normalize(raw[..., :3], dim=-1, eps=1e-6)
    second = raw[..., 3:] - (first * raw[..., 3:]).sum(-1, keepdim=True) * first
    second = F.normalize(second, dim=-1, eps=1e-6)
    return torch.stack((first, second, torch.linalg.cross(first, second, dim=-1)), dim=-1)


def quaternions(rotations: Tensor) -> Tensor:
    """Return unit quaternions (...,4) as w, x, y, z, w not negative, of rotations (...,3,3).

    The largest of four candidates is taken, as Shepperd (1978) does, so that none is near zero.
    """
    m = rotations
    trace = m.diagonal(dim1=-2, dim2=-1)
    xx, yy, zz = trace.unbind(-1)
    squares = torch.stack(
        (1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz), dim=-1
    )
    a, b, c = m[..., 2, 1], m[..., 0, 2], m[..., 1, 0]
    d, e, f = m[..., 1, 2], m[..., 2, 0], m[..., 0, 1]
    s = squares
    candidates = torch.stack(
        (
            torch.stack((s[..., 0], a - d, b - e, c - f), dim=-1),
            torch.stack((a - d, s[..., 1], c + f, b + e), dim=-1),
            torch.stack((b - e, c + f, s[..., 2], a + d), dim=-1),
            torch.stack((c - f, b + e, a + d, s[..., 3]), dim=-1),
        ),
        dim=-2,
    )
    best = squares.argmax(-1)[..., None, None].expand(*squares.shape[:-1], 1, 4)
    chosen = F.normalize(candidates.gather(-2, best).squeeze(-2), dim=-1)
    return chosen * torch.where(chosen[..., :1] < 0, -1.0, 1.0)


def seen_from(gaussians: Gaussians, pose: Tensor) -> Gaussians:
    """Return the Gaussians turned to be seen from pose (B,2), elevation and azimuth.

    In radians, about the middle of the depth range, first about y by the azimuth, then about x by
    the elevation; a positive azimuth looks at them from the right, a positive elevation from above.
    """
    turn = pose_rotation(pose.to(gaussians.positions))
    middle = pivot_of(gaussians.positions)
    positions = (gaussians.positions - middle) @ turn.transpose(-1, -2) + middle
    return gaussians._replace(
        positions=positions, rotations=turn.unsqueeze(1) @ gaussians.rotations
    )


def pivot_of(points: Tensor) -> Tensor:
    """Return the point (3,) that views turn about, made where the points are."""
    return F.pad(points.new_full((1,), PIVOT), (2, 0))


def pose_rotation(pose: Tensor) -> Tensor:
    """Return the rotations (B,3,3) of poses (B,2)."""
    elevation, azimuth = pose[:, 0], -pose[:, 1]
    zero, unit = torch.zeros_like(azimuth), torch.ones_like(azimuth)
    about_y = (
        azimuth.cos(),
        zero,
        azimuth.sin(),
        zero,
        unit,
        zero,
        -azimuth.sin(),
        zero,
        azimuth.cos(),
    )
    about_x = (
        unit,
        zero,
        zero,
        zero,
        elevation.cos(),
        -elevation.sin(),
        zero,
        elevation.sin(),
        elevation.cos(),
    )
    yaw, pitch = (torch.stack(part, dim=-1).view(-1, 3, 3) for part in (about_y, about_x))
    return pitch @ yaw
