"""Skulls and implants as points: what the network is shown, drawn afresh in every epoch."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from trainers.common.bar import bar
from trainers.common.errors import SettingsError
from trainers.common.randomness import sample_generator
from trainers.common.ranks import epoch_batches
from trainers.common.stopping import Watched
from trainers.skulls.listing import SkullSample, load_cloud, read_listing

HALF_SPAN = 3.0
"""The longest side of the bounding box spans -3 to 3."""
APART, LEAST_SIZE = 0.2, 0.01
"""Shares of a skull's longest side: how far out an implant's middle may lie, and its least size."""
LARGEST_ANGLE = np.deg2rad(10.0)
Array = NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Recipe:
    """How points are drawn: how many in all and of the implant, steps of noise, augmentation."""

    points: int
    implant_points: int
    timesteps: int
    augment: bool
    seed: int

    @property
    def skull_points(self) -> int:
        """Points of the skull, which are never noised."""
        return self.points - self.implant_points


class SkullPoints(Dataset[dict[str, Any]]):
    """Samples by (epoch, index): points, their scale, and the noise of the step they are for.

    Noise and timestep are drawn here, by sample and epoch, so that they depend neither on the
    number of processes nor on a resume. `fixed` draws the same in every epoch.
    """

    def __init__(self, samples: Sequence[SkullSample], recipe: Recipe, fixed: bool = False) -> None:
        self.samples, self.recipe, self.fixed = list(samples), recipe, fixed

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: tuple[int, int]) -> dict[str, Any]:
        """Return skull (3, S), implant, noise (3, I), timestep, shift (1, 3), scale (1, 1)."""
        epoch, index = place
        recipe, sample = self.recipe, self.samples[index]
        chance = sample_generator(recipe.seed, 0 if self.fixed else epoch, index)
        skull = draw_points(sample.defective, recipe.skull_points, chance)
        implant = draw_points(sample.implant, recipe.implant_points, chance)
        points = np.concatenate([skull, implant])
        if recipe.augment and not self.fixed:
            points = rotated(points, chance.uniform(-LARGEST_ANGLE, LARGEST_ANGLE, 3))
        points, shift, scale = normalised(points)
        columns = torch.from_numpy(np.ascontiguousarray(points.T))
        noise = chance.standard_normal((3, recipe.implant_points), dtype=np.float32)
        return {
            "index": index,
            "name": sample.name,
            "skull": columns[:, : recipe.skull_points],
            "implant": columns[:, recipe.skull_points :],
            "noise": torch.from_numpy(noise),
            "timestep": int(chance.integers(recipe.timesteps)),
            "shift": torch.from_numpy(shift),
            "scale": torch.from_numpy(scale),
        }


def draw_points(path: Path, count: int, chance: np.random.Generator) -> Array:
    """Return `count` points of a cloud file, drawn with replacement, (count, 3) float32."""
    cloud = np.load(path, mmap_mode="r")
    return np.asarray(cloud[chance.integers(len(cloud), size=count)], dtype=np.float32)


def normalised(points: Array) -> tuple[Array, Array, Array]:
    """Return points (N, 3) with the bounding box's middle at 0 and its longest side from -3 to 3.

    Also shift (1, 3) and scale (1, 1): points * scale + shift are the given ones.
    """
    low, high = points.min(0, keepdims=True), points.max(0, keepdims=True)
    shift = ((low + high) / 2).astype(np.float32)
    half = float((high - low).max()) / 2
    scale = np.full((1, 1), max(half, 1e-6) / HALF_SPAN, np.float32)
    return ((points - shift) / scale).astype(np.float32), shift, scale


def rotated(points: Array, angles: Array) -> Array:
    """Return points (N, 3) rotated about their centre by Euler angles x, y, z, as Open3D's xyz."""
    x, y, z = (_rotation(axis, float(angle)) for axis, angle in enumerate(angles))
    centre = points.mean(0, keepdims=True)
    return ((points - centre) @ (x @ y @ z).T + centre).astype(np.float32)


