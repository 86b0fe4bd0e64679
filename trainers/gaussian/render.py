"""A differentiable renderer of 3D Gaussians, batched, with bounded memory and no loop over
Gaussians.

The mathematics is that of 3D Gaussian Splatting (Kerbl et al. 2023) with the EWA projection of
Zwicker et al. 2001: every Gaussian becomes an ellipse in the image, ellipses are sorted by distance
and laid over each other from front to back. Three backends draw the ellipses: compiled loops on the
CPU (`cpu_kernels`), batched PyTorch on any device (`tiles`) and, on CUDA where it is installed,
gsplat (`fused`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainers.common.settings import SettingsError

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
BACKENDS = ("auto", "torch", "compiled", "gsplat")


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


class Rendering(NamedTuple):
    """What the camera sees: image (B,3,S,S) on black, distance (B,S,S) times coverage, coverage
    (B,S,S).
    """

    image: Tensor
    distance: Tensor
    coverage: Tensor


class Ellipses(NamedTuple):
    """Gaussians in the image, in pixels: centres (B,N,2), variances and inverse covariances as xx,
    xy, yy.

    variances (B,N,2) along x and y · conics (B,N,3) · distances (B,N) from the camera plane ·
    visible (B,N), false where the opacity is 0.
    """

    centres: Tensor
    variances: Tensor
    conics: Tensor
    distances: Tensor
    visible: Tensor


class Camera(NamedTuple):
    """A square pinhole image: `size` pixels a side, focal length in image sides, and the added blur
    in px².

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
    conics = torch.stack((yy + camera.blur, -xy, xx + camera.blur), dim=-1) / determinant.unsqueeze(
        -1
    )
    return Ellipses(centres, variances, conics, distances, gaussians.opacities > 0)


def render(gaussians: Gaussians, camera: Camera, backend: str = "auto") -> Rendering:
    """Draw B sets of Gaussians; nearer ones hide farther, those equally far go by index.

    `auto` takes gsplat on CUDA where it is installed, compiled loops on a CPU with numba, else
    PyTorch. Raises SettingsError where a backend asked for by name cannot run here.
    """
    chosen = choose_backend(backend, gaussians.positions.device)
    if chosen == "gsplat":
        from trainers.gaussian.fused import draw_with_gsplat

        canvas = draw_with_gsplat(gaussians, camera)
    else:
        ellipses = project(gaussians, camera)
        table = splat_table(gaussians, ellipses)
        if chosen == "compiled":
            from trainers.gaussian.cpu_kernels import draw_compiled as draw
        else:
            from trainers.gaussian.tiles import draw_in_tiles as draw
        canvas = draw(table, ellipses, camera.width)
    return Rendering(canvas[:, :3], canvas[:, 3], canvas[:, 4])


def choose_backend(asked: str, device: torch.device) -> str:
    """Return the backend that `auto` means on a device, or the one asked for.

    Raises SettingsError where that one's package is missing or it works on another kind of device.
    """
    from importlib.util import find_spec

    has_gsplat = device.type == "cuda" and find_spec("gsplat") is not None
    has_numba = device.type == "cpu" and find_spec("numba") is not None
    if asked == "auto":
        return "gsplat" if has_gsplat else "compiled" if has_numba else "torch"
    if asked == "gsplat" and not has_gsplat:
        raise SettingsError(
            "--renderer gsplat needs a CUDA device and the gsplat package; use torch"
        )
    if asked == "compiled" and not has_numba:
        raise SettingsError("--renderer compiled needs the CPU and the numba package; use torch")
    return asked


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
    """Return the order (B,N) front to back and, in that order, the tiles each ellipse reaches
    (B,N,4).

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
