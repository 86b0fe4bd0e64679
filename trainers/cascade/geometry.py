"""How rays run from the source through the volume to the detector: parallel, or a cone beam.

Lengths are in mm, positions from the isocentre, which is the middle of the volume. An X-ray's rows
run down, a frontal one's columns to the patient's left, a lateral one's from front to back,
whichever side the source is on. Both geometries project, with autograd's gradient as the adjoint,
and spread pixels over the voxels that they show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from trainers.cascade.projector import RAY_AXIS, attenuation, back_project, project

FRONT, BACK, LEFT, RIGHT = "front", "back", "left", "right"
SIDES = {"frontal": (FRONT, BACK), "lateral": (LEFT, RIGHT)}
"""Where the source of each view may be."""


@dataclass(frozen=True)
class ParallelBeam:
    """Rays at right angles to the detector, which shows the volume edge to edge."""

    mirrors: bool = True
    """Whether a patient mirrored left to right has the same lateral view."""

    def project(self, density: Tensor, view: str, spacing: Tensor | float) -> Tensor:
        """Return line integrals of density (..., D, H, W) for a view, as projector.project."""
        return project(density, view, spacing)

    def spread(self, images: Tensor, view: str, size: int) -> Tensor:
        """Return volumes (B, C, size, size, size) of images (B, C, size, size), along the rays."""
        return back_project(images, view, size)

    def spread_depths(self, shares: Tensor, view: str) -> Tensor:
        """Return shares (B, G, G, G) of each depth, row and column of a view as (B, 1, G, G, G)."""
        # Frontal: depth, rows, columns are D, H, W. Lateral: depth runs along W, columns along D.
        return (shares if view == "frontal" else shares.permute(0, 3, 2, 1)).unsqueeze(1)


@dataclass(frozen=True)
class ConeBeam:
    """Rays from a point to a flat detector across from it, at right angles to the central ray.

    `detector` is its height and width, `field_of_view` the volume's size along D, H, W; for the
    frontal and the lateral view `offsets` say how far the detector's middle lies from the central
    ray, along rows' and columns' numbers, and `sources` which side the source is on.
    """

    source_to_isocentre: float
    source_to_detector: float
    detector: tuple[float, float]
    offsets: tuple[tuple[float, float], tuple[float, float]]
    field_of_view: tuple[float, float, float]
    sources: tuple[str, str]

    @property
    def mirrors(self) -> bool:
        """Whether a patient mirrored left to right has the same lateral view: the source stays."""
        return False

    def depths(self, view: str, count: int, like: Tensor) -> Tensor:
        """Return the distances (count,) of the slices across the rays from the source's plane."""
        extent = self.field_of_view[RAY_AXIS[view]]
        # Slices are counted along D, to the back, or along W, to the patient's left.
        behind = self.sources[view == "lateral"] in (FRONT, RIGHT)
        return self.source_to_isocentre + (1 if behind else -1) * extent * middles(count, like)

    def sides(self, view: str) -> tuple[float, float]:
        """Return the volume's size along a view's rows and columns."""
        depth, height, width = self.field_of_view
        return height, width if view == "frontal" else depth

    def pixels(self, view: str, rows: int, columns: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return where the middles of a view's rows and columns lie, from the central ray."""
        found = []
        offsets = self.offsets[view == "lateral"]
        for count, side, offset in zip((rows, columns), self.detector, offsets, strict=True):
            found.append(middles(count, like) * side + offset)
        return found[0], found[1]

    def rays(self, view: str, size: int) -> tuple[Tensor, Tensor]:
        """Return a view's source (3,) and the pixels of its detector (size, size, 3), d h w."""
        like = torch.zeros((), dtype=torch.float64)
        y, x = torch.meshgrid(*self.pixels(view, size, size, like), indexing="ij")
        side = 1.0 if self.sources[view == "lateral"] in (BACK, LEFT) else -1.0
        source = torch.zeros(3, dtype=torch.float64)
        source[RAY_AXIS[view]] = side * self.source_to_isocentre
        behind = torch.full_like(y, side * (self.source_to_isocentre - self.source_to_detector))
        points = (behind, y, x) if view == "frontal" else (x, y, behind)
        return source, torch.stack(points, dim=-1)

    def project(self, density: Tensor, view: str, spacing: Tensor | float = 1.0) -> Tensor:
        """Return line integrals of density (..., D, H, W), as many pixels as voxels across.

        Each slice across the rays is read, between its voxels, where a ray crosses its middle, over
        the length of the ray in it (Joseph 1982). spacing is not asked: the field of view says it.
        """
        slices = across(density.flatten(0, -4) if density.ndim > 3 else density[None], view)
        count, rows, columns = slices.shape[1:]
        y, x = self.pixels(view, rows, columns, density)
        shrunk = self.depths(view, count, density) / self.source_to_detector
        high, wide = self.sides(view)
        grid = plane_grid(shrunk, y * (2 / high), x * (2 / wide))
        read = F.grid_sample(slices.transpose(0, 1), grid, align_corners=False)
        slant = (self.source_to_detector**2 + y[:, None] ** 2 + x[None] ** 2).sqrt()
        length = self.field_of_view[RAY_AXIS[view]] / count * slant / self.source_to_detector
        return (read.sum(0) * length).view(*density.shape[:-3], rows, columns)

    def spread(self, images: Tensor, view: str, size: int) -> Tensor:
        """Return volumes (B, C, size, size, size): each voxel what its ray shows in the images."""
        return self._spread(images[None].expand(size, *images.shape), view, size)

    def spread_depths(self, shares: Tensor, view: str) -> Tensor:
        """Return shares (B, G, G, G) of each depth, row and column of a view as (B, 1, G, G, G)."""
        return self._spread(shares.transpose(0, 1)[:, :, None], view, shares.shape[1])

    def _spread(self, images: Tensor, view: str, size: int) -> Tensor:
        """Return (B, C, size, size, size) of images (size, B, C, h, w), one for each slice."""
        batch, channels = images.shape[1:3]
        place = middles(size, torch.empty((), device=images.device))
        grown = self.source_to_detector / self.depths(view, size, place)
        high, wide = self.sides(view)
        grid = plane_grid(grown, place * high, place * wide)
        # Numbers one by one: a tensor of them would be sent to a GPU, and waited for.
        offsets = zip(grid.unbind(-1), self.offsets[view == "lateral"][::-1], strict=True)
        centred = zip((part - offset for part, offset in offsets), self.detector[::-1], strict=True)
        grid = torch.stack([part * (2 / side) for part, side in centred], -1).to(images.dtype)
        read = F.grid_sample(images.flatten(1, 2), grid, padding_mode="border", align_corners=False)
        return across(read.view(size, batch, channels, size, size).permute(1, 2, 0, 3, 4), view)


Geometry = ParallelBeam | ConeBeam
PARALLEL = ParallelBeam()


def middles(count: int, like: Tensor) -> Tensor:
    """Return the middles (count,) of equal parts of a length of 1 around 0."""
    return (torch.arange(count, device=like.device, dtype=like.dtype) + 0.5) / count - 0.5


def across(volume: Tensor, view: str) -> Tensor:
    """Return (..., D, H, W) as slices across a view's rays, (..., ray, row, column), and back."""
    return volume if view == "frontal" else volume.transpose(-1, -3)


def plane_grid(factors: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Return (K, rows, columns, 2), x before y as grid_sample reads it, scaled slice by slice."""
    plane = torch.stack(torch.broadcast_tensors(x[None, :], y[:, None]), dim=-1)
    return factors[:, None, None, None] * plane


def line_integrals(
    volume: Tensor, views: Sequence[str], spacing: Tensor, geometry: Geometry = PARALLEL
) -> Tensor:
    """Return ∫ mu dl (B, V, D, D), without unit, of volumes (B, 1, D, D, D) in [-1, 1].

    There is one for each view. spacing (B, 3) is the voxels' size in mm along D, H and W.
    """
    mu = attenuation(volume)[:, 0]
    images = [geometry.project(mu, view, spacing[:, RAY_AXIS[view]]) for view in views]
    return torch.stack(images, dim=1)
