"""Made-up patients of ellipsoids, with X-rays in closed form and a CT exact along each ray.

An ellipsoid is the set |A (x - c)| <= 1. A ray with unit direction d whose line passes the centre,
after A, at the distance q crosses it over 2 sqrt(1 - q^2) / |A d|. Densities add where ellipsoids
overlap, as in the phantom of Shepp and Logan (1974), so line integrals add too. Lengths are in mm,
positions from the middle of the volume.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainers.cascade.geometry import ConeBeam

Array = np.ndarray
SUBPIXELS = 3
"""Rays per voxel and direction when a volume or an X-ray is averaged over its pixels."""
RAYS = {"frontal": (0, 1, 2), "lateral": (2, 1, 0)}
"""For each view the axes of (D, H, W) that its rays, its rows and its columns follow."""


@dataclass(frozen=True)
class Ellipsoid:
    """A centre (d, h, w) and half-axes in mm, a turn about the vertical axis, and added HU.

    The turn is in radians.
    """

    centre: tuple[float, float, float]
    radii: tuple[float, float, float]
    turn: float
    density: float

    def matrix(self) -> Array:
        """Return A, which maps the ellipsoid, moved to the origin, to the unit ball."""
        c, s = math.cos(self.turn), math.sin(self.turn)
        rotation = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
        return np.diag(1 / np.asarray(self.radii)) @ rotation


def crossings(ellipsoid: Ellipsoid, view: str, rows: Array, columns: Array) -> tuple[Array, Array]:
    """Return where rays of a view at rows x columns (mm) enter and leave; equal where they miss."""
    ray, row, column = RAYS[view]
    matrix = ellipsoid.matrix()
    start = np.zeros((len(rows), len(columns), 3))
    start[..., row] = rows[:, None] - ellipsoid.centre[row]
    start[..., column] = columns[None, :] - ellipsoid.centre[column]
    position, direction = start @ matrix.T, matrix[:, ray]
    speed = direction @ direction
    nearest = -(position @ direction) / speed
    q_squared = (position**2).sum(-1) - speed * nearest**2
    half = np.sqrt(np.clip(1 - q_squared, 0, None) / speed)
    middle = nearest + ellipsoid.centre[ray]
    return middle - half, middle + half


def x_ray(ellipsoids: Sequence[Ellipsoid], view: str, rows: Array, columns: Array) -> Array:
    """Return exact integrals of the added densities (HU mm) along rays at rows x columns (mm)."""
    total = np.zeros((len(rows), len(columns)))
    _, row, column = RAYS[view]
    for ellipsoid in ellipsoids:
        high, wide = within(ellipsoid, row, rows), within(ellipsoid, column, columns)
        entry, leave = crossings(ellipsoid, view, rows[high], columns[wide])
        total[high, wide] += ellipsoid.density * (leave - entry)
    return total


def cone_x_ray(ellipsoids: Sequence[Ellipsoid], source: Array, points: Array) -> Array:
    """Return exact integrals (HU mm) from a source (3,) to points (..., 3), d h w in mm.

    Both lie outside of all ellipsoids.
    """
    total = np.zeros(points.shape[:-1])
    ways = points - source
    directions = ways / np.linalg.norm(ways, axis=-1, keepdims=True)
    for ellipsoid in ellipsoids:
        matrix = ellipsoid.matrix()
        start, along = (source - ellipsoid.centre) @ matrix.T, directions @ matrix.T
        speed = (along**2).sum(-1)
        q_squared = (start**2).sum() - (along @ start) ** 2 / speed
        total += ellipsoid.density * 2 * np.sqrt(np.clip(1 - q_squared, 0, None) / speed)
    return total


def within(ellipsoid: Ellipsoid, axis: int, positions: Array) -> slice:
    """Return which of rising positions (mm) along an axis of (D, H, W) an ellipsoid reaches."""
    reach = float(np.linalg.norm(np.linalg.inv(ellipsoid.matrix())[axis]))
    ends = ellipsoid.centre[axis] - reach, ellipsoid.centre[axis] + reach
    return slice(*np.searchsorted(positions, ends, side="left").tolist())


def midpoints(count: int, width: float, parts: int = 1) -> Array:
    """Return the middles of count x parts equal pieces of a length that lies around 0."""
    pieces = count * parts
    return (np.arange(pieces) + 0.5) * (width / pieces) - width / 2


def voxelise(
    ellipsoids: Sequence[Ellipsoid], size: int, width: float, parts: int = SUBPIXELS
) -> Array:
    """Return added densities (size, size, size), averaged over the voxels of a cube.

    Its width is in mm. The overlap of a ray along D with each voxel is exact; parts x parts rays go
    through every voxel.
    """
    across, middles = midpoints(size, width, parts), midpoints(size, width)
    edges = np.linspace(-width / 2, width / 2, size + 1)[:, None, None]
    volume = np.zeros((size, size, size))
    for ellipsoid in ellipsoids:
        # The voxels it may reach, one more on each side: a voxel begins half of it before its
        # middle.
        deep, high, wide = (
            slice(max(0, found.start - 1), found.stop + 1)
            for found in (within(ellipsoid, axis, middles) for axis in range(3))
        )
        rays = (across[cut.start * parts : cut.stop * parts] for cut in (high, wide))
        entry, leave = crossings(ellipsoid, "frontal", *rays)
        below = np.clip(edges[deep.start : deep.stop + 1], entry, leave)
        overlap = np.diff(below, axis=0) * (size / width)
        volume[deep, high, wide] += ellipsoid.density * average(overlap, parts)
    return volume


def pixelise(
    ellipsoids: Sequence[Ellipsoid], view: str, size: int, width: float, parts: int = SUBPIXELS
) -> Array:
    """Return an X-ray (size, size) in HU mm, averaged over each pixel of a width in mm."""
    across = midpoints(size, width, parts)
    return average(x_ray(ellipsoids, view, across, across), parts)


def cone_pixelise(
    ellipsoids: Sequence[Ellipsoid], beam: ConeBeam, view: str, size: int, parts: int = SUBPIXELS
) -> Array:
    """Return a cone beam's X-ray (size, size) in HU mm, averaged over each pixel."""
    source, points = beam.rays(view, size * parts)
    return average(cone_x_ray(ellipsoids, source.numpy(), points.numpy()), parts)


