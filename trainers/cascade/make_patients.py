"""Make up patients: ellipsoid chests as CT volumes with exact frontal and lateral X-rays.

    python trainers/cascade/make_patients.py data/made_up --count 96 --volume_size 64 --img_size 128

The X-rays are integrals in closed form, not projections of the voxels; calibration.json says what
their pixels mean. The same seed makes the same patients, at any size.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import nibabel
import numpy as np
from PIL import Image

from trainers.cascade.conventions import read_geometry
from trainers.cascade.geometry import ConeBeam, Geometry
from trainers.cascade.patients import CALIBRATION, read_stated, to_canonical_axes
from trainers.cascade.phantoms import cone_pixelise, made_up_patient, pixelise, voxelise
from trainers.cascade.projector import MU_WATER, VIEWS
from trainers.common.bar import bar
from trainers.common.config_file import read_config_file
from trainers.common.device_flags import add_device_flags
from trainers.common.files import write_text_whole, write_whole
from trainers.common.making import each_made, make_data
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    output_folder,
    seed_number,
    whole_number,
)
from trainers.common.stopping import StopRequest, Watched

WIDTH = 320.0
"""Side of the imaged cube in mm."""
MAXIMUM = 8.0
"""The line integral of a white pixel: water 388 mm thick; the thickest made-up chest has less."""
SHORT = {"frontal": "pa", "lateral": "lat"}


def make_patients(
    folder: Path,
    count: int,
    volume_size: int,
    image_size: int,
    seed: int,
    shown: bool = True,
    geometry: dict[str, Any] | None = None,
    workers: int = 0,
    watched: Watched = iter,
) -> int:
    """Write patients that are not there yet and return how many were.

    `watched` yields what it is given, or raises StoppedError before the next patient.

    `geometry` is as in a configuration file; None is parallel rays. Raises SettingsError on another
    seed's folder, and on a geometry of another field of view.
    """
    beam = read_geometry(geometry)
    if isinstance(beam, ConeBeam) and beam.field_of_view != (WIDTH,) * 3:
        raise SettingsError(
            f"made-up patients are {WIDTH:g} mm a side: field_of_view_mm must say it"
        )
    made_up = {"seed": seed, "volume_size": volume_size, "img_size": image_size}
    write_calibration(folder, MAXIMUM, (WIDTH,) * 3, geometry, {"made_up": made_up})
    missing = [place for place in range(count) if not (folder / patient_name(place)).is_dir()]
    if shown and missing:
        print(f"making up    {len(missing)} patients in {folder}")
    write = partial(write_patient, folder, volume_size, image_size, seed, beam)
    made = each_made(write, missing, workers, watched)
    for _, wait in bar(made, "made-up patients", len(missing), shown=shown and bool(missing)):
        wait()
    return len(missing)


def patient_name(place: int) -> str:
    """Return a patient's folder name."""
    return f"patient_{place:04d}"


def write_patient(
    folder: Path, volume_size: int, image_size: int, seed: int, beam: Geometry, place: int
) -> None:
    """Write one patient's folder, which has its name only once it is whole."""
    name = patient_name(place)
    draft = folder / f".{name}.part"
    draft.mkdir(parents=True, exist_ok=True)
    ellipsoids = made_up_patient([seed, place], WIDTH)
    hu = np.rint(voxelise(ellipsoids, volume_size, WIDTH) - 1000).astype(np.int16)
    spacing = WIDTH / volume_size
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = -(WIDTH - spacing) / 2
    image = nibabel.Nifti1Image(np.ascontiguousarray(to_canonical_axes(hu)), affine)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, draft / f"{name}.nii.gz")
    integrals = {}
    for view in VIEWS:
        # Integrals of (HU + 1000) times mu_water / 1000: the ellipsoids add to air.
        if isinstance(beam, ConeBeam):
            shown = cone_pixelise(ellipsoids, beam, view, image_size)
        else:
            shown = pixelise(ellipsoids, view, image_size, WIDTH)
        integrals[view] = shown * (MU_WATER / 1000)
    write_xrays(draft, name, integrals, MAXIMUM)
    draft.rename(folder / name)


def write_calibration(
    folder: Path,
    maximum: float,
    sides: Sequence[float],
    geometry: dict[str, Any] | None,
    more: dict[str, Any],
) -> None:
    """Say what the pixels of a folder's X-rays mean, and how the rays ran.

    Raises SettingsError where the folder says something else already, or has folders of others.
    """
    described: dict[str, Any] = {
        "xray_calibration": "line_integral",
        "xray_maximum": maximum,
        "field_of_view_mm": list(sides),
        **more,
    }
    if geometry is not None:
        described["geometry"] = geometry
    path = folder / CALIBRATION
    if path.is_file():
        others = read_stated(path) != described
    else:
        inside = folder.iterdir() if folder.is_dir() else ()
        others = any(entry.is_dir() and entry.name[0] != "." for entry in inside)
    if others:
        raise SettingsError(
            f"{folder} holds other patients already (see its folders and {CALIBRATION}): choose"
            " another folder"
        )
    write_text_whole(path, json.dumps(described, indent=2) + "\n")


def write_xrays(folder: Path, name: str, integrals: Mapping[str, Any], maximum: float) -> None:
    """Write each view's line integrals (H, W) as a PNG of 16 bits, white at `maximum`."""
    for view, image in integrals.items():
        pixels = np.rint(image / maximum * 65535).clip(0, 65535).astype(np.uint16)
        write_whole(
            folder / f"{name}_{SHORT[view]}_drr.png",
            lambda file, made=pixels: Image.fromarray(made).save(file, "PNG"),
        )


def main(arguments: list[str] | None = None) -> int:
    """Make patients as the command line says; return 0, or what make_data says."""
    parser = SettingsParser(
        "Make up patients: ellipsoid chests as CT with exact X-rays.",
        "python trainers/cascade/make_patients.py data/made_up --count 96 --volume_size 64",
    )
    parser.add_argument("folder", type=output_folder, help="where the patients' folders go")
    parser.add_argument("--count", type=whole_number(3, 9999), default=96, help="patients")
    parser.add_argument(
        "--volume_size", type=whole_number(8, 512), default=64, help="voxels a side"
    )
    parser.add_argument(
        "--img_size", type=whole_number(16, 4096), default=128, help="pixels a side"
    )
    parser.add_argument("--seed", type=seed_number, default=0, help="decides every patient")
    parser.add_argument("--geometry", type=Path, metavar="FILE",
        help="JSON of a cone beam, as xray_config.geometry; default: parallel rays")  # fmt: skip
    add_device_flags(parser, cpu_only="NumPy makes them, on one thread of each of --workers")
    settings: argparse.Namespace = parser.parse_args(arguments)

    def make(stop: StopRequest) -> int:
        geometry = read_config_file(settings.geometry) if settings.geometry else None
        made = make_patients(
            settings.folder, settings.count, settings.volume_size, settings.img_size,
            settings.seed, geometry=geometry, workers=settings.workers, watched=stop.watched,
        )  # fmt: skip
        earlier = settings.count - made
        print(f"{made} patients made, {earlier} were there: {settings.folder}")
        return 0

    return make_data(make)


if __name__ == "__main__":
    sys.exit(main())
