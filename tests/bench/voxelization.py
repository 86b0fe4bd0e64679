"""The Poisson solver against one that rebuilds its grids in every call, and what a sphere holds.

    python tests/bench/voxelization.py
    python tests/bench/voxelization.py --end_to_end 600   # trains both networks for 600 s each

Two threads, medians of five, the two solvers taking turns in one run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
# Threads that spin while they wait slow each other down on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from trainers.common.devices import peak_memory  # noqa: E402
from trainers.voxelization.dpsr import CORNERS, DPSR, sample_grid, trilinear  # noqa: E402

ROUNDS = 5


def sphere(count: int, radius: float) -> tuple[Tensor, Tensor]:
    """Return points of a sphere in the middle of the unit cube and their outward normals."""
    i = torch.arange(count, dtype=torch.float64) + 0.5
    polar, turn = torch.acos(1 - 2 * i / count), math.pi * (1 + 5**0.5) * i
    out = [turn.cos() * polar.sin(), turn.sin() * polar.sin(), polar.cos()]
    normals = torch.stack(out, -1).float()
    return 0.5 + radius * normals, normals


def rebuilding(points: Tensor, normals: Tensor, size: int, sigma: float = 2.0) -> Tensor:
    """Solve as published: frequencies made anew, three channels at once, plain autograd."""
    axis = torch.fft.fftfreq(size, 1 / size)
    half = torch.arange(size // 2 + 1).float()
    omega = torch.stack(torch.meshgrid(axis, axis, half, indexing="ij"), -1)
    smooth = torch.exp(-0.5 * (2 * sigma * omega.norm(dim=-1) / size) ** 2)
    grid = torch.zeros(size**3, 3)
    cells, weights = trilinear(points, (size,) * 3)
    for cell, (i, j, k) in zip(cells, CORNERS, strict=True):
        share = weights[0][i] * weights[1][j] * weights[2][k]
        grid = grid.index_add(0, cell, normals * share[:, None])
    spectrum = torch.fft.rfftn(grid.view(size, size, size, 3), dim=(0, 1, 2)) * smooth[..., None]
    omega = 2 * math.pi * omega
    field = (-1j * omega * spectrum).sum(-1) / (1e-6 - (omega**2).sum(-1))
    field[0, 0, 0] = 0
    field = torch.fft.irfftn(field, s=(size,) * 3)
    field = field - sample_grid(field, points).mean()
    return -0.5 * field / field[0, 0, 0].abs()


def seconds(solve: Callable[[Tensor, Tensor], Tensor], points: Tensor, normals: Tensor) -> float:
    """Return the seconds of a forward and a backward pass."""
    a, b = points.clone().requires_grad_(), normals.clone().requires_grad_()
    begun = time.perf_counter()
    torch.autograd.backward(solve(a, b).square().mean())
    return time.perf_counter() - begun


def solver_rows(size: int = 128) -> list[tuple[str, str]]:
    """Return the table's rows for the solver: time, speed-up, sphere."""
    solver = DPSR(size)

    def ours(a: Tensor, b: Tensor) -> Tensor:
        return solver(a[None], b[None])[0]

    def theirs(a: Tensor, b: Tensor) -> Tensor:
        return rebuilding(a, b, size)

    points, normals = sphere(30_720, 0.3)
    chance = torch.Generator().manual_seed(0)
    many = points.repeat(7, 1) + 1e-3 * torch.randn(7 * len(points), 3, generator=chance)
    found: dict[str, list[float]] = {"ours": [], "rebuilding": []}
    for solve in (ours, theirs):
        seconds(solve, many, normals.repeat(7, 1))
    for _ in range(ROUNDS):
        for name, solve in (("ours", ours), ("rebuilding", theirs)):
            found[name].append(seconds(solve, many, normals.repeat(7, 1)))
    mine, plain = (statistics.median(found[name]) for name in ("ours", "rebuilding"))
    field = ours(points, normals)
    volume, true = (field <= 0).float().mean().item(), 4 / 3 * math.pi * 0.3**3
    return [
        (f"DPSR {size}³, 215,040 points, forward + backward", f"{mine * 1e3:.0f} ms"),
        ("the same, grids rebuilt each call", f"{plain * 1e3:.0f} ms"),
        ("ratio (goal 2)", f"{plain / mine:.2f}"),
        ("sphere's volume against analytic (goal 2 %)", f"{100 * (volume / true - 1):+.3f} %"),
        ("peak resident memory", f"{peak_memory(torch.device('cpu')) / 2**30:.2f} GiB"),
    ]


def end_to_end_rows(budget: int) -> list[tuple[str, str]]:
    """Return DSC and the mirror's of the pipeline after a training of `budget` seconds each."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, str(ROOT / "trainers" / "skulls" / "implant.py")),
            *("--made_up", "2", "--train_first", str(budget), "--sampling_steps", "20"),
            *("--device", "cpu", "--threads", "2", "--output_dir", folder),
        ]
        subprocess.run(command, check=True)
        summary = json.loads((Path(folder) / "implants" / "benchmark_summary.json").read_text())
    rows = []
    for kind, found in summary["per_defect"].items():
        plain = summary["per_defect_mirror"][kind]
        rows.append((f"DSC, {kind}", f"{found['dice']:.3f} (mirror {plain['dice']:.3f})"))
    return rows


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--end_to_end", type=int, metavar="SECONDS", help="training of each network"
    )
    settings = parser.parse_args()
    torch.set_num_threads(2)
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, 2 threads")
    rows = solver_rows()
    if settings.end_to_end:
        rows += end_to_end_rows(settings.end_to_end)
    for name, value in rows:
        print(f"{name:<52}{value:>24}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
