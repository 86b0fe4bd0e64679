"""Patients on disk: a folder each with a frontal and a lateral X-ray and a CT.

A CT is NIfTI or a folder of DICOM slices, brought into canonical orientation by its header, or a
.npy that is (D, H, W) already: D to the back, H downwards, W to the patient's left (see
projector.py). Hounsfield units are clipped to [-1024, 1024].
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, cast

import nibabel
import numpy as np
import torch
from nibabel.affines import voxel_sizes
from torch import Tensor
from torch.nn import functional as F

from trainers.cascade import dicom
from trainers.cascade.projector import HU_HIGH, HU_LOW
from trainers.common.errors import read_as
from trainers.common.reading import check_finite, read_picture
from trainers.common.settings_parser import SettingsError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", dicom.SUFFIX)
VIEW_STEMS = {
    "frontal": ("{id}_pa_drr", "{id}_pa", "{id}_frontal"),
    "lateral": ("{id}_lat_drr", "{id}_lat", "{id}_lateral"),
}
CT_SUFFIXES = (".nii.gz", ".nii", ".npy")
CT_FOLDERS = ("{id}", "{id}_ct", "ct", "dicom")
"""What a folder of DICOM slices may be called, in the patient's."""
CALIBRATION = "calibration.json"
AIR = -1000.0
MOST_SLANT = 1.0
"""Degrees that a CT's axes may lie off the patient's: 2.8 mm at the edge of 320 mm."""
DARKEST = 1 / 65535
"""The least transmission that is believed: one step of 16 bits; its line integral is 11.09."""


@dataclass(frozen=True)
class Patient:
    """Where a patient's X-rays, by view, and CT lie, and what lies beside them unread."""

    name: str
    xrays: dict[str, Path]
    ct: Path
    unread: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """What a pixel, 0 to 1, stands for: a share of a line integral, a transmission, or nothing.

    field_of_view is the size of the imaged volume in mm along D, H, W, for CTs without a header;
    geometry how rays ran, as a configuration says it, and None where that is not said.
    """

    kind: str
    maximum: float | None = None
    field_of_view: tuple[float, float, float] | None = None
    geometry: dict[str, Any] | None = None


def find_patients(folder: Path, views: Sequence[str]) -> tuple[list[Patient], list[str]]:
    """Return the patients in a folder, by name, and a line for each folder that lacks something.

    Raises SettingsError where the folder is missing or holds no whole patient.
    """
    if not folder.is_dir():
        raise SettingsError(
            f"data.dataset_path: there is no folder {folder}; make one of made-up patients with"
            " trainers/cascade/make_patients.py"
        )
    patients, problems = [], []
    for place in sorted(
        entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != "."
    ):
        files = {entry.name.lower(): entry for entry in place.iterdir() if entry.is_file()}
        stem = place.name.lower()
        inside = {entry.name.lower(): entry for entry in place.iterdir() if entry.is_dir()}
        found = {f"{view} X-ray": present(files, names(VIEW_STEMS[view], stem)) for view in views}
        found["CT volume"] = [
            *present(files, [stem + suffix for suffix in CT_SUFFIXES]),
            *present(inside, [name.format(id=stem) for name in CT_FOLDERS]),
        ]
        if missing := [what for what, paths in found.items() if not paths]:
            problems.append(f"{place.name}: no {', no '.join(missing)}")
        else:
            *xrays, ct = (paths[0] for paths in found.values())
            unread = tuple(path for paths in found.values() for path in paths[1:])
            named = dict(zip(views, xrays, strict=True))
            patients.append(Patient(place.name, named, ct, unread))
    if not patients:
        example = f"ID/ID_pa_drr.png, ID/ID_lat_drr.png and ID/ID.nii.gz; {'; '.join(problems[:3])}"
        raise SettingsError(
            f"data.dataset_path: no whole patient in {folder}: each needs files such as {example}"
        )
    return patients, problems


def names(stems: Sequence[str], patient: str) -> list[str]:
    """Return the file names an X-ray may have."""
    return [stem.format(id=patient) + suffix for stem in stems for suffix in IMAGE_SUFFIXES]


def present(files: dict[str, Path], candidates: Sequence[str]) -> list[Path]:
    """Return the files of the candidates that are there, in the candidates' order."""
    return [files[name] for name in candidates if name in files]


