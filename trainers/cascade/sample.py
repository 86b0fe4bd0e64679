"""From two X-rays to a CT volume: NIfTI in HU, with its deviation from sample to sample.

    python trainers/cascade/sample.py --checkpoint out/stage2_best.pt \\
        --frontal ID_pa_drr.png --lateral ID_lat_drr.png --output ct.nii.gz

The volume is the mean of --samples draws; where they disagree, the X-rays do not say what is there.
No medical device.
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

import nibabel
import numpy as np
import torch
from torch import Tensor

from trainers.cascade.config import Config
from trainers.cascade.losses import physics_error
from trainers.cascade.metrics import volume_metrics
from trainers.cascade.patients import (
    Calibration,
    fit,
    open_ct,
    read_ct,
    read_xray,
    three_numbers,
    to_canonical_axes,
)
from trainers.cascade.pictures import write_comparison
from trainers.cascade.projector import HU_HIGH, HU_LOW, hu_from_unit, unit_from_hu
from trainers.cascade.restore import load_cascade
from trainers.common.device_flags import add_device_flags, use_device
from trainers.common.devices import describe_device
from trainers.common.errors import read_as
from trainers.common.files import write_whole
from trainers.common.main_program import run_main
from trainers.common.report import EventLog, run_directory
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    check_kept,
    number_between,
    output_file,
    seed_number,
    whole_number,
)

EXAMPLES = """
python trainers/cascade/sample.py --checkpoint checkpoints_4gpu/stage3_best.pt \\
    --frontal p7_pa_drr.png --lateral p7_lat_drr.png --output p7_ct.nii.gz --samples 8 --steps 50
"""


def make_parser() -> SettingsParser:
    """Return the program's parser."""
    parser = SettingsParser("Sample a CT volume from X-rays with a trained cascade.", EXAMPLES)
    add = parser.add_argument
    # fmt: off
    add("--checkpoint", type=Path, required=True,
        help="stageN_best.pt, whose stage is the last one used, or cascade.safetensors")
    add("--frontal", type=Path, help="frontal X-ray; needed if the cascade was trained on one")
    add("--lateral", type=Path, help="lateral X-ray; the same")
    add("--output", type=output_file, default=(run_directory() or Path()) / "ct.nii.gz",
        help=".nii or .nii.gz")
    add("--samples", type=whole_number(1, 1000), default=8, help="draws that are averaged")
    add("--steps", type=whole_number(1), default=50, help="steps of the DDIM sampler")
    add("--eta", type=number_between(0, 1, closed=True), default=0.0, help="0: DDIM; 1: DDPM")
    add("--seed", type=seed_number, default=0, help="decides the draws")
    add("--field_of_view", type=number_between(1, 10_000), nargs=3, metavar=("D", "H", "W"),
        help="size in mm of the imaged part, front to back, top to bottom, across")  # fmt: skip
    add("--like", type=Path,
        help="a NIfTI file, or folder of DICOM slices, whose place in space the volume takes")
    add("--flip_vertical", action="store_true", help="the X-rays stand on their heads")
    add("--truth", type=Path, help="the CT, to measure against and to show beside")
    # fmt: on
    add_device_flags(parser, "two X-rays are read at once, there is nothing to share out")
    return parser


def place_in_space(
    size: int, like: Path | None, field_of_view: tuple[float, float, float] | None
) -> np.ndarray:
    """Return the affine (4, 4), in mm, of a volume size^3 in canonical axes (right, front, up).

    Raises SettingsError where neither a file nor a size in mm says how large the volume is.
    """
    if like is not None:
        with read_as(like, "a CT volume"):
            image = open_ct(like)
        ratio = np.asarray(image.shape[:3]) / size
        affine = np.asarray(image.affine) @ np.diag([*ratio, 1.0])
        # The outer corner stays where it is, the middle of the first voxel moves.
        affine[:3, 3] += np.asarray(image.affine)[:3, :3] @ ((ratio - 1) / 2)
        return affine
    if field_of_view is None:
        raise SettingsError(
            "how large is the imaged part? Say --field_of_view D H W in mm, or --like CT.nii.gz"
        )
    depth, height, width = field_of_view
    spacing = np.array([width, depth, height]) / size
    affine = np.diag([*spacing, 1.0])
    affine[:3, 3] = -(size - 1) / 2 * spacing
    return affine


def write_nifti(path: Path, volume: np.ndarray, affine: np.ndarray) -> None:
    """Write a volume (D, H, W) as NIfTI in canonical axes, whole or not at all."""
    image = nibabel.Nifti1Image(np.ascontiguousarray(to_canonical_axes(volume)), affine)
    image.header.set_xyzt_units("mm")
    content = image.to_bytes()
    if path.name.endswith(".gz"):
        import gzip

        content = gzip.compress(content, mtime=0)
    write_whole(path, lambda file: file.write(content))


