"""Gaussians as files: `.ply` as 3DGS viewers read it, and the Fresnel project's `.bin`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainers.common.files import write_whole
from trainers.gaussian.geometry import quaternions
from trainers.gaussian.projection import Gaussians

SH_DC = 0.28209479177387814
"""The constant spherical harmonic: a viewer's colour is 0.5 + SH_DC · f_dc (Kerbl et al. 2023)."""
PLY_NAMES = (
    "x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1",
    "scale_2", "rot_0", "rot_1", "rot_2", "rot_3",
)  # fmt: skip


def to_viewer_axes(gaussians: Gaussians) -> Gaussians:
    """Return Gaussians in OpenCV's axes, y down and z forward: turned about x."""
    flip = gaussians.positions.new_tensor([1.0, -1.0, -1.0])
    return gaussians._replace(
        positions=gaussians.positions * flip, rotations=flip.unsqueeze(-1) * gaussians.rotations
    )


def of_one_image(gaussians: Gaussians, image: int = 0) -> list[NDArray[np.float32]]:
    """Return one image's positions, scales, quaternions w x y z, colours and opacities (N,1)."""
    parts = (
        gaussians.positions,
        gaussians.scales,
        quaternions(gaussians.rotations),
        gaussians.colours,
        gaussians.opacities.unsqueeze(-1),
    )
    return [part[image].detach().cpu().float().numpy() for part in parts]


def write_ply(path: Path, gaussians: Gaussians, image: int = 0) -> int:
    """Write one image's Gaussians as binary .ply, right side up in viewers; return their number."""
    positions, scales, rotations, colours, opacities = of_one_image(
        to_viewer_axes(gaussians), image
    )
    opacities = opacities.clip(1e-6, 1 - 1e-6)
    columns = np.concatenate(
        (
            positions,
            np.zeros_like(positions),
            (colours - 0.5) / SH_DC,
            np.log(opacities / (1 - opacities)),
            np.log(scales.clip(1e-9)),
            rotations,
        ),
        axis=1,
    ).astype("<f4")
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(columns)}"]
    lines += [f"property float {name}" for name in PLY_NAMES]
    header = ("\n".join([*lines, "end_header"]) + "\n").encode("ascii")
    write_whole(path, lambda file: file.write(header + columns.tobytes()))
    return len(columns)


def write_bin(path: Path, gaussians: Gaussians, image: int = 0) -> int:
    """Write N x 14 float32 without a header and return N.

    Columns: position, scale, quaternion w x y z, colour, opacity.
    """
    columns = np.concatenate(of_one_image(gaussians, image), axis=1).astype("<f4")
    write_whole(path, lambda file: file.write(columns.tobytes()))
    return len(columns)
