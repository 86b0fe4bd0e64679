"""PCDiff's figures: a training step and a sampling step of the full network against plain torch.

    python tests/bench/pcdiff.py [--repeat 3] [--threads 2] [--points 30720]

The plain side is the dense network of tests/trainers/pcdiff_reference.py: the same operators and
weights in plain torch, 128 slots a group, sampling in a loop of torch calls. It is timed once,
since it takes minutes; ours is the median. Wall and processor time are given: on a machine that
others use the second is the fairer one. A sampling step is also taken apart: which share of it is
spent in which kind of operation, by PyTorch's profiler.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [
    str(ROOT),
    *(entry for entry in sys.path if Path(entry).resolve() != ROOT / "tests/bench"),
]

import numpy as np  # noqa: E402
import torch  # noqa: E402

from tests.trainers.pcdiff_reference import dense_forward  # noqa: E402
from trainers.common.devices import peak_memory  # noqa: E402
from trainers.pcdiff.completing import PUBLISHED_NOISE, noise_predictor  # noqa: E402
from trainers.pcdiff.diffusion import PointDiffusion  # noqa: E402
from trainers.pcdiff.geometry import Steady, survey  # noqa: E402
from trainers.pcdiff.model import PVCNN, Sizes  # noqa: E402

Seconds = tuple[float, float]
KINDS = {
    "convolutions on voxel grids": ("conv",),
    "attention among voxels": ("attention", "softmax"),
    "matrix products of points": ("mm", "linear"),
    "voxels and neighbours read and written": ("embedding_bag", "index", "gather", "scatter"),
}
"""What operations of PyTorch count as, by parts of their names; the first that fits."""


def shell(points: int) -> torch.Tensor:
    """A skull-like cloud (1, 3, N): two ellipsoidal shells and a tenth of noise."""
    draw = np.random.default_rng(0)
    skull = draw.normal(size=(points * 9 // 10, 3))
    skull /= np.linalg.norm(skull, axis=1, keepdims=True)
    skull *= np.where(draw.random(len(skull)) < 0.5, 1, 0.93)[:, None] * (3, 2.4, 2.2)
    cloud = np.concatenate([skull, draw.normal(size=(points - len(skull), 3))])
    return torch.from_numpy(np.ascontiguousarray(cloud.T[None], dtype=np.float32))


def timed(action: Callable[[], object], repeat: int, warm: bool = True) -> Seconds:
    """Median wall and processor seconds of an action."""
    if warm:
        action()
    walls, processors = [], []
    for _ in range(repeat):
        wall, processor = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return statistics.median(walls), statistics.median(processors)


def row(name: str, ours: Seconds, other: Seconds | None = None) -> None:
    """Print a line of the table."""
    told = f"{name:<58} {ours[0]:9.3f} s wall {ours[1]:9.3f} s processor"
    if other is not None:
        told += f"   {other[0] / ours[0]:6.1f}x {other[1] / ours[1]:6.1f}x"
    print(told, flush=True)


def shares(action: Callable[[], object]) -> dict[str, float]:
    """Return which share of an action's PyTorch operations is spent in which kind."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        action()
    found = dict.fromkeys([*KINDS, "norms, Swish, sums and copies"], 0.0)
    for event in profiled.key_averages():
        if event.key.startswith("aten::"):
            fitting = (kind for kind, parts in KINDS.items() if any(p in event.key for p in parts))
            found[next(fitting, list(found)[-1])] += event.self_cpu_time_total
    whole = sum(found.values())
    return {kind: spent / whole for kind, spent in found.items()}


def sampling_rows(network: PVCNN, cloud: torch.Tensor, steps: torch.Tensor, repeat: int) -> None:
    """Print what a sampling step takes, of what it consists, and what plain torch takes for it."""
    skull = cloud[0, :, : cloud.shape[2] * 9 // 10]
    implant, points = cloud[:, :, skull.shape[1] :], cloud.transpose(1, 2)
    diffusion = PointDiffusion.described(PUBLISHED_NOISE)
    keeping, fresh = (noise_predictor(network, diffusion, skull, keep) for keep in (True, False))
    kept = timed(lambda: keeping(implant, steps), repeat)
    again = timed(lambda: fresh(implant, steps), repeat)
    row("sampling step, of the skull kept what can be", kept)
    row("sampling step, all searched again", again)
    same = torch.equal(keeping(implant, steps), fresh(implant, steps))
    print(f"  the same to the bit: {'yes' if same else 'NO'}", flush=True)
    steady, levels = Steady(skull.shape[1]), survey(points, network.balls, "numba")
    alone = timed(lambda: network(cloud, steps, levels), repeat)
    row("  of it the network, where all lies being known", alone)
    for kind, share in shares(lambda: network(cloud, steps, levels)).items():
        print(f"    {kind:<54} {share:9.1%}", flush=True)
    found = timed(lambda: survey(points, network.balls, "numba", steady), repeat)
    anew = timed(lambda: survey(points, network.balls, "numba"), repeat)
    row("  of it the searches, kept", found, anew)
    slow = timed(lambda: survey(points, network.balls, "torch"), 1, warm=False)
    row("searches alone, all again, compiled", anew, slow)
    row("searches alone, batched torch", slow)
    network.search = "torch"
    other = timed(lambda: fresh(implant, steps), 1, warm=False)
    network.search = "auto"
    row("sampling step, our network, all searched again in torch", other)
    print(f"  kept is {other[0] / kept[0]:.1f}x (wall), {other[1] / kept[1]:.1f}x (processor)")
    plain = timed(lambda: dense_forward(network, cloud, steps), 1, warm=False)
    row("sampling step, plain torch", plain)
    print(f"  kept is {plain[0] / kept[0]:.1f}x (wall), {plain[1] / kept[1]:.1f}x (processor)")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--points", type=int, default=30_720)
    parser.add_argument("--sampling", action="store_true", help="only the sampling step")
    settings = parser.parse_args()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)
    print(f"{platform.processor() or platform.machine()}, {settings.threads} threads,"
          f" torch {torch.__version__}, {settings.points} points, batch 1")  # fmt: skip
    network = PVCNN(Sizes(points=settings.points, implant_points=settings.points // 10))
    cloud, steps = shell(settings.points), torch.tensor([500])
    network.eval()
    with torch.no_grad():
        sampling_rows(network, cloud, steps, settings.repeat)
    if settings.sampling:
        return 0

    def train(forward: Callable[..., torch.Tensor]) -> None:
        forward(cloud, steps).square().mean().backward()
        network.zero_grad(set_to_none=True)

    network.train()
    ours = timed(lambda: train(network), settings.repeat)
    row("training step", ours)
    print(f"peak memory so far {peak_memory(torch.device('cpu')) / 2**30:.2f} GiB", flush=True)
    dense = timed(lambda: train(lambda *given: dense_forward(network, *given)), 1, warm=False)
    row("training step, plain torch", dense)
    print(f"  ours is {dense[0] / ours[0]:.1f}x (wall), {dense[1] / ours[1]:.1f}x (processor)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
