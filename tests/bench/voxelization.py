"""The Poisson solver against one that rebuilds its grids in every call, and what a sphere holds.

    python tests/bench/voxelization.py
    python tests/bench/voxelization.py --memory 128 256     # peak of a step, each a process
    python tests/bench/voxelization.py --resolutions 32 64 128 --model RUN/model_best.pt


Two threads, medians of five, the two solvers taking turns in one run. Memory is the peak of a
process that takes one training step of the full network at batch 1, less what it had before. The
table of resolutions takes a trained network and the true implants' points of made-up skulls' five
defects, and solves the field at each resolution: what a finer grid gives and costs.
The quality of both networks together is measured by tests/bench/skull_quality.py.
"""

from __future__ import annotations

import argparse
import json
import math
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
import trainers  # noqa: E402, F401 - before torch: how its threads wait

# isort: split
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from trainers.common.devices import peak_memory  # noqa: E402
from trainers.voxelization.dpsr import CORNERS, DPSR, sample_grid, trilinear  # noqa: E402
from trainers.voxelization.memory import step_bytes  # noqa: E402

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


def step_peak(size: int) -> int:
    """Return the bytes a training step of the full network adds at a grid of size³, batch 1."""
    from trainers.voxelization.model import Voxelizer
    from trainers.voxelization.validation import psr_loss

    torch.set_num_threads(2)
    network, points = Voxelizer(), sphere(30_720, 0.3)[0][None]
    optimiser, target = torch.optim.Adam(network.parameters()), torch.full((1,) + (size,) * 3, 0.5)
    # One step at the smallest grid: libraries loaded and Adam's moments made are not a grid's.
    for grid in (16, size):
        if grid == size:
            before = peak_memory(torch.device("cpu"))
        goal = target if grid == size else torch.full((1, 16, 16, 16), 0.5)
        oriented = network(points if grid == size else points[:, :64])
        psr_loss(DPSR(grid)(*oriented), goal, True, 1.0).backward()
        optimiser.step()
        optimiser.zero_grad()
    return peak_memory(torch.device("cpu")) - before + 4 * size**3


def memory_rows(sizes: list[int]) -> list[tuple[str, str]]:
    """Return the measured peak of a training step beside what the program counts, per grid."""
    rows = []
    for size in sizes:
        code = f"from tests.bench import voxelization as v; print(v.step_peak({size}))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
        )
        found, counted = int(done.stdout), step_bytes((size,) * 3, 1)
        told = f"{found / 1e9:.2f} GB, counted {counted / 1e9:.2f} GB"
        rows.append((f"training step at {size}³, batch 1", told))
    return rows


def judged_at(model: str, resolution: int, size: int, folder: str, skulls: int) -> dict[str, float]:
    """Return processor seconds a skull, peak bytes and mean figures of five implants a skull."""
    import numpy as np

    from trainers.implants.completing import complete_truly
    from trainers.skulls.listing import read_listing
    from trainers.skulls.made_up import make_up
    from trainers.skulls.metrics import score
    from trainers.skulls.shaping import Shaping, cut_out, vote
    from trainers.skulls.volumes import read_volume
    from trainers.voxelization.completions import read_completion
    from trainers.voxelization.reconstruction import load_voxelization

    torch.set_num_threads(2)
    root = Path(folder)
    make_up(root, skulls + 1, size, held_out=skulls, seed=7_000)
    voxelization = load_voxelization(Path(model), None, torch.device("cpu"))
    voxelization.resolution = (resolution,) * 3
    samples, syn = read_listing(root / "test.csv"), root / "results" / "syn"
    implant_points = voxelization.points // 10
    complete_truly(samples, syn, voxelization.points - implant_points, implant_points)
    took, found = [], []
    for sample in samples:
        case = read_completion(syn / sample.case, 1)
        bone, truth = (
            read_volume(case.volume(root, part)) for part in ("defective_skull", "implant")
        )
        begun = time.process_time()
        skull = voxelization.skull(case.clouds[0], bone.mask.shape, 1)
        took.append(time.process_time() - begun)
        how = Shaping.for_spacing(bone.spacing)
        implant = cut_out(vote([skull], how.dilation), bone.mask, case.implants[0], how)
        found.append(score(implant, truth.mask, bone.mask, bone.spacing))
    return {
        "seconds": statistics.median(took),
        "peak": peak_memory(torch.device("cpu")),
        **{
            name: float(np.mean([getattr(one, name) for one in found]))
            for name in ("dice", "bdice_10mm", "hd95_mm")
        },
    }


def resolution_rows(
    model: Path, resolutions: list[int], size: int, skulls: int
) -> list[tuple[str, str]]:
    """Return a row for each resolution, each measured in a process of its own."""
    rows = []
    from trainers.skulls.made_up import make_up

    with tempfile.TemporaryDirectory() as folder:
        # Made here: what making takes is not a resolution's.
        make_up(Path(folder), skulls + 1, size, held_out=skulls, seed=7_000)
        for resolution in resolutions:
            words = f"{str(model.absolute())!r}, {resolution}, {size}, {folder!r}, {skulls}"
            code = "import json; from tests.bench import voxelization as v; "
            code += f"print(json.dumps(v.judged_at({words})))"
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            told = (
                f"{found['seconds']:.2f} s, {found['peak'] / 1e9:.2f} GB, DSC {found['dice']:.3f},"
                f" bDSC {found['bdice_10mm']:.3f}, HD95 {found['hd95_mm']:.1f} mm"
            )
            rows.append((f"solved at {resolution}³, volume {size}³", told))
    return rows


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=int, nargs="+", metavar="SIZE", help="grids to measure")
    parser.add_argument("--resolutions", type=int, nargs="+", metavar="SIZE", help="to solve at")
    parser.add_argument("--model", type=Path, help="trained network, for --resolutions")
    parser.add_argument("--skulls", type=int, default=1, help="to judge by, five defects each (1)")
    parser.add_argument("--size", type=int, default=128, help="voxels of the skull's side (128)")
    settings = parser.parse_args()
    if bool(settings.resolutions) != bool(settings.model):
        parser.error("--resolutions needs --model, and --model --resolutions")
    torch.set_num_threads(2)
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, 2 threads")
    if settings.resolutions:
        rows = resolution_rows(settings.model, settings.resolutions, settings.size, settings.skulls)
    else:
        rows = memory_rows(settings.memory) if settings.memory else solver_rows()
    for name, value in rows:
        print(f"{name:<52}{value:>24}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
