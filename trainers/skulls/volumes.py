"""NRRD volumes: read with checks, written whole, and never without their spacing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nrrd
import numpy as np

from trainers.skulls.listing import SkullDataError

PLACE = ("space", "space dimension", "space directions", "space origin")
"""The fields of a header that say where a volume lies in the patient."""
SLANTED = 0.0175
"""The cosine between two axes from which on they are not at right angles: 89 degrees."""
TO_LPS = {
    "right-anterior-superior": (-1.0, -1.0, 1.0),
    "ras": (-1.0, -1.0, 1.0),
    "left-anterior-superior": (1.0, -1.0, 1.0),
    "las": (1.0, -1.0, 1.0),
}


@dataclass(frozen=True)
class Volume:
    """A binary volume in NRRD array order with the size of a voxel along each axis, in mm.

    `place` holds the header's fields PLACE, or nothing where it does not say how the axes run.
    """

    mask: np.ndarray
    spacing: tuple[float, float, float]
    place: Mapping[str, Any] = field(default_factory=dict)

    def in_mm(self, voxels: np.ndarray) -> np.ndarray:
        """Return voxel indices (N, 3) in mm, in the patient (left, back, up) where that is said."""
        if not self.place:
            return voxels * np.asarray(self.spacing)
        origin = self.place.get("space origin", np.zeros(3))
        return (voxels @ np.asarray(self.place["space directions"], float) + origin) * to_lps(
            self.place
        )


def to_lps(place: Mapping[str, Any]) -> np.ndarray:
    """Return the signs (3,) that bring a header's space to left, back, up."""
    return np.asarray(TO_LPS.get(str(place.get("space", "")).lower(), (1.0, 1.0, 1.0)))


def place_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header's fields PLACE, or nothing where it does not say how three axes run."""
    ways = header.get("space directions")
    ways = np.zeros(0) if ways is None else np.asarray(ways, dtype=float)
    if ways.shape != (3, 3) or not np.isfinite(ways).all() or not np.linalg.det(ways):
        return {}
    return {name: header[name] for name in PLACE if name in header}


def axes_of(place: Mapping[str, Any]) -> str:
    """Return where the axes of a volume run, such as LPS: left, back, up; or nothing."""
    if not place:
        return ""
    ways = np.asarray(place["space directions"], dtype=float) * to_lps(place)
    mains = np.abs(ways).argmax(1)
    return "".join("LPS"[m] if way[m] > 0 else "RAI"[m] for m, way in zip(mains, ways, strict=True))


def check_axes(volumes: Iterable[Path]) -> list[str]:
    """Return what is to be said of volumes' axes, mostly nothing.

    Arrays are used as they lie in the files, so that one network sees all skulls the same way up.
    Raises SkullDataError where the axes of some volumes run otherwise than those of others or not
    at right angles, or volumes of one skull, which have one name, differ in shape.
    """
    first: tuple[Path, str] | None = None
    notes: list[str] = []
    skulls: dict[str, tuple[Path, list[int], np.ndarray | None]] = {}
    for path in volumes:
        try:
            header = nrrd.read_header(str(path))
            place = place_of(header)
            axes, shape = axes_of(place), [int(size) for size in header["sizes"]]
        except Exception:  # read_volume says what is wrong with it.
            continue
        ends = corners(place, shape) if place else None
        other, expected, before = skulls.setdefault(path.name, (path, shape, ends))
        if shape != expected:
            raise SkullDataError(f"{path}: has shape {shape}, and {other} has {expected}")
        if place and slanted(np.asarray(place["space directions"], dtype=float)):
            raise SkullDataError(
                f"{path}: its axes are not at right angles, as of a tilted gantry, so that figures"
                " in mm would be wrong: resample it, as 3D Slicer's module Resample Scalar Volume"
                " does"
            )
        first = first or ((path, axes) if axes else None)
        if axes and first and axes != first[1]:
            raise SkullDataError(
                f"{path}: its axes run {axes}, those of {first[0]} {first[1]}: all have to lie"
                " alike; 3D Slicer's module Orient Scalar Volume turns them"
            )
        if before is not None and ends is not None:
            apart = float(np.linalg.norm(ends - before, axis=1).max())
            if apart > max(spacing_of(header)) and not notes:
                notes.append(
                    f"by its header {path} lies up to {apart:.3g} mm away from {other}: arrays are"
                    " used as they lie in the files, so the two have to fit voxel by voxel"
                )
    if first is not None and first[1][0] not in "LR":
        notes.append(
            f"axis 0 of {first[0]} and the others does not run between left and right (they run"
            f" {first[1]}): the mirrored skull beside the figures takes it to"
        )
    return notes


