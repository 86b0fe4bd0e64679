"""PCDiff's figures: a training step and a sampling step of the full network against plain torch.

    python tests/bench/pcdiff.py [--repeat 3] [--threads 2] [--points 30720]

The plain side is the dense network of tests/trainers/pcdiff_reference.py: the same operators and
weights in plain torch, 128 slots a group, sampling in a loop of torch calls. It is timed once,
since it takes minutes; ours is the median. Wall and processor time are given: on a machine that
others use the second is the fairer one.
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
from trainers.pcdiff.completing import noise_predictor  # noqa: E402
from trainers.pcdiff.geometry import Steady, survey  # noqa: E402
from trainers.pcdiff.model import PVCNN, Sizes  # noqa: E402

Seconds = tuple[float, float]


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


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--points", type=int, default=30_720)
    settings = parser.parse_args()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)
    print(f"{platform.processor() or platform.machine()}, {settings.threads} threads,"
          f" torch {torch.__version__}, {settings.points} points, batch 1")  # fmt: skip
    network = PVCNN(Sizes(points=settings.points, implant_points=settings.points // 10))
    cloud, steps = shell(settings.points), torch.tensor([500])
    skull = cloud[0, :, : settings.points * 9 // 10]
    implant, repeat = cloud[:, :, skull.shape[1] :], settings.repeat

    def train(forward: Callable[..., torch.Tensor]) -> None:
        forward(cloud, steps).square().mean().backward()
        network.zero_grad(set_to_none=True)

    network.train()
    ours = timed(lambda: train(network), repeat)
    row("training step", ours)
    print(f"peak memory so far {peak_memory(torch.device('cpu')) / 2**30:.2f} GiB", flush=True)
    network.eval()
    with torch.no_grad():
        keeping, fresh = (noise_predictor(network, skull, keep) for keep in (True, False))
        kept = timed(lambda: keeping(implant, steps), repeat)
        again = timed(lambda: fresh(implant, steps), repeat)
        points = cloud.transpose(1, 2)
        steady = Steady(skull.shape[1])
        searches = {
            "kept": timed(lambda: survey(points, network.balls, "numba", steady), repeat),
            "again": timed(lambda: survey(points, network.balls, "numba"), repeat),
            "torch": timed(lambda: survey(points, network.balls, "torch"), 1, warm=False),
        }
        plain = timed(lambda: dense_forward(network, cloud, steps), 1, warm=False)
    row("sampling step, of the skull kept what can be", kept)
    row("sampling step, all searched again", again)
    row("sampling step, plain torch", plain)
    print(f"  kept is {plain[0] / kept[0]:.1f}x (wall), {plain[1] / kept[1]:.1f}x (processor)")
    row("searches alone, kept", searches["kept"], searches["again"])
    row("searches alone, all again, compiled", searches["again"], searches["torch"])
    row("searches alone, batched torch", searches["torch"])
    network.train()
    dense = timed(lambda: train(lambda *given: dense_forward(network, *given)), 1, warm=False)
    row("training step, plain torch", dense)
    print(f"  ours is {dense[0] / ours[0]:.1f}x (wall), {dense[1] / ours[1]:.1f}x (processor)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
