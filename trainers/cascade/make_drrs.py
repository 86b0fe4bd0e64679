"""Make the patients' X-rays from their CTs: cubes in mm, projected through a stated geometry.

    python trainers/cascade/make_drrs.py LIDC data/lidc --config lidc.json --workers 8

Reads a folder with a folder for each patient, whose CT is NIfTI, .npy or DICOM. Writes one that
train.py takes: each CT cut and padded with air to the geometry's field of view around its middle,
its frontal and lateral line integrals as 16-bit PNG, and calibration.json. These are projections of
what is to be found again: as inputs they are kinder than a patient's real X-rays.
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
from functools import partial

import nibabel
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trainers.cascade.config import Config, read_config
from trainers.cascade.geometry import ConeBeam, line_integrals
from trainers.cascade.make_patients import write_calibration, write_xrays
from trainers.cascade.options import find_config
from trainers.cascade.patients import (
    AIR,
    Patient,
    find_patients,
    fit,
    read_ct,
    to_canonical_axes,
)
from trainers.cascade.projector import unit_from_hu
from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags, use_threads
from trainers.common.making import each_made, make_data
from trainers.common.settings_parser import SettingsParser, number_between, output_folder
from trainers.common.stopping import StopRequest, Watched

MAXIMUM = 11.0
"""The line integral of a white pixel: water 534 mm thick, through bone less."""


def cube_of(volume: Tensor, extent: np.ndarray, sides: tuple[float, ...], spacing: float) -> Tensor:
    """Return a CT (D, H, W) of an extent in mm as one of other sides around the same middle.

    Its voxels have this spacing in mm; what lies outside of the CT is air.
    """
    counts = [max(1, round(float(side) / spacing)) for side in extent]
    found = fit(volume[None, None], counts)[0, 0]
    wanted = [round(side / spacing) for side in sides]
    pads: list[int] = []
    for now, then in zip(reversed(found.shape), reversed(wanted), strict=True):
        pads += [(then - now) // 2, then - now - (then - now) // 2]
    # A negative padding cuts.
    return F.pad(found, pads, value=AIR)


def write_patient(
    folder: Path, config: Config, sides: tuple[float, ...], spacing: float, patient: Patient
) -> None:
    """Write one patient's folder, which has its name only once it is whole."""
    torch.set_num_threads(1)
    hu, extent = read_ct(patient.ct, sides, turn=True)
    cube = cube_of(torch.from_numpy(hu), extent, sides, spacing)
    draft = folder / f".{patient.name}.part"
    draft.mkdir(parents=True, exist_ok=True)
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = -np.array([sides[2], sides[0], sides[1]]) / 2 + spacing / 2
    stored = np.ascontiguousarray(to_canonical_axes(cube.round().short().numpy()))
    image = nibabel.Nifti1Image(stored, affine)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, draft / f"{patient.name}.nii.gz")
    widths = torch.full((1, 3), spacing)
    # Below air there is nothing that would make an X-ray brighter.
    volume = unit_from_hu(cube.clamp(min=AIR))[None, None]
    images = line_integrals(volume, config.views, widths, config.geometry)[0]
    pixels = fit(images[None], (config.image_size,) * 2)[0]
    write_xrays(draft, patient.name, dict(zip(config.views, pixels.numpy(), strict=True)), MAXIMUM)
    draft.rename(folder / patient.name)


def make_drrs(
    source: Path,
    folder: Path,
    config: Config,
    spacing: float,
    workers: int,
    threads: int = 0,
    watched: Watched = iter,
) -> int:
    """Write the patients that are not there yet and return how many were. Raises SettingsError."""
    patients, problems = find_patients(source, ())
    for problem in problems:
        print(f"left out     {problem}")
    beam = config.geometry
    sides = beam.field_of_view if isinstance(beam, ConeBeam) else cube_side(patients[0])
    write_calibration(folder, MAXIMUM, sides, config.stated_geometry, {"made_from": "CTs"})
    missing = [patient for patient in patients if not (folder / patient.name).is_dir()]
    write = partial(write_patient, folder, config, sides, spacing)
    # Else each would take all cores.
    begin = partial(torch.set_num_threads, threads or 1)
    made = each_made(write, missing, workers, watched, begin)
    for _, wait in bar(made, "patients projected", len(missing)):
        wait()
    return len(missing)


def cube_side(patient: Patient) -> tuple[float, float, float]:
    """Return, for parallel rays, a cube as wide as the first CT: a geometry says it otherwise."""
    _, extent = read_ct(patient.ct, None, turn=True)
    side = float(extent[2])
    return side, side, side


def main(arguments: list[str] | None = None) -> int:
    """Make X-rays as the command line says; return 0, or what make_data says."""
    parser = SettingsParser(
        "Make the patients' X-rays from their CTs, through a configuration's geometry.",
        "python trainers/cascade/make_drrs.py LIDC data/lidc --config lidc.json --workers 8",
    )
    add = parser.add_argument
    add("source", type=Path, help="folder with a folder for each patient: NIfTI, .npy or DICOM")
    add("folder", type=output_folder, help="where the patients' folders go")
    add("--config", type=Path, default=Path("lidc.json"), help="whose xray_config is used")
    add("--spacing", type=number_between(0.1, 20), default=1.0, help="voxels' size in mm")
    add_device_flags(parser, cpu_only="CTs are projected on the CPU; use --workers",
        own_threads=True)  # fmt: skip
    settings: argparse.Namespace = parser.parse_args(arguments)
    use_threads(settings)

    def make(stop: StopRequest) -> int:
        config = read_config(find_config(settings.config))
        made = make_drrs(
            settings.source, settings.folder, config, settings.spacing, settings.workers,
            settings.threads, stop.watched,
        )  # fmt: skip
        print(f"{made} patients made: {settings.folder}")
        return 0

    return make_data(make)


if __name__ == "__main__":
    sys.exit(main())
