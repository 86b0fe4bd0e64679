"""SkullFix: volumes resampled to 0.45 mm, cropped to the skull and padded to 512³, and back again.

The steps are those of the pcdiff-implant project: linear interpolation, the crop taken from the
complete skull, padding centred along axes 0 and 1 and at the far end of axis 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from trainers.skulls.listing import FOLDERS, SkullDataError
from trainers.skulls.metrics import bounding_box
from trainers.skulls.volumes import read_volume, replace_file, write_volume

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
    complete: np.ndarray, spacing: tuple[float, float, float], side: int = SIDE
) -> tuple[np.ndarray, Placement]:
    """Return the resampled complete skull and where its box goes in a cube of `side` voxels.

    Raises SkullDataError where the skull is larger than the cube.
    """
    shape = tuple(
        max(1, round(size * step / SPACING_MM))
        for size, step in zip(complete.shape, spacing, strict=True)
    )
    resampled = resample(complete, (shape[0], shape[1], shape[2]))
    box = bounding_box(resampled, [0, 0, 0])
    if box is None:
        raise SkullDataError("the complete skull vanishes when it is resampled")
    crop = tuple((part.start, part.stop) for part in box)
    lengths = [stop - start for start, stop in crop]
    if max(lengths) > side:
        raise SkullDataError(f"the skull is {max(lengths)} voxels of {SPACING_MM} mm, over {side}")
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


def read_placement(path: Path) -> Placement:
    """Return the placement that lies beside a placed volume."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    crop = tuple(tuple(limits) for limits in saved.pop("crop"))
    return Placement(crop=crop, **{name: tuple(value) for name, value in saved.items()})


def placement_path(complete: Path) -> Path:
    """Return where the placement of a complete skull's volume is written."""
    return complete.with_name(complete.name.removesuffix(".nrrd") + "_placement.json")


def resample_skull(source: Path, target: Path, name: str) -> None:
    """Resample a skull's three volumes from one SkullFix folder into another."""
    complete = read_volume(source / "complete_skull" / name)
    resampled, where = plan_placement(complete.mask, complete.spacing)
    for folder in FOLDERS:
        goal = target / folder / name
        if goal.is_file():
            continue
        mask = resampled
        if folder != "complete_skull":
            volume = read_volume(source / folder / name)
            if volume.mask.shape != complete.mask.shape:
                raise SkullDataError(
                    f"{source / folder / name}: shape {volume.mask.shape} differs from the"
                    f" complete skull's {complete.mask.shape}"
                )
            mask = resample(volume.mask, where.resampled)
        write_volume(goal, place(mask, where), (SPACING_MM,) * 3)
    note = placement_path(target / "complete_skull" / name)
    replace_file(note, lambda draft: draft.write_text(json.dumps(asdict(where)), encoding="utf-8"))


def resample_dataset(
    source: Path, target: Path
) -> list[tuple[Callable[..., None], tuple[object, ...], Path]]:
    """Return the jobs that bring a SkullFix folder's volumes into target; lists are copied."""
    if source.resolve() == target.resolve():
        raise SkullDataError(f"--to {target}: has to be another folder than --root")
    names = sorted(path.name for path in (source / "complete_skull").glob("*.nrrd"))
    if not names:
        raise SkullDataError(f"{source / 'complete_skull'}: holds no .nrrd files")
    for path in source.glob("*.csv"):
        text = path.read_text(encoding="utf-8")
        replace_file(target / path.name, lambda draft, text=text: draft.write_text(text))
    return [
        (resample_skull, (source, target, name), source / "complete_skull" / name)
        for name in names
        if not placement_path(target / "complete_skull" / name).is_file()
    ]
