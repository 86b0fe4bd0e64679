"""Images of volumes: middle slices and maximum-intensity projections beside the CT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from trainers.cascade.projector import hu_from_unit
from trainers.common.preview import write_preview


def planes(volume: Tensor) -> dict[str, Tensor]:
    """Return the middle coronal, axial and sagittal slices of (D, H, W), head or front upwards."""
    d, h, w = (side // 2 for side in volume.shape)
    return {"coronal": volume[d], "axial": volume[:, h], "sagittal": volume[:, :, w].T}


def maximum_projections(volume: Tensor) -> dict[str, Tensor]:
    """Return the greatest values of (D, H, W) along each axis."""
    return {"coronal": volume.amax(0), "axial": volume.amax(1), "sagittal": volume.amax(2).T}


def write_comparison(path: Path, volumes: Mapping[str, Tensor], title: str) -> None:
    """Write a PNG with a row for each volume: three slices and three projections, in HU.

    Volumes are (1, D, D, D) in [-1, 1].
    """
    rows = {}
    for name, volume in volumes.items():
        hu = hu_from_unit(volume[0].float().clamp(-1, 1))
        rows[name] = [*planes(hu).values(), *maximum_projections(hu).values()]
    kinds = [
        f"{how} {plane}" for how in ("slice", "MIP") for plane in ("coronal", "axial", "sagittal")
    ]
    write_preview(path, rows, title, kinds)
