"""A differentiable renderer of 3D Gaussians, batched, with bounded memory and no loop over Gaussians.

The mathematics is that of 3D Gaussian Splatting (Kerbl et al. 2023) with the EWA projection of Zwicker et al.
2001: every Gaussian becomes an ellipse in the image, ellipses are sorted by distance and laid over each other
from front to back. The image is cut into square tiles, each tile is given only the Gaussians that reach it,
and tiles are drawn in chunks of about PAIRS_PER_CHUNK pairs of a pixel and a Gaussian, each of which keeps
nothing for the backward pass but its inputs where there are several.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

FOCAL_LENGTH = 0.8
"""Focal length in image sides: the Fresnel project's default camera, which sees 64 degrees."""
NEAR = 0.01
"""Nothing closer to the camera than this is drawn."""
LOW_PASS = 0.3 + 1e-4
"""Variance in square pixels added to every ellipse lest it fall between pixels (3D Gaussian Splatting)."""
REACH = 3.0
"""Where an ellipse ends, in standard deviations."""
OPAQUE = 0.99
"""The most one Gaussian hides, so that light always gets through and gradients behind it live."""
PAIRS_PER_CHUNK = 1 << 23
BEHIND_EVERYTHING = -1.0e4


class Gaussians(NamedTuple):
    """N Gaussians for each of B images, in the camera's frame: x right, y up, looking along -z.

    positions (B,N,3) · scales (B,N,3), standard deviations along the own axes · rotations (B,N,3,3), the axes
    as columns · colours (B,N,3) and opacities (B,N), both in [0,1].
    """

    positions: Tensor
    scales: Tensor
    rotations: Tensor
    colours: Tensor
    opacities: Tensor


class Rendering(NamedTuple):
    """What the camera sees: image (B,3,S,S) on black, distance (B,S,S) times coverage, coverage (B,S,S)."""

    image: Tensor
    distance: Tensor
    coverage: Tensor


class Ellipses(NamedTuple):
    """Gaussians in the image: centres (B,N,2) and covariances (B,N,2,2) in pixels, distances (B,N)."""

    centres: Tensor
    covariances: Tensor
    distances: Tensor


def project(gaussians: Gaussians, size: int) -> Ellipses:
    """Project Gaussians into an image of size x size pixels; row 0 is on top and pixel i spans [i, i+1]."""
    x, y, z = gaussians.positions.unbind(-1)
    distances = -z
    focal = FOCAL_LENGTH * size
    safe = distances.clamp(min=NEAR)
    centres = torch.stack((size / 2 + focal * x / safe, size / 2 - focal * y / safe), dim=-1)
    nothing = torch.zeros_like(x)
    across = torch.stack((focal / safe, nothing, focal * x / safe**2), dim=-1)
    down = torch.stack((nothing, -focal / safe, -focal * y / safe**2), dim=-1)
    jacobian = torch.stack((across, down), dim=-2)
    spread = jacobian @ (gaussians.rotations * gaussians.scales.unsqueeze(-2))
    low_pass = LOW_PASS * torch.eye(2, dtype=x.dtype, device=x.device)
    return Ellipses(centres, spread @ spread.transpose(-1, -2) + low_pass, distances)