def _rotation(axis: int, angle: float) -> Array:
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[second, first], matrix[first, second] = np.sin(angle), -np.sin(angle)
    return matrix


class EpochBatches:
    """This rank's whole batches of (epoch, index), epoch after epoch without a pause.

    Samples that fill no whole batch of all ranks are left to the next epoch's order. `used` samples
    of the first epoch are done already.
    """

    def __init__(
        self,
        count: int,
        batch: int,
        seed: int,
        rank: int,
        world: int,
        epochs: tuple[int, int],
        used: int,
    ) -> None:
        self.count, self.batch, self.seed = count, batch, seed
        self.rank, self.world, self.epochs, self.used = rank, world, epochs, used

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        used = self.used
        for epoch in range(*self.epochs):
            batches = epoch_batches(
                self.count, self.batch, self.seed, epoch, self.rank, self.world, used
            )
            for batch in batches[: (self.count - used) // (self.batch * self.world)]:
                yield [(epoch, index) for index in batch]
            used = 0


def find_samples(path: Path, shown: bool, watched: Watched = iter) -> list[SkullSample]:
    """Return a list's samples, every cloud read once; raise SettingsError for a bad one."""
    samples = read_listing(path)
    clouds = sorted({cloud for sample in samples for cloud in (sample.defective, sample.implant)})
    boxes = {}
    for cloud in bar(
        watched(clouds), f"checking the clouds of {path.name}", len(clouds), shown=shown
    ):
        points = load_cloud(cloud)
        boxes[cloud] = np.stack((points.min(0), points.max(0)))
    for sample in samples:
        check_together(sample, boxes[sample.defective], boxes[sample.implant])
    return samples


def check_together(sample: SkullSample, skull: Array, implant: Array) -> None:
    """Raise SettingsError where the boxes (2, 3) of skull and implant are not of one head."""
    longest, own = (float(np.ptp(box, axis=0).max()) for box in (skull, implant))
    middle, reach = implant.mean(0), APART * longest
    away = ((middle < skull[0] - reach) | (middle > skull[1] + reach)).any()
    if away or not LEAST_SIZE * longest <= own <= longest + reach:
        places = [f"{box[0].round(2)} to {box[1].round(2)}" for box in (implant, skull)]
        raise SettingsError(
            f"{sample.implant} lies from {places[0]}, and its skull, {sample.defective}, from"
            f" {places[1]}: both have to be in the same unit and place, voxel indices"
        )


def spread_evenly(items: Sequence[T], count: int) -> list[T]:
    """Return `count` of the items, evenly over the list."""
    places = np.unique(np.linspace(0, len(items) - 1, min(count, len(items))).round())
    return [items[int(place)] for place in places]


def implant_moments(data: SkullPoints, most: int = 64) -> tuple[Tensor, Tensor]:
    """Return mean and deviation (3,) of implants' points as the network sees them."""
    chosen = spread_evenly(range(len(data)), most)
    points = torch.cat([data[0, index]["implant"] for index in chosen], dim=1)
    return points.mean(1), points.std(1).clamp(min=1e-3)


def check_batch(settings: argparse.Namespace, world: int, count: int) -> int:
    """Return the samples of a device's pass; raise SettingsError where --bs cannot be dealt.

    `count` is the training list's number of samples.
    """
    bs, accumulate = settings.bs, settings.accumulate
    parts = world * accumulate
    if bs % parts:
        lower, upper = bs // parts * parts, (bs // parts + 1) * parts
        better = f"{lower} or {upper}" if lower else str(upper)
        raise SettingsError(
            f"--bs {bs} is the batch of all devices together and cannot be dealt to {world}"
            f" device(s) in {accumulate} part(s) evenly; take {better}"
        )
    if bs > count:
        raise SettingsError(
            f"--bs {bs}: the training list has {count} samples, not one whole batch; lower --bs"
        )
    return bs // parts
