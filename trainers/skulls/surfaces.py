"""From a binary volume to evenly spread points on its surface.

Marching cubes runs at iso-value 0, as in the pcdiff-implant project: on a {0, 1} volume that puts
the surface on the first empty voxels, half a voxel further out than 0.5 would, and published
weights expect it there. Candidates are drawn all over the mesh and kept where no earlier one lies
within a radius (Poisson-disk sampling; R. Cook, ACM TOG 1986), the radius chosen by the area.
"""

from __future__ import annotations

import math

import numpy as np

OVERSAMPLING = 6
"""Candidates drawn for a point kept."""

USUAL_STEP = 4
"""How often the first radius is made a twentieth smaller until enough points are left, usually."""

MOST_CELLS = 1 << 26
"""Cells of the search grid at most, 256 MiB of int32."""


def surface_mesh(mask: np.ndarray, level: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (V, 3) float64 in voxel indices and triangles (F, 3) of a mask's surface."""
    # Imported where they are used: both take as long to import as PyTorch.
    from skimage.measure import marching_cubes

    padded = np.pad(mask.astype(np.float32), 1)
    vertices, faces, _, _ = marching_cubes(padded, level, allow_degenerate=False)
    return vertices.astype(np.float64) - 1, faces


def sample_surface(
    vertices: np.ndarray, faces: np.ndarray, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Return exactly `count` points (count, 3) float32, evenly spread over a mesh."""
    corners = vertices[faces]
    edges = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(edges, axis=1) / 2
    total = float(areas.sum())
    if not total > 0:
        raise ValueError("the mesh has no area")
    candidates = OVERSAMPLING * count
    drawn = np.searchsorted(np.cumsum(areas) / total, generator.random(candidates), side="right")
    chosen = corners[np.minimum(drawn, len(areas) - 1)]
    u, v = generator.random((2, candidates, 1))
    fold = u + v > 1
    u, v = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    points = chosen[:, 0] + u * (chosen[:, 1] - chosen[:, 0]) + v * (chosen[:, 2] - chosen[:, 0])
    # The hexagonal packing is the densest; random candidates reach about 0.64 of its distance. The
    # largest step that leaves enough points is looked for, from where it usually is.
    radius = 0.78 * math.sqrt(2 * total / (math.sqrt(3) * count))
    step = USUAL_STEP
    kept = spread_out(points, _shrunk(radius, step), count)
    if len(kept) == count:
        while step and len(more := spread_out(points, _shrunk(radius, step - 1), count)) == count:
            kept, step = more, step - 1
    while len(kept) < count:
        step += 1
        kept = spread_out(points, _shrunk(radius, step), count)
    return points[kept].astype(np.float32)


def _shrunk(radius: float, steps: int) -> float:
    for _ in range(steps):
        radius *= 0.95
    return radius


def spread_out(points: np.ndarray, radius: float, most: int) -> np.ndarray:
    """Return indices of points (N, 3) no nearer than radius to an earlier one, at most so many."""
    from trainers.skulls.poisson_disc import keep_apart

    low = points.min(0)
    extent = points.max(0) - low
    side = radius
    while np.prod(np.floor(extent / side) + 1) > MOST_CELLS:
        side *= 1.25
    shape = (np.floor(extent / side) + 1).astype(np.int64)
    cells = np.floor((points - low) / side).astype(np.int64)
    return keep_apart(points, cells, shape, radius * radius, most)


def surface_cloud(mask: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Return `count` points (count, 3) float32 in voxel indices on a mask's surface at iso 0."""
    vertices, faces = surface_mesh(mask)
    return sample_surface(vertices, faces, count, np.random.default_rng(seed))
