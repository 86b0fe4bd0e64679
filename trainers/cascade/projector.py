"""A parallel projector for two orthogonal views, exact for a voxel grid, with its adjoint.

Volumes are (..., D, H, W): D runs to the patient's back, H downwards, W to the patient's left. The
frontal view looks along D and is (..., H, W); the lateral view looks along W and is (..., H, D),
columns from front to back. A ray through the middle of a row of voxels crosses each of them over
exactly one voxel's width, so its line integral is a sum. Attenuation after Beer and Lambert: I = I0
exp(-∫ mu dl), mu = mu_water (1 + HU / 1000).
"""

from __future__ import annotations

from torch import Tensor

VIEWS = ("frontal", "lateral")
"""What a patient can be seen from, in the order of the facts."""
RAY_AXIS = {"frontal": -3, "lateral": -1}
HU_LOW, HU_HIGH = -1024.0, 1024.0
"""The window in Hounsfield units that a volume in [-1, 1] stands for, and that every metric is
stated in.
"""
MU_WATER = 0.0206
"""Linear attenuation of water per mm at 60 keV (NIST: 0.2059 per cm)."""


def project(density: Tensor, view: str, spacing: Tensor | float = 1.0) -> Tensor:
    """Return the line integrals of density (..., D, H, W) for a view, in density times spacing.

    spacing is the voxel's width along the rays, one number or one for each item of the leading
    dimensions.
    """
    image = density.sum(RAY_AXIS[view])
    image = image.transpose(-1, -2) if view == "lateral" else image
    return image * widths(spacing, image)


def back_project(image: Tensor, view: str, depth: int, spacing: Tensor | float = 1.0) -> Tensor:
    """Return the adjoint of project: images (..., H, W) or (..., H, D) spread along the rays."""
    image = image * widths(spacing, image)
    if view == "lateral":
        image = image.transpose(-1, -2)
    axis = RAY_AXIS[view]
    volume = image.unsqueeze(axis)
    shape = list(volume.shape)
    shape[axis] = depth
    return volume.expand(shape)


def widths(spacing: Tensor | float, image: Tensor) -> Tensor | float:
    """Return spacing shaped so that it multiplies images item by item."""
    if not isinstance(spacing, Tensor):
        return spacing
    return spacing.to(image).reshape(*spacing.shape, *(1,) * (image.ndim - spacing.ndim))


def hu_from_unit(volume: Tensor) -> Tensor:
    """Return Hounsfield units of a volume in [-1, 1]."""
    return HU_LOW + (volume + 1) * ((HU_HIGH - HU_LOW) / 2)


def unit_from_hu(volume: Tensor) -> Tensor:
    """Return Hounsfield units clipped to the window, as numbers in [-1, 1]."""
    return (volume.clamp(HU_LOW, HU_HIGH) - HU_LOW) * (2 / (HU_HIGH - HU_LOW)) - 1


def attenuation(volume: Tensor) -> Tensor:
    """Return linear attenuation per mm of a volume in [-1, 1], below 0 under the HU of air."""
    return MU_WATER * (1 + hu_from_unit(volume) / 1000)
