"""CTs and X-rays as scanners write them: DICOM, read by pydicom.

A CT is a folder of slices of one series. Where they lie follows from ImageOrientationPatient and
ImagePositionPatient (DICOM PS3.3 C.7.6.2), never from file names; values become HU by the rescale
slope and intercept. What would be read wrongly is refused: gaps and several series; axes that are
not the patient's, as of a tilted gantry, are what patients.open_ct looks at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from trainers.common.errors import SettingsError, read_as

SUFFIX = ".dcm"
UNNAMED = re.compile(r"|\.(dcm|ima|\d+)", re.IGNORECASE)
"""What slices end in: scanners name them by their UID, such as 1.3.6.1.4.1, too."""
UNEVEN = 0.02
"""How much the distance from slice to slice may differ from the mean one."""
TO_RAS = np.diag([-1.0, -1.0, 1.0])
"""DICOM's axes run to the patient's left and back, nibabel's to the right and front."""


def read_file(path: Path) -> Any:
    """Return a DICOM file's dataset. Raises SettingsError where it is none, or without pydicom."""
    try:
        import pydicom
    except ModuleNotFoundError as problem:
        raise SettingsError(f"{path} needs pydicom: pip install pydicom") from problem
    with read_as(path, "DICOM"):
        return pydicom.dcmread(path)


def slice_files(folder: Path) -> list[Path]:
    """Return a folder's DICOM files: .dcm, .ima, or without an ending, as names of numbers are."""
    entries = (entry for entry in folder.iterdir() if entry.is_file() and entry.name[0] != ".")
    return sorted(e for e in entries if UNNAMED.fullmatch(e.suffix) and e.name != "DICOMDIR")


def read_series(folder: Path) -> nibabel.Nifti1Image:
    """Return a folder's CT in HU, with its place in the patient as NIfTI's affine.

    Raises SettingsError naming the folder where the slices are not one whole, even series.
    """
    slices = [found for found in map(read_file, slice_files(folder)) if "PixelData" in found]
    with read_as(folder, "a CT of DICOM"):
        check_series(folder, slices)
        across, down = np.reshape(np.float64(slices[0].ImageOrientationPatient), (2, 3))
        normal = np.cross(across, down)
        slices.sort(key=lambda part: float(np.dot(normal, np.float64(part.ImagePositionPatient))))
        places = np.float64([part.ImagePositionPatient for part in slices])
        step = even_step(folder, places, normal)
        # PixelSpacing is from row to row, then from column to column.
        high, wide = (float(side) for side in slices[0].PixelSpacing)
        volume = np.stack([hounsfield(part).T for part in slices], axis=-1)
    affine = np.eye(4)
    affine[:3, :3] = TO_RAS @ np.stack([across * wide, down * high, step], axis=-1)
    affine[:3, 3] = TO_RAS @ places[0]
    return nibabel.Nifti1Image(volume, affine)


def hounsfield(part: Any) -> np.ndarray:
    """Return a slice (rows, columns) in HU as float32."""
    slope, offset = (float(part.get(f"Rescale{name}", usual))
                     for name, usual in (("Slope", 1), ("Intercept", 0)))  # fmt: skip
    return part.pixel_array.astype(np.float32) * np.float32(slope) + np.float32(offset)


def check_series(folder: Path, slices: list[Any]) -> None:
    """Raise SettingsError unless there are slices of one series, alike in size and direction."""
    if len(slices) < 2:
        raise SettingsError(f"{folder} holds {len(slices)} DICOM slices: a CT has at least 2")
    for name, what in (
        ("SeriesInstanceUID", "series"),
        ("ImageOrientationPatient", "directions"),
        ("PixelSpacing", "pixel spacings"),
        ("Rows", "heights"),
        ("Columns", "widths"),
    ):
        found = {str(part[name].value) for part in slices}
        if len(found) > 1:
            raise SettingsError(
                f"{folder} holds slices of {len(found)} {what}: leave one series in the folder"
            )


def even_step(folder: Path, places: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return the way (3,) in mm from slice to slice. Raises SettingsError for gaps and bends."""
    ways = np.diff(places, axis=0)
    distances = ways @ normal
    usual = float(np.median(distances))
    odd = np.abs(distances - usual) > UNEVEN * max(usual, 1e-6)
    if usual <= 0 or odd.any():
        where = int(np.argmax(odd)) + 1
        raise SettingsError(
            f"{folder}: slices are {usual:g} mm apart, and {distances[where - 1]:g} mm after slice"
            f" {where} of {len(places)}: one is missing or there twice"
        )
    step: np.ndarray = ways.mean(0)
    if np.linalg.norm(ways - step, axis=1).max() > UNEVEN * usual:
        raise SettingsError(f"{folder}: its slices do not lie on one line")
    return step


def read_picture(path: Path) -> np.ndarray:
    """Return a DICOM X-ray (H, W) in [0, 1], white where it is shown white, of its stored bits."""
    found = read_file(path)
    with read_as(path, "an X-ray"):
        pixels = found.pixel_array.astype(np.float32)
        least = -float(2 ** (found.BitsStored - 1)) if found.PixelRepresentation else 0.0
        pixels = (pixels - least) / np.float32(2**found.BitsStored - 1)
        inverted = found.PhotometricInterpretation == "MONOCHROME1"
    if pixels.ndim != 2:
        raise SettingsError(f"{path} is no single grey picture: its shape is {pixels.shape}")
    return 1 - pixels if inverted else pixels


def fingerprint(ct: Path) -> str:
    """Return what changes when a CT does: sizes and times of its file, or of its slices."""
    files: Iterable[Path] = slice_files(ct) if ct.is_dir() else (ct,)
    states = [file.stat() for file in files]
    total, newest = sum(s.st_size for s in states), max((s.st_mtime_ns for s in states), default=0)
    return f"{ct.absolute()} {total} {newest}" + (f" {len(states)}" if ct.is_dir() else "")
