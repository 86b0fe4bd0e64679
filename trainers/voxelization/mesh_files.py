"""Meshes and oriented clouds as files that are whole or absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainers.common.files import write_whole


def write_mesh(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Write triangles (F, 3) over vertices (V, 3) as STL or PLY, by the file's name."""
    # Imported where it is used: it takes as long to import as PyTorch.
    import trimesh

    mesh = trimesh.Trimesh(vertices, faces, process=True)
    mesh.fix_normals()
    content = mesh.export(file_type=path.suffix.lstrip("."))
    write_whole(path, lambda file: file.write(content))


def write_cloud(path: Path, points: np.ndarray, normals: np.ndarray | None = None) -> None:
    """Write points (N, 3), with normals (N, 3) where given, as ASCII PLY."""
    columns = [points] if normals is None else [points, normals]
    names = ["x", "y", "z"] + ([] if normals is None else ["nx", "ny", "nz"])
    head = ["ply", "format ascii 1.0", f"element vertex {len(points)}"]
    head += [f"property float {name}" for name in names] + ["end_header"]
    rows = [" ".join(f"{value:.6g}" for value in row) for row in np.concatenate(columns, 1)]
    text = "\n".join([*head, *rows]) + "\n"
    write_whole(path, lambda file: file.write(text.encode("ascii")))