def read_calibration(folder: Path, kind: str, maximum: float | None) -> Calibration:
    """Return what pixels mean, by the configuration or, for `auto`, by calibration.json.

    Raises SettingsError where the file cannot be read, or line integrals have no maximum.
    """
    path = folder / CALIBRATION
    stated = read_stated(path) if path.is_file() else {}
    if kind == "auto":
        kind = str(stated.get("xray_calibration", "none"))
        written = stated.get("xray_maximum")
        if written is not None and not is_length(written):
            raise SettingsError(f"{path}: xray_maximum {written!r} is not a number above 0")
        maximum = maximum or written
    if kind not in ("line_integral", "transmission", "none"):
        raise SettingsError(
            f"{path}: xray_calibration {kind!r} is none of line_integral, transmission, none"
        )
    if kind == "line_integral" and not maximum:
        raise SettingsError(
            "data.xray_maximum: what line integral is a white pixel? line_integral needs it"
        )
    view = stated.get("field_of_view_mm")
    if view is not None and three_numbers(view) is None:
        raise SettingsError(f"{path}: field_of_view_mm {view!r} is not three numbers above 0")
    return Calibration(kind, maximum, three_numbers(view), geometry_of(stated, path))


def read_stated(path: Path) -> dict[str, object]:
    """Return what a calibration.json says. Raises SettingsError where it is no JSON object."""
    with read_as(path, "a JSON object"):
        return dict(json.loads(path.read_text(encoding="utf-8")))


def geometry_of(stated: dict[str, object], path: Path) -> dict[str, Any] | None:
    """Return what calibration.json says of the rays. Raises SettingsError where it is no object."""
    found = stated.get("geometry")
    if found is not None and not isinstance(found, dict):
        raise SettingsError(f"{path}: geometry {found!r} is no JSON object")
    return found


def check_geometry(
    configured: dict[str, Any] | None, calibration: Calibration, folder: Path
) -> None:
    """Raise SettingsError where the patients say that other rays made their X-rays."""
    if calibration.geometry is not None and calibration.geometry != configured:
        raise SettingsError(
            f"xray_config.geometry is {json.dumps(configured)}, and {folder / CALIBRATION} says"
            f" {json.dumps(calibration.geometry)}: copy that into the configuration"
        )