def corners(place: Mapping[str, Any], shape: Sequence[int]) -> np.ndarray:
    """Return where the outermost voxels (8, 3) of a volume lie in the patient, in mm."""
    indices = np.array(np.meshgrid(*((0, size - 1) for size in shape))).reshape(3, -1).T
    return Volume(np.zeros(0), (1.0, 1.0, 1.0), place).in_mm(indices)


def slanted(ways: np.ndarray) -> bool:
    """Whether axes are not at right angles, by a degree and more."""
    units = ways / np.linalg.norm(ways, axis=1, keepdims=True)
    return bool(np.abs(units @ units.T - np.eye(3)).max() > SLANTED)


def read_volume(path: Path) -> Volume:
    """Return the binary mask (> 0) and the spacing of an NRRD file.

    Raises SkullDataError where it is missing, broken, not three-dimensional, NaN, empty, full or no
    mask.
    """
    if not path.is_file():
        raise SkullDataError(f"there is no volume {path}")
    try:
        data, header = nrrd.read(str(path))
        spacing = spacing_of(header) if data.ndim == 3 else (1.0,) * 3
    except Exception as problem:  # pynrrd raises its own, zlib's and NumPy's errors.
        raise SkullDataError(f"{path}: cannot be read as NRRD ({problem})") from problem
    if data.ndim != 3:
        raise SkullDataError(f"{path}: has {data.ndim} axes, shape {data.shape}; expected three")
    if np.issubdtype(data.dtype, np.floating) and not np.isfinite(data).all():
        raise SkullDataError(f"{path}: has voxels that are NaN or infinite")
    mask = data > 0
    if not mask.any():
        raise SkullDataError(f"{path}: is empty, no voxel is above 0")
    if mask.all():
        raise SkullDataError(
            f"{path}: is full, every voxel is above 0: what is no bone has to be 0"
        )
    low, high = data.min(), data.max()
    if high - float(low) > 1 and not ((data == low) | (data == high)).all():
        raise SkullDataError(
            f"{path}: holds more than two values, from {low:g} to {high:g}: a skull is a mask of"
            " bone and nothing; a CT becomes one by a threshold, such as 200 HU"
        )
    return Volume(mask, spacing, place_of(header))


def volumes_in(folder: Path) -> list[Path]:
    """Return the NRRD files anywhere in a folder, without hidden ones, which may be drafts."""
    return sorted(path for path in folder.rglob("*.nrrd") if path.name[0] != ".")


def spacing_of(header: dict[str, Any]) -> tuple[float, float, float]:
    """Return the voxel size in mm of the header of a volume; 1 where it says nothing of an axis.

    Raises ValueError where it speaks of other axes than three.
    """
    directions = header.get("space directions")
    if directions is not None:
        lengths = np.linalg.norm(np.asarray(directions, dtype=float), axis=1)
    else:
        lengths = np.asarray(header.get("spacings", (1.0, 1.0, 1.0)), dtype=float)
    first, second, third = np.where(np.isfinite(lengths) & (lengths > 0), lengths, 1.0).tolist()
    return first, second, third


def write_volume(
    path: Path,
    mask: np.ndarray,
    spacing: tuple[float, float, float],
    place: Mapping[str, Any] | None = None,
) -> None:
    """Write a mask as a gzip-compressed NRRD of uint8; the file is whole or absent.

    With the place of another volume of this shape it lies on that in a viewer.
    """
    usual = {
        "space": "left-posterior-superior",
        "space directions": np.diag(spacing),
        "space origin": np.zeros(3),
    }
    header = {**(place or usual), "encoding": "gzip"}
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
