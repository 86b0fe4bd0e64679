"""Turn NRRD skulls into what the trainers read: surface clouds, then pairs for the voxelizer.

    python trainers/skulls/prepare.py --root pcdiff/datasets/SkullBreak
    python trainers/skulls/prepare.py --root pcdiff/datasets/SkullFix --steps volumes clouds pairs
    python trainers/skulls/prepare.py --root pcdiff/datasets/SkullBreak --steps pairs \\
        --results out/syn

clouds: every .nrrd gets a `_surf.npy` beside it (400,000 points, marching cubes at iso 0).
pairs:  every sample gets `voxelization/<NNN>_<defect>_{pc,vox}.npz`, and train.csv and eval.csv,
        whose skulls differ. With --results it lists generated completions instead.
volumes: skulls of any shapes; resamples them to one spacing, crops to the skull and pads to a cube,
        into --to (0.45 mm and 512³, as SkullFix; --spacing 1.8 --side 128 for a small machine).
What is there already is left alone, so a run that was cut short goes on. Files and names are those
of the pcdiff-implant project; the target is the complete skull, as in its first version.
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
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags
from trainers.common.files import check_writable, name_also
from trainers.common.making import each_made, make_data
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    number_between,
    output_folder,
    seed_number,
    whole_number,
)
from trainers.common.stopping import StopRequest, Watched
from trainers.skulls.listing import (
    FOLDERS,
    SkullDataError,
    SkullSample,
    cloud_of,
    csv_text,
    load_cloud,
    members_of,
    read_listing,
    rows_of,
    volume_of,
)
from trainers.skulls.metrics import bounding_box
from trainers.skulls.surfaces import surface_cloud
from trainers.skulls.volumes import (
    check_axes,
    read_volume,
    replace_file,
    volumes_in,
    write_array,
    write_arrays,
)

CPU_ONLY = (
    "volumes and clouds are made by NumPy, on one thread of each of --workers"
    " (which the original calls --threads)"
)
STRAY = 0.05
"""The share of a cloud's points that may lie outside of its skull's box."""
AROUND = 0.1
"""How far around that box they still lie in it, as a share of its longest side."""
LEAST_REACH = 0.6
"""The share of the complete skull's longest side that a defective one reaches over."""
Job = tuple[Callable[..., None], tuple[object, ...], Path]


def make_cloud(volume: Path, points: int) -> None:
    """Write the `_surf.npy` cloud of a volume."""
    seed = zlib.crc32("/".join(volume.parts[-3:]).encode())
    write_array(cloud_of(volume), surface_cloud(read_volume(volume).mask, points, seed))


def cloud_jobs(root: Path, points: int) -> list[Job]:
    """Return a job for every volume under root that has no cloud yet."""
    volumes = [path for name in FOLDERS for path in volumes_in(root / name)]
    if not volumes:
        raise SkullDataError(
            f"{root}: no .nrrd files in {', '.join(FOLDERS)}; is this the data set's folder?"
        )
    for note in check_axes(volumes):
        print(f"note         {note}")
    missing = [path for path in volumes if not cloud_of(path).is_file()]
    tell_older("clouds", ((cloud_of(path), path) for path in volumes))
    for place in {path.parent for path in missing}:
        check_writable(place)  # not after hours of work
    return [(make_cloud, (path, points), path) for path in missing]


def tell_older(what: str, made_from: Iterable[tuple[Path, Path]]) -> None:
    """Print how many of these files are older than what they were made from: they are not redone.

    A copied folder's times may say so, too, so that nothing is made anew by itself.
    """
    older = [
        (made, source)
        for made, source in made_from
        if made.is_file() and made.stat().st_mtime < source.stat().st_mtime
    ]
    if older:
        print(
            f"note         {len(older)} {what} are older than what they are made from and left as"
            f" they are, such as {older[0][0]} and {older[0][1]}: where that has changed, delete"
            " them"
        )


def make_points(sample: SkullSample, target: Path, skull_points: int, implant_points: int) -> None:
    """Write the skull's and the implant's points, skull first, in units of the volume's side."""
    generator = np.random.default_rng(zlib.crc32(sample.name.encode()))
    mask = read_volume(volume_of(sample.complete)).mask
    skull = load_inside(sample.defective, mask, LEAST_REACH)
    implant = load_inside(sample.implant, mask)
    chosen = [
        skull[generator.integers(0, len(skull), skull_points)],
        implant[generator.integers(0, len(implant), implant_points)],
    ]
    points = np.concatenate(chosen).astype(np.float32) / np.float32(max(mask.shape))
    write_arrays(target, points=points)