def is_length(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number above 0."""
    return type(value) in (int, float) and 0 < cast(float, value) < math.inf


def three_numbers(sides: object) -> tuple[float, float, float] | None:
    """Return a list of three lengths as a tuple, and None for anything else."""
    if not isinstance(sides, (list, tuple)) or len(sides) != 3 or not all(map(is_length, sides)):
        return None
    depth, height, width = (float(side) for side in sides)
    return depth, height, width


def read_xray(
    path: Path, size: int, flip: bool, calibration: Calibration
) -> tuple[Tensor, Tensor | None]:
    """Return an X-ray in [-1, 1] as the model sees it, and its line integrals if calibrated.

    Both are (size, size). Raises SettingsError naming the file where it cannot be read or is empty.
    """
    if path.suffix.lower() == dicom.SUFFIX:
        pixels = dicom.read_picture(path)
    else:
        stated = calibration.kind != "none"
        pixels = np.array(read_picture(path, colour=False, stated=stated), dtype=np.float32)
    if pixels.max() == pixels.min():
        raise SettingsError(f"{path} shows nothing: every pixel is {pixels.flat[0]:g}")
    image = torch.from_numpy(pixels)[None, None]
    if flip:
        image = image.flip(2)
    if calibration.kind == "transmission":
        image = -image.clamp(min=DARKEST).log() / -np.log(DARKEST)
    image = fit(image, (size, size))[0, 0]
    if calibration.kind == "none":
        return image * 2 - 1, None
    scale = calibration.maximum if calibration.kind == "line_integral" else -float(np.log(DARKEST))
    return image * 2 - 1, image * float(scale or 1)


def fit(grid: Tensor, shape: Sequence[int]) -> Tensor:
    """Return (B, C, ...) at a shape: shrinking axes are averaged, growing ones interpolated."""
    larger = [max(now, wanted) for now, wanted in zip(grid.shape[2:], shape, strict=True)]
    mode = "bilinear" if grid.ndim == 4 else "trilinear"
    if larger != list(grid.shape[2:]):
        grid = F.interpolate(grid, size=larger, mode=mode, align_corners=False)
    return (
        grid
        if list(grid.shape[2:]) == list(shape)
        else F.interpolate(grid, size=tuple(shape), mode="area")
    )


def read_ct(
    path: Path, field_of_view: tuple[float, float, float] | None, turn: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return a CT in HU, clipped to the window, as (D, H, W) float32, and its size in mm.

    `turn` is as in open_ct.

    Raises SettingsError naming the file where it cannot be read, is not a volume, has NaN, or is
    not in HU.
    """
    with read_as(path, "a CT volume"):
        if path.name.endswith(".npy"):
            volume = np.load(path, allow_pickle=False).astype(np.float32)
            extent = np.asarray(field_of_view or volume.shape, dtype=np.float64)
        else:
            volume, extent = from_scanner(open_ct(path, turn))
    if volume.ndim != 3 or min(volume.shape) < 2:
        raise SettingsError(f"{path} is no volume: its shape is {volume.shape}")
    check_finite(volume, path)
    low, high = float(volume.min()), float(volume.max())
    if high - low < 10 or low >= 0:
        raise SettingsError(
            f"{path} lies between {low:g} and {high:g}: that is not Hounsfield units, of which air"
            " has -1000 and water 0"
        )
    return volume.clip(HU_LOW, HU_HIGH), extent


def open_ct(path: Path, turn: bool = False) -> nibabel.Nifti1Image:
    """Return a NIfTI file, or a folder of DICOM slices, in canonical orientation.

    Raises SettingsError where its header does not say how it lies, or says that its axes are not
    the patient's; with `turn` such a CT is resampled to axes that are, with air around it.
    """
    if path.is_dir():
        found = dicom.read_series(path)
    else:
        found = _loaded(path)
        header = found.header
        if (
            isinstance(header, nibabel.Nifti1Header)
            and not header["sform_code"] + (header["qform_code"])
        ):
            raise SettingsError(
                f"{path}: its header does not say how the patient lies in it (sform_code and"
                " qform_code are 0): write it anew with its affine, or as .npy"
            )
    image = nibabel.as_closest_canonical(found)
    if (slant := slant_of(image.affine)) <= MOST_SLANT:
        return image
    if not turn:
        raise SettingsError(
            f"{path}: its axes lie up to {slant:.1f} degrees off the patient's, and rays run along"
            " them: make its X-rays anew with make_drrs.py, which turns it, or turn it before, as"
            " nibabel.processing.resample_to_output(image, cval=-1000) does; if its X-rays run"
            " along the array's axes, store that as .npy"
        )
    from nibabel.processing import resample_to_output

    voxels = nibabel.Nifti1Image(volume_of(image), image.affine)
    return resample_to_output(voxels, voxel_sizes(image.affine), order=1, cval=AIR)


def _loaded(path: Path) -> nibabel.Nifti1Image:
    """Return an image file; of a compressed one also its sum is checked, which nibabel leaves."""
    image = nibabel.load(path)
    if np.dtype(image.get_data_dtype()).kind not in "iuf":
        raise SettingsError(
            f"{path} holds numbers of type {image.get_data_dtype()}: a CT has one real number a"
            " voxel, write it anew as int16 or float32"
        )
    if path.suffix.lower() != ".gz":
        return image
    return type(image).from_bytes(gzip.decompress(path.read_bytes()))


def slant_of(affine: np.ndarray) -> float:
    """Return by how many degrees at most an axis lies off the patient's nearest one."""
    ways = np.abs(affine[:3, :3])
    return float(np.degrees(np.arccos((ways.max(0) / np.linalg.norm(ways, axis=0)).min())))


def volume_of(image: nibabel.Nifti1Image) -> np.ndarray:
    """Return an image's values as float32, three-dimensional where a fourth axis says nothing."""
    data = np.asarray(image.dataobj, dtype=np.float32)
    return data[..., 0] if data.ndim == 4 and data.shape[3] == 1 else data


def from_scanner(image: nibabel.Nifti1Image) -> tuple[np.ndarray, np.ndarray]:
    """Return a canonical image's volume as (D, H, W) and its size in mm."""
    data = volume_of(image)
    if data.ndim != 3:
        return data, np.ones(3)
    # By where it lies, as its orientation: pixdim may say otherwise of a file with an sform.
    right, front, up = voxel_sizes(image.affine) * data.shape
    return np.ascontiguousarray(to_body_axes(data)), np.array([front, up, right])


def to_body_axes(canonical: np.ndarray) -> np.ndarray:
    """Return a volume (right, front, up), nibabel's RAS+, as (D back, H down, W left)."""
    return canonical[::-1, ::-1, ::-1].transpose(1, 2, 0)


def to_canonical_axes(volume: np.ndarray) -> np.ndarray:
    """Return (D, H, W) as (right, front, up), the inverse of to_body_axes."""
    return volume.transpose(2, 0, 1)[::-1, ::-1, ::-1]
