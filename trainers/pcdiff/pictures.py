"""Clouds as files and pictures: PLY for viewers, PNG for the panel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.common.files import write_if_room
from trainers.common.preview import write_preview

SKULL, IMPLANT = (160, 160, 170), (220, 60, 30)
FEW = 5_000
"""Skulls of fewer points are drawn with larger dots."""
Array = NDArray[Any]


def write_ply(path: Path, skull: Array, implant: Array | None = None) -> Path:
    """Write points (N, 3) of a skull and an implant as ASCII PLY, each in its colour."""
    parts = [(skull, SKULL)] + ([(implant, IMPLANT)] if implant is not None else [])
    lines = [
        "ply",
        "format ascii 1.0",
        f"element vertex {sum(len(points) for points, _ in parts)}",
        *(f"property float {axis}" for axis in "xyz"),
        *(f"property uchar {colour}" for colour in ("red", "green", "blue")),
        "end_header",
    ]
    for points, colour in parts:
        shade = " ".join(map(str, colour))
        lines += [f"{x:.5g} {y:.5g} {z:.5g} {shade}" for x, y, z in points.tolist()]
    text = "\n".join(lines) + "\n"
    write_if_room(path, lambda file: file.write(text.encode("ascii")))
    return path


def views(skull: Array, implant: Array, side: int = 160, reach: float = 3.6) -> Array:
    """Return a picture (2 * side, 2 * side, 3) of normalised points from above, side and front."""
    above, aside, before = (
        _view(skull, implant, axes, side, reach) for axes in ((1, 0), (2, 1), (2, 0))
    )
    upper = np.concatenate([above, aside], axis=1)
    return np.concatenate([upper, np.concatenate([before, np.ones_like(before)], axis=1)])


def _view(skull: Array, implant: Array, axes: tuple[int, int], side: int, reach: float) -> Array:
    picture = np.ones((side, side, 3), np.float32)
    few = len(skull) < FEW
    dot = 3 if few else 1
    for points, colour, strength in ((skull, SKULL, 0.12), (implant, IMPLANT, 0.35)):
        place = ((points[:, list(axes)] / reach + 1) / 2 * side).astype(int)
        hits = np.zeros((side + dot, side + dot), np.float32)
        inside = place[((place >= 0) & (place < side)).all(1)]
        for shift in np.ndindex(dot, dot):
            np.add.at(hits, tuple((inside + shift).T), 1.0)
        cover = 1 - (1 - (0.6 if few else strength)) ** hits[:side, :side, None]
        picture = picture * (1 - cover) + cover * np.array(colour, np.float32) / 255
    return picture


def write_sheet(
    path: Path, rows: dict[str, Sequence[Array]], title: str, names: Sequence[str]
) -> Path:
    """Write rows of pictures as `views` makes them."""
    return write_preview(path, rows, title, names)