def average(fine: Array, parts: int) -> Array:
    """Return the means over parts x parts blocks of the last two axes."""
    *lead, rows, columns = fine.shape
    return fine.reshape(*lead, rows // parts, parts, columns // parts, parts).mean((-3, -1))


def made_up_patient(seed: Sequence[int], width: float) -> list[Ellipsoid]:
    """Return a chest of ellipsoids in a cube of this width in mm, the same for the same seed.

    Added to air (-1000 HU) the densities give about 30 HU in soft tissue, -800 in lungs, 300 to 650
    in bone.
    """
    random = np.random.default_rng(seed)

    def about(value: float, spread: float) -> float:
        return float(value * (1 + spread * random.uniform(-1, 1)))

    def off(spread: float) -> float:
        return float(random.uniform(-spread, spread))

    # In half-widths of the cube, along depth, height and width.
    thick, tall, wide = about(0.55, 0.16), about(0.92, 0.05), about(0.80, 0.12)
    parts = [
        Ellipsoid((off(0.04), 0.0, off(0.04)), (thick, tall, wide), off(0.06), about(1030, 0.01))
    ]
    for side in (-1, 1):
        radii = (about(0.56, 0.12) * thick, about(0.50, 0.12) * tall, about(0.30, 0.10) * wide)
        centre = (off(0.03) * thick, (-0.1 + off(0.05)) * tall, side * about(0.44, 0.06) * wide)
        parts.append(Ellipsoid(centre, radii, off(0.1), -830.0))
    heart = (about(0.18, 0.25), about(0.20, 0.2), about(0.15, 0.2))
    parts.append(
        Ellipsoid((-0.1 + off(0.05), 0.1 + off(0.06), 0.08 + off(0.05)), heart, off(0.4), 60.0)
    )
    liver = (about(0.25, 0.2), about(0.16, 0.2), about(0.28, 0.2))
    parts.append(Ellipsoid((off(0.05), 0.62 + off(0.05), -0.28 + off(0.05)), liver, off(0.2), 90.0))
    for level in range(-3, 4):
        radii = (0.085, about(0.09, 0.1), 0.10)
        depth = 0.74 * thick * math.sqrt(1 - (0.24 * level / tall) ** 2)
        parts.append(Ellipsoid((depth, 0.24 * level, off(0.02)), radii, 0.0, about(450, 0.3)))
    for _ in range(int(random.integers(1, 4))):
        radii = (about(0.08, 0.5), about(0.08, 0.5), about(0.08, 0.5))
        centre = (off(0.3) * thick, off(0.5), off(0.6) * wide)
        parts.append(Ellipsoid(centre, radii, 0.0, about(350, 0.4)))
    return [scaled(part, width / 2) for part in parts]


def scaled(part: Ellipsoid, factor: float) -> Ellipsoid:
    """Return an ellipsoid so many times as large, with the cube it lies in."""
    d, h, w = part.centre
    a, b, c = part.radii
    return Ellipsoid(
        (d * factor, h * factor, w * factor),
        (a * factor, b * factor, c * factor),
        part.turn,
        part.density,
    )