def render(gaussians: Gaussians, size: int, tile: int | None = None) -> Rendering:
    """Draw B sets of Gaussians in images of size pixels; nearer ones hide farther, equals go by index."""
    tile = tile or (8 if size <= 128 else 16)
    across = -(-size // tile)
    ellipses = project(gaussians, size)
    order = torch.argsort(ellipses.distances.detach(), dim=1, stable=True)
    rows = tile_members(ellipses, order, size, tile)
    images = gaussians.opacities.shape[0]
    table = splat_table(gaussians, ellipses)
    grid = torch.arange(tile, device=table.device, dtype=table.dtype) + 0.5 - tile / 2
    y, x = torch.meshgrid(grid, grid, indexing="ij")
    basis = torch.stack((x * x, x * y, y * y, x, y, torch.ones_like(x))).flatten(1)

    chunks: list[Tensor] = []
    ranked, members, lengths = rows
    starts = chunk_starts(lengths, tile * tile)
    for first, last in pairwise(starts):
        longest = max(lengths[first], 1)
        index = members[first:last, :longest]
        place = ranked[first:last] % (across * across)
        centre = torch.stack((place % across, place // across), dim=-1) * tile + tile / 2
        if len(starts) > 2 and torch.is_grad_enabled():
            drawn = checkpoint(draw_tiles, table, index, centre, basis, use_reentrant=False, preserve_rng_state=False)
        else:
            drawn = draw_tiles(table, index, centre, basis)
        chunks.append(drawn)
    unsorted = torch.cat(chunks)[torch.argsort(ranked)]
    canvas = unsorted.view(images, across, across, tile, tile, 5).permute(0, 5, 1, 3, 2, 4)
    canvas = canvas.reshape(images, 5, across * tile, across * tile)[:, :, :size, :size]
    return Rendering(canvas[:, :3], canvas[:, 3], canvas[:, 4])


def tile_members(ellipses: Ellipses, order: Tensor, size: int, tile: int) -> tuple[Tensor, Tensor, list[int]]:
    """Return which Gaussians reach which tile, front to back, the fullest tile first.

    The tiles as numbers (R,), image by image and row by row; their members (R,M) as rows of the splat table,
    filled up with its last row; and how many members each tile has, as a list of R counts.
    """
    images, count = order.shape
    across = -(-size // tile)
    with torch.no_grad():
        variances = torch.diagonal(ellipses.covariances, dim1=-2, dim2=-1)
        reach = REACH * variances.sqrt()
        ordered = order.unsqueeze(-1).expand(-1, -1, 2)
        low = (ellipses.centres - reach).gather(1, ordered).unsqueeze(1)
        high = (ellipses.centres + reach).gather(1, ordered).unsqueeze(1)
        edge = torch.arange(across, device=order.device, dtype=low.dtype).view(1, across, 1, 1) * tile
        touches = (high > edge) & (low < edge + tile)
        seen = (ellipses.distances > NEAR).gather(1, order).view(images, 1, 1, count)
        hit = touches[..., 1].unsqueeze(2) & touches[..., 0].unsqueeze(1) & seen
        hit = hit.view(images * across * across, count)
        counts = hit.sum(1)
        ranked = torch.argsort(counts, descending=True, stable=True)
        lengths = counts[ranked]
        row, column = hit[ranked].nonzero(as_tuple=True)
        place = torch.arange(row.numel(), device=row.device) - (lengths.cumsum(0) - lengths)[row]
        image = torch.div(ranked, across * across, rounding_mode="floor")[row]
        lengths_list = lengths.tolist()
        shape = (images * across * across, max(lengths_list[0], 1))
        members = torch.full(shape, images * count, dtype=torch.long, device=row.device)
        members[row, place] = image * count + order[image, column]
    return ranked, members, lengths_list


def splat_table(gaussians: Gaussians, ellipses: Ellipses) -> Tensor:
    """Return one row per Gaussian of all images, and a last one that draws nothing, as (B*N+1, 10).

    Columns: centre x, y · inverse covariance xx, xy, yy · log of the opacity · red, green, blue, distance.
    """
    (xx, xy), (_, yy) = (row.unbind(-1) for row in ellipses.covariances.unbind(-2))
    determinant = xx * yy - xy * xy
    columns = (
        ellipses.centres,
        torch.stack((yy / determinant, -xy / determinant, xx / determinant), dim=-1),
        gaussians.opacities.clamp(min=1e-6).log().unsqueeze(-1),
        gaussians.colours,
        ellipses.distances.unsqueeze(-1),
    )
    table = torch.cat(columns, dim=-1).flatten(0, 1)
    nothing = table.new_zeros(1, table.shape[1])
    nothing[0, 5] = BEHIND_EVERYTHING
    return torch.cat((table, nothing))


def chunk_starts(lengths: list[int], pixels: int) -> list[int]:
    """Return where to cut tiles, sorted by falling length, into chunks of few pairs; the end is last."""
    starts = [0]
    while starts[-1] < len(lengths):
        pairs = max(lengths[starts[-1]], 1) * pixels
        starts.append(min(len(lengths), starts[-1] + max(1, PAIRS_PER_CHUNK // pairs)))
    return starts


def draw_tiles(table: Tensor, members: Tensor, centres: Tensor, basis: Tensor) -> Tensor:
    """Draw R tiles: members (R,M) front to back, tile centres (R,2), pixels as a polynomial basis (6,P).

    Returns (R,P,5): red, green, blue, distance times coverage, coverage.
    """
    # An embedding sums its gradient in a fixed order; fancy indexing on several threads does not.
    splats = F.embedding(members, table)
    x, y = (splats[..., :2] - centres.unsqueeze(1)).unbind(-1)
    a, b, c, opacity = splats[..., 2:6].unbind(-1)
    # The exponent is a quadratic polynomial of the pixel's place in its tile: one product for all pairs.
    constant = opacity - 0.5 * (a * x * x + 2 * b * x * y + c * y * y)
    polynomial = torch.stack((-0.5 * a, -b, -0.5 * c, a * x + b * y, b * x + c * y, constant), dim=-1)
    exponent = polynomial @ basis
    outside = exponent < (opacity - 0.5 * REACH**2).unsqueeze(-1)
    alpha = exponent.exp().clamp(max=OPAQUE).masked_fill(outside, 0.0)
    clear = torch.log1p(-alpha)
    weight = alpha * (clear.cumsum(1) - clear).exp()
    seen = torch.cat((splats[..., 6:], torch.ones_like(opacity).unsqueeze(-1)), dim=-1)
    return weight.transpose(1, 2) @ seen
