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


def choose_backend(asked: str, device: torch.device) -> tuple[str, str]:
    """Return the backend that `auto` means on a device, or the one asked for, and why no better.

    `auto` is gsplat on CUDA where it draws, compiled loops on a CPU with numba, else torch. Raises
    SettingsError where the one asked for cannot be.
    """
    if asked == "compiled" and not _has_numba(device):
        raise SettingsError("--renderer compiled needs the CPU and the numba package; use torch")
    if asked == "gsplat" and device.type != "cuda":
        raise SettingsError("--renderer gsplat needs a CUDA device; use torch")
    if asked in ("torch", "compiled"):
        return asked, ""
    if device.type != "cuda":
        return ("compiled" if _has_numba(device) else "torch"), ""
    from trainers.gaussian.fused import why_not_gsplat

    if find_spec("gsplat") is not None:
        print("compiling    gsplat's kernels, minutes if it is the first time here")
    reason = why_not_gsplat(device)
    if asked == "gsplat" and reason:
        raise SettingsError(f"--renderer gsplat: {reason}; use torch")
    return ("torch", reason) if reason else ("gsplat", "")


def _has_numba(device: torch.device) -> bool:
    return device.type == "cpu" and find_spec("numba") is not None


def drawer_of(backend: str) -> Drawer:
    """Return what draws for a backend's name.

    Backends are imported on use: numba and gsplat are optional, and slow to import.
    """
    if backend == "gsplat":
        from trainers.gaussian.fused import draw_with_gsplat

        return draw_with_gsplat
    if backend == "compiled":
        from trainers.gaussian.cpu_kernels import draw_compiled

        return draw_compiled
    from trainers.gaussian.tiles import draw_in_tiles

    return draw_in_tiles


def choose_drawer(asked: str, device: torch.device) -> Drawer:
    """Return what draws on a device for the name asked for; raises what choose_backend does."""
    return drawer_of(choose_backend(asked, device)[0])