def read_views(
    settings: argparse.Namespace, views: tuple[str, ...], size: int, calibration: Calibration
) -> tuple[Tensor, Tensor | None]:
    """Return X-rays (1, V, S, S) as the model sees them, and line integrals if calibrated."""
    given = {"frontal": settings.frontal, "lateral": settings.lateral}
    for view, path in given.items():
        if view in views and path is None:
            raise SettingsError(
                f"--{view}: this cascade was trained on {' and '.join(views)} X-rays"
            )
        if view not in views and path is not None:
            raise SettingsError(
                f"--{view}: this cascade has never seen a {view} X-ray; leave it away"
            )
    seen = [read_xray(given[view], size, settings.flip_vertical, calibration) for view in views]
    integrals = [found for _, found in seen if found is not None]
    return torch.stack([image for image, _ in seen])[None], (
        torch.stack(integrals)[None] if integrals else None
    )


def tell_physics(mean: Tensor, integrals: Tensor, affine: np.ndarray, config: Config) -> None:
    """Print how far the line integrals of a volume (1,D,H,W) are off the ones that were given."""
    size = mean.shape[-1]
    wanted = fit(integrals, (size, size))
    lengths = [np.linalg.norm(affine[:3, axis]) for axis in (1, 2, 0)]
    spacing = torch.tensor(lengths)[None].float()
    error = float(physics_error(mean[None], wanted, config.views, spacing, config.geometry))
    print(f"X-rays       the volume's line integrals are {100 * error:.1f} % off the ones given")


def tell_truth(mean: Tensor, truth: np.ndarray) -> Tensor:
    """Print how near a volume (1,D,H,W) is to the CT in HU; return that as it was compared."""
    size = mean.shape[-1]
    wanted = unit_from_hu(fit(torch.from_numpy(truth)[None, None], (size,) * 3))[0]
    values = volume_metrics(mean, wanted)
    print(
        f"against CT   PSNR {values['psnr']:.2f} dB, SSIM {values['ssim']:.4f},"
        f" MAE {values['mae_hu']:.1f} HU in the window [-1024, 1024] HU"
    )
    return wanted


def sample(settings: argparse.Namespace) -> int:
    """Sample as the settings say and return the exit code. Raises SettingsError."""
    if not settings.output.name.endswith((".nii", ".nii.gz")):
        raise SettingsError(f"--output: {settings.output} must end in .nii or .nii.gz")
    stem = settings.output.name.removesuffix(".gz").removesuffix(".nii")
    spread_path = settings.output.with_name(f"{stem}_deviation.nii.gz")
    picture = settings.output.with_name(f"{stem}.png")
    check_kept(
        (settings.frontal, settings.lateral, settings.like, settings.truth, settings.checkpoint),
        (settings.output, spread_path, picture),
    )
    device, reason = use_device(settings)
    cascade, calibration, _ = load_cascade(settings.checkpoint, device)
    config, number = cascade.config, len(cascade.stages)
    size = cascade.stages[-1].sizes.size
    imaged = getattr(config.geometry, "field_of_view", None)
    field = three_numbers(settings.field_of_view) or imaged or calibration.field_of_view
    affine = place_in_space(size, settings.like, field)
    xrays, integrals = read_views(settings, config.views, config.image_size, calibration)
    truth = None if settings.truth is None else read_ct(settings.truth, field)[0]
    print(f"device       {describe_device(device)} ({reason})")
    print(f"cascade      {number} stages up to {size}^3, X-rays {' and '.join(config.views)}")
    print(
        f"sampling     mean of {settings.samples} draws, {settings.steps} steps,"
        f" eta {settings.eta:g}"
    )
    found = cascade.run(
        xrays.to(device), [(settings.seed,)], settings.steps, settings.samples, number, settings.eta
    )
    mean, deviation = (part[0].float().cpu() for part in found[-1])
    hu = hu_from_unit(mean[0].clamp(-1, 1)).numpy()
    write_nifti(settings.output, np.rint(hu).astype(np.int16), affine)
    spread = deviation[0].numpy() * (HU_HIGH - HU_LOW) / 2
    write_nifti(spread_path, spread.astype(np.float32), affine)
    print(
        f"volume       {settings.output}, {size}^3 voxels, HU from {hu.min():.0f} to {hu.max():.0f}"
    )
    print(
        f"deviation    {spread_path}, {spread.mean():.1f} HU on average, {spread.max():.0f} at most"
    )
    if integrals is not None:
        tell_physics(mean, integrals, affine, config)
    shown = {"sampled": mean}
    if truth is not None:
        shown = {"CT": tell_truth(mean, truth), **shown}
    write_comparison(picture, shown, f"{settings.output.name}: mean of {settings.samples} draws")
    print(f"picture      {picture}")
    events = EventLog(run_directory())
    events.emit("image", path=picture.absolute(), caption=settings.output.name)
    events.emit("summary", values={"deviation_hu": float(spread.mean())})
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Sample; return 0, or 2 for a setting that cannot be, 1 where a file cannot be written."""
    return run_main(sample, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
