"""Make skulls up: ellipsoidal shells that are not quite symmetric, each with five kinds of defect.

    python trainers/skulls/made_up.py --root skulls --count 10
    python trainers/skulls/made_up.py --root skulls --count 100 --size 128 --dataset SkullFix

Writes the layout of SkullBreak (or SkullFix): NRRD volumes, `_surf.npy` clouds beside them, and
train.csv and test.csv with different skulls. What is there already is left as it is, so a run that
was cut short goes on; skulls made once are kept (see kept.py) and copied the next time. Nothing in
these shapes is measured on people: they serve to try programs.
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
from collections.abc import Iterable
from functools import partial

import numpy as np

from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags
from trainers.common.making import each_made, make_data
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    output_folder,
    seed_number,
    whole_number,
)
from trainers.common.stopping import StopRequest, Watched
from trainers.skulls.kept import bring, kept_folder
from trainers.skulls.listing import DEFECTS, cloud_of
from trainers.skulls.surfaces import surface_cloud
from trainers.skulls.volumes import replace_file, write_array, write_volume

FIELD_OF_VIEW = 204.8
"""Side of the cube in mm: 512 voxels of 0.4 mm."""


def skull_mask(size: int, generator: np.random.Generator) -> np.ndarray:
    """Return a shell (size, size, size) bool; axis 0 is left-right, 1 front-back, 2 upwards."""
    axes = size * np.array([0.36, 0.43, 0.38]) * generator.uniform(0.93, 1.07, 3)
    centre = (size - 1) / 2 + generator.uniform(-0.01, 0.01, 3) * size
    grid = np.stack(np.meshgrid(*[np.arange(size)] * 3, indexing="ij"), -1)
    offset = (grid - centre) / axes
    radius = np.linalg.norm(offset, axis=-1)
    direction = offset / np.maximum(radius, 1e-6)[..., None]
    outer = 1 + _relief(direction, generator)
    thickness = generator.uniform(0.065, 0.085) * size
    inner = outer - thickness / axes.mean() * (1 + 0.25 * direction[..., 2] ** 2)
    return (radius <= outer) & (radius >= inner)


def _relief(direction: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a smooth relative change of the radius per direction, in part odd in axis 0."""
    relief = np.zeros(direction.shape[:-1])
    for _ in range(4):
        place = generator.normal(size=3)
        place /= np.linalg.norm(place)
        height = generator.uniform(-0.06, 0.06)
        mirrored = place * (-1, 1, 1)
        width = generator.uniform(2.0, 5.0)
        bump = np.exp(width * (direction @ place - 1))
        reflected = np.exp(width * (direction @ mirrored - 1))
        relief += height * (bump + reflected)
    # The asymmetry: one side swells where the other shrinks.
    swelling = generator.uniform(0.05, 0.09) * generator.choice((-1.0, 1.0))
    tilt = generator.normal(0, 0.5, 2)
    odd = direction[..., 0] * (1 + direction[..., 1] * tilt[0] + direction[..., 2] * tilt[1])
    return relief + swelling * odd


def defect_mask(skull: np.ndarray, kind: str, generator: np.random.Generator) -> np.ndarray:
    """Return the part of a skull that a defect of this kind takes away."""
    size = len(skull)
    side = generator.choice((-1.0, 1.0))
    places = {
        "bilateral": [(-0.75, 0.1, 0.65), (0.75, 0.1, 0.65)],
        "frontoorbital": [(0.5 * side, -0.8, 0.35)],
        "parietotemporal": [(0.85 * side, 0.3, 0.4)],
    }
    if kind in places:
        directions = np.array(places[kind]) + generator.normal(0, 0.07, 3)
        reach = generator.uniform(0.15, 0.19)
    else:
        drawn = generator.normal(size=3)
        directions = np.array([[drawn[0], drawn[1], abs(drawn[2]) + 0.3]])
        reach = (
            generator.uniform(0.13, 0.18) if kind == "random_1" else generator.uniform(0.18, 0.23)
        )
    bone = np.argwhere(skull)
    centre = bone.mean(0)
    from_centre = bone - centre
    taken = np.zeros(len(bone), bool)
    for direction in directions:
        towards = from_centre @ (direction / np.linalg.norm(direction))
        aside = np.linalg.norm(from_centre, axis=1)
        nearest = from_centre[np.argmax(towards / np.maximum(aside, 1))]
        stretch = generator.uniform(0.85, 1.15, 3)
        taken |= np.linalg.norm((from_centre - nearest) / stretch, axis=1) < reach * size
    mask = np.zeros_like(skull)
    mask[tuple(bone[taken].T)] = True
    return mask


def kinds_of(dataset: str) -> tuple[str, ...]:
    """Return the kinds of defect that a skull of this layout is given."""
    return DEFECTS if dataset == "SkullBreak" else ("random_2",)


