"""NRRD volumes: read with checks, written whole, and never without their spacing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nrrd
import numpy as np

from trainers.skulls.listing import SkullDataError


@dataclass(frozen=True)
class Volume:
    """A binary volume in NRRD array order with the size of a voxel along each axis, in mm."""

    mask: np.ndarray
    spacing: tuple[float, float, float]


def read_volume(path: Path) -> Volume:
    """Return the binary mask (> 0) and the spacing of an NRRD file.

    Raises SkullDataError where it is missing, broken, not three-dimensional, NaN or empty.
    """
    if not path.is_file():
        raise SkullDataError(f"there is no volume {path}")
    try:
        data, header = nrrd.read(str(path))
    except Exception as problem:  # pynrrd raises its own, zlib's and NumPy's errors.
        raise SkullDataError(f"{path}: cannot be read as NRRD ({problem})") from problem
    if data.ndim != 3:
        raise SkullDataError(f"{path}: has {data.ndim} axes, shape {data.shape}; expected three")
    if np.issubdtype(data.dtype, np.floating) and not np.isfinite(data).all():
        raise SkullDataError(f"{path}: has voxels that are NaN or infinite")
    mask = data > 0
    if not mask.any():
        raise SkullDataError(f"{path}: is empty, no voxel is above 0")
    return Volume(mask, spacing_of(header))


def spacing_of(header: dict[str, Any]) -> tuple[float, float, float]:
    """Return the voxel size of an NRRD header in mm; 1 where it says nothing."""
    directions = header.get("space directions")
    if directions is not None:
        lengths = np.linalg.norm(np.asarray(directions, dtype=float).reshape(-1, 3), axis=1)
    else:
        lengths = np.asarray(header.get("spacings", (1.0, 1.0, 1.0)), dtype=float)
    lengths = np.where(np.isfinite(lengths) & (lengths > 0), lengths, 1.0)
    return (float(lengths[0]), float(lengths[1]), float(lengths[2]))


def write_volume(path: Path, mask: np.ndarray, spacing: tuple[float, float, float]) -> None:
    """Write a mask as a gzip-compressed NRRD of uint8; the file is whole or absent."""
    header = {
        "space": "left-posterior-superior",
        "space directions": np.diag(spacing),
        "space origin": np.zeros(3),
        "encoding": "gzip",
    }
    replace_file(
        path,
        lambda draft: nrrd.write(str(draft), mask.astype(np.uint8), header, compression_level=3),
    )


def write_array(path: Path, array: np.ndarray) -> None:
    """Write a `.npy` file that is whole or absent."""

    def write(draft: Path) -> None:
        # Given a name, NumPy would append .npy to it; given a file, it does not.
        with draft.open("wb") as file:
            np.save(file, array)

    replace_file(path, write)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write a compressed `.npz` file that is whole or absent."""

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez_compressed(file, **arrays)

    replace_file(path, write)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a draft beside path, sync it, and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            write(draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