def load_inside(cloud: Path, mask: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Return a cloud's points. Raises SkullDataError where they do not lie in the bone's box.

    `least` is the share of the box's longest side that they have to reach over.
    """
    points = load_cloud(cloud)
    box = bounding_box(mask, [0, 0, 0])
    assert box is not None
    low, high = np.transpose([(part.start, part.stop) for part in box])
    # An implant may be thicker than what is missing.
    around = AROUND * (high - low).max()
    outside = float(((points < low - around) | (points > high + around)).any(axis=1).mean())
    if outside > STRAY or np.ptp(points, axis=0).max() < least * (high - low).max():
        raise SkullDataError(
            f"{cloud}: its points lie from {points.min(0).round(1)} to {points.max(0).round(1)},"
            f" its skull in voxels {low} to {high}: a cloud is in voxel indices, not in mm or m;"
            " delete it and it is made anew"
        )
    return points


def make_target(complete: Path, targets: Sequence[Path]) -> None:
    """Write a complete skull's grid, −0.5 inside and +0.5 outside, for all of its defects.

    The defects' files are links to one file where the file system can.
    """
    mask = read_volume(volume_of(complete)).mask
    first = targets[0]
    write_arrays(first, psr=np.where(mask, np.float32(-0.5), np.float32(0.5)))
    for other in targets[1:]:
        name_also(first, other)


def pair_jobs(root: Path, samples: Iterable[SkullSample], counts: tuple[int, int]) -> list[Job]:
    """Return the jobs for pairs that are not there yet."""
    folder, samples = root / "voxelization", list(samples)
    points = {sample: folder / f"{sample.name}_pc.npz" for sample in samples}
    made_from = [(pair, sample.defective) for sample, pair in points.items()]
    made_from += [
        (folder / f"{sample.name}_vox.npz", volume_of(sample.complete)) for sample in samples
    ]
    tell_older("pairs", made_from)
    jobs: list[Job] = []
    grids: dict[Path, list[Path]] = {}
    for sample, cloud in points.items():
        if not cloud.is_file():
            jobs.append((make_points, (sample, cloud, *counts), cloud))
        grids.setdefault(sample.complete, []).append(folder / f"{sample.name}_vox.npz")
    for complete, targets in grids.items():
        if not all(target.is_file() for target in targets):
            jobs.append((make_target, (complete, tuple(targets)), targets[0]))
    if jobs:
        check_writable(folder)
    return jobs


def split_skulls(
    samples: list[SkullSample], share: float, seed: int
) -> tuple[list[SkullSample], ...]:
    """Return training and evaluation samples with no skull in both; raises for fewer than two."""
    subjects = sorted({sample.subject for sample in samples})
    if len(subjects) < 2:
        raise SkullDataError("the training list has one skull; two are needed to hold one back")
    held = max(1, round(share * len(subjects)))
    order = np.random.default_rng(seed).permutation(len(subjects))
    kept_back = {subjects[place] for place in order[:held]}
    return (
        [sample for sample in samples if sample.subject not in kept_back],
        [sample for sample in samples if sample.subject in kept_back],
    )


def manifest_rows(
    samples: Iterable[SkullSample], folder: Path, results: Path | None
) -> list[tuple[str, ...]]:
    """Return a manifest's rows: base paths, or with results every member of every ensemble."""
    if results is None:
        return [(sample.name,) for sample in samples]
    rows: list[tuple[str, ...]] = []
    for sample in samples:
        case = results / sample.case
        members = members_of(case / "sample.npy")
        if not members:
            raise SkullDataError(
                f"{case / 'sample.npy'} is missing or damaged: complete {sample.name} first"
            )
        files = [str((case / f"{name}.npy").absolute()) for name in ("sample", "shift", "scale")]
        vox = str((folder / f"{sample.name}_vox.npz").absolute())
        rows += [(*files, vox, str(member)) for member in range(members)]
    return rows


def run_jobs(jobs: list[Job], workers: int, what: str, watched: Watched = iter) -> list[str]:
    """Do jobs in parallel with a count of progress; return what failed, one line each."""
    failures: list[str] = []
    if not jobs:
        return failures
    made = each_made(do_job, jobs, workers if workers > 1 else 0, watched)
    for (_, _, path), wait in bar(made, what, len(jobs)):
        try:
            wait()
        except (SettingsError, OSError, ValueError, MemoryError) as problem:
            text = str(problem)
            failures.append(text if str(path) in text else f"{path}: {text}")
    return failures


def do_job(job: Job) -> None:
    """Do one of the jobs."""
    work, details, _ = job
    work(*details)


def prepare_pairs(
    root: Path,
    listing: Path,
    counts: tuple[int, int] = (27648, 3072),
    workers: int = 1,
    share: float = 0.1,
    seed: int = 123,
    results: Path | None = None,
    watched: Watched = iter,
) -> list[str]:
    """Write pairs and manifests of a training list; return what failed."""
    samples = read_listing(listing)
    training, evaluation = split_skulls(samples, share, seed)
    failures = run_jobs(pair_jobs(root, samples, counts), workers, "pairs", watched)
    if failures:
        return failures
    folder = root / "voxelization"
    for name, part in (("train", training), ("eval", evaluation)):
        rows = manifest_rows(part, folder, results)
        text = csv_text(rows)
        path = folder / f"{name}{'_generated' if results else ''}.csv"
        replace_file(path, lambda draft, text=text: draft.write_text(text, encoding="utf-8"))
        skulls = len({sample.subject for sample in part})
        print(f"{path}: {len(rows)} rows of {skulls} skulls")
    return []


def read_settings(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = SettingsParser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add, some = parser.add_argument, whole_number(1)
    processors = min((os.cpu_count() or 2) - 1 or 1, 16)
    # fmt: off
    add("--root", type=Path, required=True, help="the data set's folder")
    add("--steps", nargs="+", choices=("volumes", "clouds", "pairs"), default=["clouds", "pairs"],
        help="what to do, in this order (default: clouds pairs)")
    add("--list", type=Path, help="list of training skulls (default: ROOT/train.csv)")
    add("--target-points", type=some, default=400_000, help="points of a cloud (400000)")
    add("--num_points", type=some, default=30_720, help="points of a pair (30720)")
    add("--num_nn", type=some, default=3_072, help="of them the implant's (3072)")
    add("--results", type=Path, help="folder syn/ of generated completions to train on")
    add("--seed", type=seed_number, default=123, help="of the split into train and eval (123)")
    add("--to", type=output_folder, help="folder for resampled volumes, with --steps volumes")
    add("--side", type=whole_number(32, 512), help="voxels of their sides (512)")
    add("--spacing", type=number_between(0.1, 20), help="and these voxels' size in mm (0.45)")
    # fmt: on
    add_device_flags(parser, processors, cpu_only=CPU_ONLY)
    settings = parser.parse_args(arguments)
    if settings.num_nn >= settings.num_points:
        parser.error(
            f"--num_nn {settings.num_nn}: has to be below --num_points {settings.num_points}"
        )
    if ("volumes" in settings.steps) != (settings.to is not None):
        parser.error("--to goes with --steps volumes, and --steps volumes needs --to")
    if settings.to is None and (settings.side or settings.spacing):
        parser.error("--side and --spacing are of what --steps volumes makes")
    return settings


def prepare(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Do the steps that are asked for; return 0, or 1 where something failed."""
    root, failures = settings.root, []
    listing = settings.list
    if "pairs" in settings.steps:
        rows_of(listing or root / "train.csv")  # not after hours of clouds
    if "volumes" in settings.steps:
        from trainers.skulls.resampling import SIDE, SPACING_MM, resample_dataset

        side, spacing = settings.side or SIDE, settings.spacing or SPACING_MM
        jobs = resample_dataset(root, settings.to, side, spacing)
        failures = run_jobs(jobs, settings.workers, "volumes", stop.watched)
        root = settings.to
    if "clouds" in settings.steps and not failures:
        jobs = cloud_jobs(root, settings.target_points)
        failures = run_jobs(jobs, settings.workers, "clouds", stop.watched)
        print(f"clouds: {len(jobs) - len(failures)} made, {len(failures)} failed")
    if "pairs" in settings.steps and not failures:
        counts = (settings.num_points - settings.num_nn, settings.num_nn)
        failures = prepare_pairs(
            root,
            listing or root / "train.csv",
            counts,
            settings.workers,
            seed=settings.seed,
            results=settings.results,
            watched=stop.watched,
        )
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0 when all is there, 1 where items failed, or what make_data says."""
    return make_data(partial(prepare, read_settings(arguments)))


if __name__ == "__main__":
    sys.exit(main())