def volume_names(number: int, dataset: str) -> list[Path]:
    """Return the names of a skull's volumes: complete, then defective and implant per defect."""
    file = f"{number:03d}.nrrd"
    names = [Path("complete_skull") / file]
    for kind in kinds_of(dataset):
        folder = kind if dataset == "SkullBreak" else ""
        names += [Path(part) / folder / file for part in ("defective_skull", "implant")]
    return names


def has_all(root: Path, volumes: Iterable[Path]) -> bool:
    """Return whether volumes of these names and their clouds lie under root."""
    return all((root / name).is_file() and cloud_of(root / name).is_file() for name in volumes)


def write_skull(root: Path, number: int, dataset: str, size: int, points: int, seed: int) -> None:
    """Write one skull's volumes and clouds under root, those that are there already left alone."""
    names = volume_names(number, dataset)
    if has_all(root, names):
        return
    generator = np.random.default_rng([seed, number])
    complete = skull_mask(size, generator)
    masks = [complete]
    for kind in kinds_of(dataset):
        gone = defect_mask(complete, kind, generator)
        masks += [complete & ~gone, gone]
    spacing = FIELD_OF_VIEW / size
    for name, mask in zip(names, masks, strict=True):
        volume, cloud = root / name, cloud_of(root / name)
        if not volume.is_file():
            write_volume(volume, mask, (spacing, spacing, spacing))
        if not cloud.is_file():
            write_array(cloud, surface_cloud(mask, points, seed))


def write_lists(root: Path, dataset: str, count: int, held_out: int) -> None:
    """Write train.csv, test.csv and the list of all: one complete skull a row, no header."""
    rows = [f"complete_skull/{number:03d}_surf.npy" for number in range(count)]
    split = count - held_out
    for name, part in (
        (f"{dataset.lower()}.csv", rows),
        ("train.csv", rows[:split]),
        ("test.csv", rows[split:]),
    ):
        text = "".join(f"{row}\n" for row in part)
        replace_file(root / name, lambda draft, text=text: draft.write_text(text))


def held_back(count: int, wanted: int | None = None) -> int:
    """Return how many of `count` skulls are the test set: a fifth, at least one, or the wanted.

    Raises SettingsError where either side would have none.
    """
    held = max(1, round(count / 5)) if wanted is None else wanted
    if not 0 < held < count:
        raise SettingsError(f"--test {held}: of {count} skulls some must be left on either side")
    return held


def training_samples(count: int, dataset: str) -> int:
    """Return how many samples the training list of so many made-up skulls has."""
    return (count - held_back(count)) * len(kinds_of(dataset))


def make_up(
    root: Path,
    count: int,
    size: int = 64,
    dataset: str = "SkullBreak",
    points: int = 20_000,
    held_out: int | None = None,
    seed: int = 0,
    workers: int = 0,
    watched: Watched = iter,
) -> None:
    """Write `count` made-up skulls under root; a fifth of them, at least one, is the test set.

    Skulls that were made before, by any run, are copied; `workers` processes make the others.
    `watched` yields what it is given, or raises StoppedError before the next skull.
    """
    held = held_back(count, held_out)
    kept = kept_folder(dataset, size, points, seed)
    missing = [n for n in range(count) if not has_all(root, volume_names(n, dataset))]
    make = partial(write_skull, kept or root, dataset=dataset, size=size, points=points, seed=seed)
    made = each_made(make, missing, workers, watched)
    for number, wait in bar(made, "skulls made up", len(missing)):
        wait()
        if kept is not None:
            volumes = volume_names(number, dataset)
            bring(kept, root, [name for path in volumes for name in (path, cloud_of(path))])
    write_lists(root, dataset, count, held)


def read_settings(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = SettingsParser(__doc__ or "")
    add = parser.add_argument
    add("--root", type=output_folder, required=True, help="folder to write")
    add("--count", type=whole_number(2, 999), default=10, help="skulls")
    add("--size", type=whole_number(24, 512), default=64, help="voxels along each side")
    add("--dataset", choices=("SkullBreak", "SkullFix"), default="SkullBreak", help="whose layout")
    add("--points", type=whole_number(100, 10_000_000), default=20_000, help="points of each cloud")
    add("--test", type=whole_number(1), help="skulls of the test set; a fifth when left away")
    add("--seed", type=seed_number, default=0, help="another seed, other skulls")
    add_device_flags(parser, cpu_only="NumPy makes them, on one thread of each of --workers")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, or what make_data says."""
    given = read_settings(arguments)

    def make(stop: StopRequest) -> int:
        make_up(
            given.root,
            given.count,
            given.size,
            given.dataset,
            given.points,
            given.test,
            given.seed,
            given.workers,
            stop.watched,
        )
        print(f"{given.count} skulls in {given.root}: train.csv, test.csv")
        return 0

    return make_data(make)


if __name__ == "__main__":
    sys.exit(main())
