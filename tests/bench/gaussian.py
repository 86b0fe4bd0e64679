"""Figures of the Gaussian trainer: the renderer against a loop, our recipe against the Fresnel
project's. The fast schedule is measured by gaussian_hfts.py, kills by gaussian_kills.py.

    python tests/bench/gaussian.py renderer recipe          both by default; two threads
    python tests/bench/gaussian.py renderer --device cuda   on a GPU: images a second too
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from trainers.gaussian.geometry import rotation_from_6d  # noqa: E402
from trainers.gaussian.projection import Camera, Gaussians, project  # noqa: E402
from trainers.gaussian.render import Drawer, choose_drawer, render  # noqa: E402

THREADS = 2
LOOPED = 300
CPU = torch.device("cpu")
TRAINER = ROOT / "trainers" / "gaussian" / "train.py"


def random_gaussians(images: int, count: int, deviation: float) -> Gaussians:
    """Gaussians over the whole frame, of about this deviation in the world's units."""
    chance = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.rand(images, count, *shape, generator=chance)

    positions = torch.cat((2 * draw(2) - 1, -2 - 2 * draw(1)), dim=-1)
    parts = (
        positions,
        deviation * (0.5 + draw(3)),
        rotation_from_6d(draw(6) - 0.5),
        draw(3),
        0.3 + 0.4 * draw(),
    )
    return Gaussians(*(part.requires_grad_() for part in parts))


def render_in_a_loop(gaussians: Gaussians, camera: Camera, image: int) -> Tensor:
    """One image (3,S,S), one Gaussian after the other inside its box of three deviations, as
    upstream does.
    """
    ellipses = project(gaussians, camera)
    centres, variances, conics = (part[image] for part in ellipses[:3])
    colours, opacities = gaussians.colours[image], gaussians.opacities[image]
    size = camera.size
    picture, through = torch.zeros(3, size, size), torch.ones(size, size)
    places = torch.arange(size) + 0.5
    for index in torch.argsort(ellipses.distances[image], stable=True).tolist():
        reach = 3 * float(variances[index].detach().max()) ** 0.5
        u, v = (float(value) for value in centres[index].detach())
        x0, x1 = max(0, int(u - reach)), min(size, int(u + reach) + 1)
        y0, y1 = max(0, int(v - reach)), min(size, int(v + reach) + 1)
        if x0 >= x1 or y0 >= y1:
            continue
        dx, dy = places[x0:x1] - centres[index, 0], (places[y0:y1] - centres[index, 1]).unsqueeze(1)
        a, b, c = conics[index]
        power = -0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy
        alpha = (opacities[index] * power.exp()).clamp(0, 0.99)
        weight = through[y0:y1, x0:x1] * alpha
        picture[:, y0:y1, x0:x1] += weight * colours[index].view(3, 1, 1)
        left = through[y0:y1, x0:x1] * (1 - alpha)
        through = through.clone()
        through[y0:y1, x0:x1] = left
    return picture


