"""Volumes of any shape resampled to 0.45 mm, cropped to the skull, padded to 512³, and back again.

The steps are those of the pcdiff-implant project for SkullFix: linear interpolation, the crop taken
from the complete skull, padding centred along axes 0 and 1 and at the far end of axis 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from trainers.common.errors import read_as
from trainers.skulls.listing import FOLDERS, SkullDataError, csv_text, resolved, rows_of
from trainers.skulls.metrics import bounding_box
from trainers.skulls.volumes import (
    check_axes,
    read_volume,
    replace_file,
    volumes_in,
    write_volume,
)

SPACING_MM = 0.45
SIDE = 512


@dataclass(frozen=True)
class Placement:
    """Where a resampled volume lies in its cube, and what it was before."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    resampled: tuple[int, int, int]
    crop: tuple[tuple[int, int], ...]
    offset: tuple[int, int, int]


def resample(mask: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return a mask at another shape of the same extent, interpolated linearly and cut at 0.5."""
    factors = [size / before for size, before in zip(shape, mask.shape, strict=True)]
    found = ndimage.zoom(mask.astype(np.float32), factors, order=1, grid_mode=True, mode="nearest")
    result: np.ndarray = found > 0.5
    return result


def plan_placement(
    complete: np.ndarray,
    spacing: tuple[float, float, float],
    side: int = SIDE,
    wanted: float = SPACING_MM,
) -> tuple[np.ndarray, Placement]:
    """Return the complete skull in voxels of the wanted mm, and where its box goes in a cube.

    Raises SkullDataError where the skull is larger than the cube, of `side` voxels.
    """
    shape = tuple(
        max(1, round(size * step / wanted))
        for size, step in zip(complete.shape, spacing, strict=True)
    )
    resampled = resample(complete, (shape[0], shape[1], shape[2]))
    box = bounding_box(resampled, [0, 0, 0])
    if box is None:
        raise SkullDataError("the complete skull vanishes when it is resampled")
    crop = tuple((part.start, part.stop) for part in box)
    lengths = [stop - start for start, stop in crop]
    if max(lengths) > side:
        raise SkullDataError(
            f"the skull is {max(lengths)} voxels of {wanted:g} mm, over {side}: use a larger"
            " --spacing"
        )
    offset = ((side - lengths[0]) // 2, (side - lengths[1]) // 2, 0)
    before, after = complete.shape, resampled.shape
    return resampled, Placement(before, spacing, after, crop, offset)  # type: ignore[arg-type]


def place(mask: np.ndarray, where: Placement, side: int = SIDE) -> np.ndarray:
    """Return a resampled mask cropped and laid into the cube."""
    cube = np.zeros((side,) * 3, bool)
    part = mask[tuple(slice(*limits) for limits in where.crop)]
    corner = zip(where.offset, part.shape, strict=True)
    cube[tuple(slice(first, first + length) for first, length in corner)] = part
    return cube


def restore(cube: np.ndarray, where: Placement) -> np.ndarray:
    """Return a cube's mask in the shape and spacing the volume had before."""
    lengths = [stop - start for start, stop in where.crop]
    corner = zip(where.offset, lengths, strict=True)
    resampled = np.zeros(where.resampled, bool)
    resampled[tuple(slice(*limits) for limits in where.crop)] = cube[
        tuple(slice(first, first + length) for first, length in corner)
    ]
    return resample(resampled, where.shape)


def place_in_cube(place: Mapping[str, Any], where: Placement) -> dict[str, Any]:
    """Return the place in the patient of a cube, from that of the volume it was made of."""
    if not place:
        return {}
    finer = np.array(where.shape) / np.array(where.resampled)
    first = np.array([start for start, _ in where.crop]) - where.offset
    ways = np.asarray(place["space directions"], dtype=float)
    # Voxels share the outer edge of the volume, not the middle of the first one.
    origin = place.get("space origin", np.zeros(3)) + ((first + 0.5) * finer - 0.5) @ ways
    return {**place, "space directions": ways * finer[:, None], "space origin": origin}


def read_placement(path: Path) -> Placement:
    """Return the placement that lies beside a placed volume."""
    with read_as(path, "a placement"):
        saved = json.loads(path.read_text(encoding="utf-8"))
        crop = tuple(tuple(limits) for limits in saved.pop("crop"))
        return Placement(crop=crop, **{name: tuple(value) for name, value in saved.items()})


def placement_path(complete: Path) -> Path:
    """Return where the placement of a complete skull's volume is written."""
    return complete.with_name(complete.name.removesuffix(".nrrd") + "_placement.json")


def resample_skull(source: Path, target: Path, name: str, side: int, spacing: float) -> None:
    """Resample all volumes of a skull from one data set's folder into another."""
    first = source / "complete_skull" / name
    complete = read_volume(first)
    resampled, where = plan_placement(complete.mask, complete.spacing, side, spacing)
    others = (path for part in FOLDERS[1:] for path in volumes_in(source / part))
    for path in (first, *(path for path in others if path.name == name)):
        goal = target / path.relative_to(source)
        if goal.is_file():
            continue
        mask, volume = resampled, complete
        if path != first:
            volume = read_volume(path)
            if volume.mask.shape != complete.mask.shape:
                raise SkullDataError(
                    f"{path}: shape {volume.mask.shape} differs from the complete skull's"
                    f" {complete.mask.shape}"
                )
            mask = resample(volume.mask, where.resampled)
        cube = place(mask, where, side)
        write_volume(goal, cube, (spacing,) * 3, place_in_cube(volume.place, where))
    note = placement_path(target / "complete_skull" / name)
    replace_file(note, lambda draft: draft.write_text(json.dumps(asdict(where)), encoding="utf-8"))


def resample_dataset(
    source: Path, target: Path, side: int = SIDE, spacing: float = SPACING_MM
) -> list[tuple[Callable[..., None], tuple[object, ...], Path]]:
    """Return the jobs that bring a data set's volumes into target as cubes; lists are copied."""
    if source.resolve() == target.resolve():
        raise SkullDataError(f"--to {target}: has to be another folder than --root")
    complete = source / "complete_skull"
    names = [path.name for path in volumes_in(complete) if path.parent == complete]
    if not names:
        raise SkullDataError(f"{complete}: holds no .nrrd files")
    for note in check_axes(path for part in FOLDERS for path in volumes_in(source / part)):
        print(f"note         {note}")
    for path in source.glob("*.csv"):
        content = list_for(path, source)
        replace_file(target / path.name, lambda draft, content=content: draft.write_bytes(content))
    return [
        (resample_skull, (source, target, name, side, spacing), complete / name)
        for name in names
        if not placement_path(target / "complete_skull" / name).is_file()
    ]


def list_for(path: Path, source: Path) -> bytes:
    """Return a list for another folder: what it names of the source as its own folder has it.

    Its paths may be whole ones or begin at the working directory, and would lead back there.
    """

    def moved(cell: str) -> str:
        here = resolved(path, Path(cell.strip()))
        inside = source.resolve() in here.resolve().parents and here.suffix in (".nrrd", ".npy")
        return str(here.resolve().relative_to(source.resolve())) if inside else cell

    try:
        rows = rows_of(path)
    except SkullDataError:  # Whoever reads it as a list says what is wrong with it.
        return path.read_bytes()
    found = [[moved(cell) for cell in row] for row in rows]
    return path.read_bytes() if found == rows else csv_text(found).encode()
