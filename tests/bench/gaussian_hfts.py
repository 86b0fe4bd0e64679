"""Fast training (HFTS) against full training to the same held-out PSNR, and where its gain comes
from.

    python tests/bench/gaussian_hfts.py steps              what a step costs, part by part
    python tests/bench/gaussian_hfts.py schedules          whole trainings, their time and PSNR
    python tests/bench/gaussian_hfts.py schedules --full 8 --fast 12 20 --seeds 3 --lr 2e-3

Processor time of one thread throughout, since other work on a machine makes wall time meaningless:
with one thread and nothing else to do the two are the same. Photographs are those that scikit-image
and scikit-learn ship, as the trainer uses them without a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
BLUR = 0.3
PARTS = ("decode", "draw", "loss", "loss'", "draw'", "decode'", "optimiser")
STEPS = (
    ("whole images, K=4", 0, 1.0, 4, 4),
    ("whole images, K=4, batch 1", 0, 1.0, 4, 1),
    ("whole images, K=1", 0, 1.0, 1, 4),
    ("whole images, half the size", 0, 0.5, 4, 4),
    ("windows of 12 x 12", 12, 1.0, 4, 4),
    ("windows of 8 x 8", 8, 1.0, 4, 4),
    ("windows of 8 x 8, K=1, half the size", 8, 0.5, 1, 4),
)
"""Words, patches a side of a window, size over the full one, Gaussians a patch, batch."""


def step_parts(size: int, rounds: int) -> dict[str, list[float]]:
    """Return for each of STEPS the least milliseconds of each of PARTS; primed ones go backward.

    All kinds of steps take turns, so that a busy moment of the machine meets all of them.
    """
    import torch

    from trainers.gaussian.decoder import DecoderSettings, make_decoder
    from trainers.gaussian.hfts import random_window
    from trainers.gaussian.losses import LossSettings, total_loss
    from trainers.gaussian.projection import Camera, Gaussians
    from trainers.gaussian.render import Rendering, choose_drawer, render

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as every trainer of ours
    torch.manual_seed(0)
    decoder = make_decoder(DecoderSettings())
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-3, fused=True)
    features, image = torch.randn(4, 384, 37, 37), torch.rand(4, 3, size, size)
    draw = choose_drawer("auto", torch.device("cpu"))
    least: dict[str, list[float]] = {}
    for _ in range(rounds):
        for words, side, scale, slots, batch in STEPS:
            window, camera = None, Camera(round(size * scale))
            if side:
                window, camera = random_window(side, camera.size)
            target = image[:batch, :, : camera.width, : camera.width].contiguous()
            times = [time.process_time()]
            made = decoder(features[:batch], slots=slots, window=window)
            times.append(time.process_time())
            loose = Gaussians(*(part.detach().requires_grad_() for part in made))
            drawn = render(loose, camera._replace(blur=BLUR), draw)
            times.append(time.process_time())
            seen = Rendering(*(part.detach().requires_grad_() for part in drawn))
            loss, _ = total_loss(seen, target, None, LossSettings())
            times.append(time.process_time())
            loss.backward()
            times.append(time.process_time())
            drawn.image.backward(seen.image.grad)
            times.append(time.process_time())
            optimiser.zero_grad()
            torch.autograd.backward(list(made), [part.grad for part in loose])
            times.append(time.process_time())
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            optimiser.step()
            times.append(time.process_time())
            taken = [1e3 * (b - a) for a, b in pairwise(times)]
            known = least.setdefault(words, taken)
            least[words] = [min(pair) for pair in zip(known, taken, strict=True)]
    return least


def print_steps(size: int, rounds: int) -> None:
    """Print the table of step_parts."""
    print(f"| step, {size} px, batch 4 | {' | '.join(PARTS)} | all, ms | less |")
    print("| --- " * (len(PARTS) + 3) + "|")
    found = step_parts(size, rounds)
    whole = sum(next(iter(found.values())))
    for words, parts in found.items():
        columns = " | ".join(f"{part:.1f}" for part in parts)
        print(f"| {words} | {columns} | {sum(parts):.0f} | {whole / sum(parts):.1f}x |", flush=True)


def one(arguments: list[str]) -> None:
    """Train in this process and print, as JSON, steps and processor seconds by phase, and the last
    values; loading of batches is counted, judging and the start are not.
    """
    from trainers.gaussian import train

    spent: dict[str, list[float]] = {}
    finished: dict[str, Any] = {}
    train_epoch, summarise = train.train_epoch, train.summarise

    def timed(run: Any, loader: Any) -> bool:
        phase = spent.setdefault(run.phase.describe(), [0, 0.0])
        step, before = run.position.step, time.process_time()
        stopped = train_epoch(run, loader)
        phase[1] += time.process_time() - before
        phase[0] += run.position.step - step
        return bool(stopped)

    def noted(run: Any, seconds: float) -> None:
        finished.update(run.values)
        summarise(run, seconds)

    train.train_epoch, train.summarise = timed, noted
    code = train.main(arguments)
    if code:
        sys.exit(code)
    values = {name: finished[name] for name in ("held_out_psnr", "held_out_ssim")}
    print("RESULT " + json.dumps({"phases": spent, "values": values}))


def trained(
    *arguments: str, kept_in: Path | None = None
) -> tuple[float, float, float, dict[str, list[float]]]:
    """Return processor seconds of training, PSNR, SSIM and the phases of a run of its own.

    Its folder is deleted, unless one is named.
    """
    # fmt: off
    common = ("--device", "cpu", "--threads", "1", "--no-export_onnx", "--no-tensorboard",
              "--checkpoint_every", "1000", "--validate_every", "1000", "--blur", str(BLUR))
    # fmt: on
    with tempfile.TemporaryDirectory() as own:
        folder = str(kept_in or own)
        kept = {name: value for name, value in os.environ.items() if name != "FRESNEL_RUN_DIR"}
        done = subprocess.run(
            [sys.executable, __file__, "--one", "--output_dir", folder, *common, *arguments],
            env=kept | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    told = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    found = json.loads(told.removeprefix("RESULT "))
    seconds = sum(spent for _, spent in found["phases"].values())
    values = found["values"]
    return seconds, values["held_out_psnr"], values["held_out_ssim"], found["phases"]


def schedules(asked: argparse.Namespace) -> None:
    """Print whole trainings of both kinds, a row each; with several seeds means and ranges."""
    print(f"| schedule, {asked.size} px, K=4, batch 4, {asked.images} images | steps | training,")
    print("processor time | held-out PSNR | SSIM |")
    plans = [("full", epochs, rate, ()) for epochs in asked.full for rate in asked.lr]
    plans += [
        ("fast", epochs, rate, ("--fast_mode",)) for epochs in asked.fast for rate in asked.lr
    ]
    for name, epochs, rate, more in plans:
        # fmt: off
        common = ("--max_images", str(asked.images), "--image_size", str(asked.size),
                  "--batch_size", str(asked.batch), "--epochs", str(epochs), "--lr", str(rate))
        # fmt: on
        rows = [trained(*common, *more, "--seed", str(seed)) for seed in range(asked.seeds)]
        steps = sum(count for count, _ in rows[0][3].values())
        columns = [
            f"{statistics.mean(column):.4g} ({min(column):.4g}-{max(column):.4g})"
            for column in list(zip(*rows, strict=True))[:3]
        ]
        print(
            f"| {name}, {epochs} epochs, lr {rate} | {steps} | {columns[0]} s | {columns[1]} dB |"
            f" {columns[2]} |"
        )
        for phase, (count, seconds) in rows[0][3].items():
            print(f"    {phase}: {count} steps, {1e3 * seconds / count:.0f} ms each")
        sys.stdout.flush()


def main() -> int:
    """Print the tables asked for."""
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["steps", "schedules"])
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=8, help="of the steps")
    parser.add_argument("--images", type=int, default=50, help="held out included")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--full", type=int, nargs="*", default=[8], help="epochs")
    parser.add_argument("--fast", type=int, nargs="*", default=[12, 24], help="epochs")
    parser.add_argument("--lr", nargs="*", default=["1e-3"])
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, 1 thread, load {load:.1f} at the start\n", flush=True)
    if "steps" in asked.parts:
        print_steps(asked.size, asked.rounds)
    if "schedules" in asked.parts:
        schedules(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