def seconds(action: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The median wall time of an action, and the median of all its threads' CPU time."""
    taken, computed = [], []
    for _ in range(repeats):
        begun, before = time.perf_counter(), time.process_time()
        action()
        taken.append(time.perf_counter() - begun)
        computed.append(time.process_time() - before)
    return statistics.median(taken), statistics.median(computed)


def bench_renderer(device: str, backends: list[str]) -> None:
    """Forward and backward of the batched renderers against the loop.

    The loop draws the first LOOPED Gaussians of one image; its time is scaled to all of the batch.
    The ratio is of CPU time, that of ours over all threads halved, so that other work on the
    machine does not decide it.
    """
    print("| Gaussians | batch, size | loop, each | loop, all | ours: CPU time (wall), ratio |")
    print("| --- | --- | --- | --- | --- |")
    for batch, count, size in ((32, 1369, 64), (4, 5476, 128)):
        patch = 0.05 * 37 / count**0.5
        for words, deviation in (("as upstream starts, 0.197", 0.197), ("as ours start", patch)):
            gaussians, camera = random_gaussians(batch, count, deviation), Camera(size)
            few = random_gaussians(1, LOOPED, deviation)

            def looped(gaussians: Gaussians = few, camera: Camera = camera) -> None:
                render_in_a_loop(gaussians, camera, 0).square().mean().backward()

            told = []
            loop = seconds(looped, 3)[1] * batch * count / LOOPED
            for backend in backends:
                draw = choose_drawer(backend, CPU)

                def batched(
                    gaussians: Gaussians = gaussians,
                    camera: Camera = camera,
                    draw: Drawer = draw,
                ) -> None:
                    render(gaussians, camera, draw).image.square().mean().backward()

                batched()
                wall, cpu = seconds(batched, 5 if backend == "compiled" else 3)
                told.append(
                    f"{backend} {cpu:.2f} s ({wall:.2f} s), **{loop / cpu * THREADS:.0f}x**"
                )
            print(
                f"| {count:,}, {words} | {batch}, {size} px | {1e3 * loop / batch / count:.2f} ms |"
                f" {loop:.1f} s | {', '.join(told)} |",
                flush=True,
            )
    if device == "cuda":
        bench_gpu()


def bench_gpu() -> None:
    """Images a second at 256 px with all Gaussians of K = 4; only where there is a GPU."""
    for backend in ("torch", "auto"):
        gaussians = Gaussians(
            *(part.detach().cuda().requires_grad_() for part in random_gaussians(32, 5476, 0.03))
        )

        draw = choose_drawer(backend, torch.device("cuda"))

        def step(gaussians: Gaussians = gaussians, draw: Drawer = draw) -> None:
            render(gaussians, Camera(256), draw).image.square().mean().backward()
            torch.cuda.synchronize()

        for _ in range(3):
            step()
        print(
            f"GPU, {backend}: {32 / seconds(step, 5)[0]:.0f} images/s at 256 px, 5,476 Gaussians,"
            " batch 32"
        )


def train(folder: Path, *arguments: str) -> list[dict[str, float]]:
    """Run the trainer and return its epochs: seconds of training alone, and the values.

    The first epoch also has `cpu`, seconds of all threads of the whole program, start and judging
    included: on a machine with other work the wall time alone says little.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    common = (
        "--threads",
        str(THREADS),
        "--device",
        "cpu",
        "--no-export_onnx",
        "--no-tensorboard",
        "--checkpoint_every",
        "1000",
    )
    done = subprocess.run(
        [sys.executable, str(TRAINER), *common, *arguments],
        env=kept | {"FRESNEL_RUN_DIR": str(folder)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    told = [{"seconds": e["seconds"], **e["values"]} for e in events if e["type"] == "epoch"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    told[0]["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return told


def bench_recipe(epochs: int, seeds: int) -> None:
    """Upstream's recipe (rate 1e-4, its cosine, no warm-up; geometry right) against ours in the
    same time.
    """
    results: dict[str, list[tuple[float, float, float]]] = {"upstream's recipe": [], "ours": []}
    recipes = {
        "upstream's recipe": ("--lr", "1e-4", "--warmup", "0", "--lr_floor", "0"),
        "ours": (),
    }
    for seed in range(seeds):
        for name, more in recipes.items():
            with tempfile.TemporaryDirectory() as folder:
                told = train(Path(folder), "--epochs", str(epochs), "--seed", str(seed), *more)
            taken = sum(epoch["seconds"] for epoch in told)
            results[name].append((taken, told[-1]["held_out_psnr"], told[-1]["held_out_ssim"]))
    print(
        f"| recipe, 64 px, K=4, batch 4, {epochs} epochs, {seeds} seeds | training time | PSNR |"
        " SSIM |"
    )
    print("| --- | --- | --- | --- |")
    for name, rows in results.items():
        columns = list(zip(*rows, strict=True))
        spread = [
            f"{statistics.mean(column):.3g} ({min(column):.4g}-{max(column):.4g})"
            for column in columns
        ]
        print(f"| {name} | {spread[0]} s | {spread[1]} dB | {spread[2]} |", flush=True)


def main() -> int:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["renderer", "recipe"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=8, help="of the recipes")
    parser.add_argument("--backends", nargs="*", default=["torch", "compiled"])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(THREADS)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    print(
        f"{os.cpu_count()} cores, {THREADS} threads, load {load:.1f} at the start, torch"
        f" {torch.__version__}\n"
    )
    if "renderer" in asked.parts:
        bench_renderer(asked.device, asked.backends)
    if "recipe" in asked.parts:
        bench_recipe(asked.epochs, asked.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
