"""Gaussians, a camera, and the ellipses that the camera makes of them, all batched.

The EWA projection is that of Zwicker et al. 2001, as 3D Gaussian Splatting uses it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

FOCAL_LENGTH = 0.8
"""Focal length in image sides: the Fresnel project's default camera, which sees 64 degrees."""
NEAR = 0.01
"""Nothing closer to the camera than this is drawn."""
UPSTREAM_BLUR = 1e-4
"""Variance in square pixels that the Fresnel project adds to every ellipse; viewers add 0.3."""
REACH = 3.0
"""Where an ellipse ends, in standard deviations."""
OPAQUE = 0.99
"""The most one Gaussian hides, so that light always gets through and gradients behind it live."""


class Gaussians(NamedTuple):
    """N Gaussians for each of B images, in the camera's frame: x right, y up, looking along -z.

    positions (B,N,3) · scales (B,N,3), standard deviations along the own axes · rotations
    (B,N,3,3), the axes as columns · colours (B,N,3) and opacities (B,N), both in [0,1].
    """

    positions: Tensor
    scales: Tensor
    rotations: Tensor
    colours: Tensor
    opacities: Tensor


class Ellipses(NamedTuple):
    """Gaussians in the image, in pixels.

    centres (B,N,2) · variances (B,N,2) along x and y · conics (B,N,3), inverse covariances as xx,
    xy, yy · distances (B,N) from the camera plane ·
    visible (B,N), false where the opacity is 0.
    """

    centres: Tensor
    variances: Tensor
    conics: Tensor
    distances: Tensor
    visible: Tensor


class Camera(NamedTuple):
    """A square pinhole image: pixels a side, focal length in image sides, the added blur in px².

    `window` (left, top, width) in pixels draws only a square part of the image; None draws all of
    it.
    """

    size: int
    blur: float = UPSTREAM_BLUR
    focal: float = FOCAL_LENGTH
    window: tuple[int, int, int] | None = None

    @property
    def width(self) -> int:
        """Pixels along each side of what is drawn."""
        return self.window[2] if self.window else self.size


def project(gaussians: Gaussians, camera: Camera) -> Ellipses:
    """Project Gaussians; row 0 is on top, pixel i spans [i, i+1], counted from the window's corner.

    The image's v axis runs down, so dv/dz is -f·y/z² for the negative z of what is in front of the
    camera.
    """
    x, y, z = gaussians.positions.unbind(-1)
    distances = -z
    focal, middle = camera.focal * camera.size, camera.size / 2
    left, top = camera.window[:2] if camera.window else (0, 0)
    safe = distances.clamp(min=NEAR)
    centres = torch.stack(
        (middle - left + focal * x / safe, middle - top - focal * y / safe), dim=-1
    )
    axes = gaussians.rotations * gaussians.scales.unsqueeze(-2)
    across = (focal / safe).unsqueeze(-1) * (
        axes[..., 0, :] + (x / safe).unsqueeze(-1) * axes[..., 2, :]
    )
    down = (-focal / safe).unsqueeze(-1) * (
        axes[..., 1, :] + (y / safe).unsqueeze(-1) * axes[..., 2, :]
    )
    xx, yy = across.square().sum(-1), down.square().sum(-1)
    xy = (across * down).sum(-1)
    # Lagrange's identity: no cancellation, however thin the ellipse.
    bare = torch.linalg.cross(across, down, dim=-1).square().sum(-1)
    determinant = bare + camera.blur * (xx + yy) + camera.blur**2
    variances = torch.stack((xx, yy), dim=-1) + camera.blur
    adjugates = torch.stack((yy + camera.blur, -xy, xx + camera.blur), dim=-1)
    conics = adjugates / determinant.unsqueeze(-1)
    return Ellipses(centres, variances, conics, distances, gaussians.opacities > 0)


def splat_table(gaussians: Gaussians, ellipses: Ellipses) -> Tensor:
    """Return one row per Gaussian of all images as (B,N,10).

    Columns: centre x, y · conic xx, xy, yy · opacity · red, green, blue, distance.
    """
    columns = (
        ellipses.centres,
        ellipses.conics,
        gaussians.opacities.unsqueeze(-1),
        gaussians.colours,
        ellipses.distances.unsqueeze(-1),
    )
    return torch.cat(columns, dim=-1)


@torch.no_grad()
def tile_boxes(ellipses: Ellipses, width: int, tile: int) -> tuple[Tensor, Tensor]:
    """Return the order (B,N) front to back and, in that order, boxes (B,N,4) of tiles reached.

    Boxes are first and last column, first and last row, in int32; a last before a first reaches no
    tile.
    """
    order = torch.argsort(ellipses.distances, dim=1, stable=True)
    reach = REACH * ellipses.variances.sqrt()
    low, high = ellipses.centres - reach, ellipses.centres + reach
    finite = torch.isfinite(low).all(-1) & torch.isfinite(high).all(-1)
    drawn = (
        (ellipses.distances > NEAR)
        & ellipses.visible
        & finite
        & (high > 0).all(-1)
        & (low < width).all(-1)
    )
    last = -(-width // tile) - 1
    first_tile = torch.div(low.nan_to_num(0), tile, rounding_mode="floor").clamp(0, last)
    last_tile = torch.div(high.nan_to_num(0), tile, rounding_mode="floor").clamp(0, last)
    last_tile = torch.where(drawn.unsqueeze(-1), last_tile, -1.0)
    boxes = torch.stack((first_tile, last_tile), dim=-1).flatten(-2).to(torch.int32)
    return order, boxes.gather(1, order.unsqueeze(-1).expand(-1, -1, 4))
