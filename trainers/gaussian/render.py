"""A differentiable renderer of 3D Gaussians with bounded memory and no loop over Gaussians.

The mathematics is that of 3D Gaussian Splatting (Kerbl et al. 2023): every Gaussian becomes an
ellipse in the image, ellipses are sorted by distance and laid over each other from front to back.
Three backends draw the ellipses: compiled loops on the CPU (`cpu_kernels`), batched PyTorch on any
device (`tiles`) and, on CUDA where it is installed, gsplat (`fused`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from trainers.common.settings_parser import SettingsError
from trainers.gaussian.projection import Camera, Gaussians

BACKENDS = ("auto", "torch", "compiled", "gsplat")
Drawer = Callable[[Gaussians, Camera], Tensor]
"""Draws B sets of Gaussians as (B,5,S,S): red, green, blue, distance, coverage."""


class Rendering(NamedTuple):
    """What the camera sees: image (B,3,S,S) on black, distance times coverage, coverage (B,S,S)."""

    image: Tensor
    distance: Tensor
    coverage: Tensor


def render(gaussians: Gaussians, camera: Camera, draw: Drawer) -> Rendering:
    """Draw B sets of Gaussians; nearer ones hide farther, those equally far go by index."""
    canvas = draw(gaussians, camera)
    return Rendering(canvas[:, :3], canvas[:, 3], canvas[:, 4])


def choose_backend(asked: str, device: torch.device) -> str:
    """Return the backend that `auto` means on a device, or the one asked for.

    `auto` is gsplat on CUDA where it is installed, compiled loops on a CPU with numba, else torch.
    Raises SettingsError where the package of the one asked for is missing or it cannot use the
    device.
    """
    has_gsplat = device.type == "cuda" and find_spec("gsplat") is not None
    has_numba = device.type == "cpu" and find_spec("numba") is not None
    if asked == "gsplat" and not has_gsplat:
        raise SettingsError(
            "--renderer gsplat needs a CUDA device and the gsplat package; use torch"
        )
    if asked == "compiled" and not has_numba:
        raise SettingsError("--renderer compiled needs the CPU and the numba package; use torch")
    if asked != "auto":
        return asked
    if has_gsplat:
        return "gsplat"
    return "compiled" if has_numba else "torch"


def choose_drawer(asked: str, device: torch.device) -> Drawer:
    """Return what draws for a backend's name on a device; raises SettingsError as its choice does.

    Backends are imported on use: numba and gsplat are optional, and slow to import.
    """
    backend = choose_backend(asked, device)
    if backend == "gsplat":
        from trainers.gaussian.fused import draw_with_gsplat

        return draw_with_gsplat
    if backend == "compiled":
        from trainers.gaussian.cpu_kernels import draw_compiled

        return draw_compiled
    from trainers.gaussian.tiles import draw_in_tiles

    return draw_in_tiles
