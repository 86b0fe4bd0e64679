"""Figures of the cascade trainer: memory, overfitting, kills, and a small cascade's quality.

    python tests/bench/cascade.py                # all, a quarter of an hour on two idle cores
    python tests/bench/cascade.py attention      # or some: attention lifting overfit cascade

Two threads each. Memory is the peak of a process of its own, less what it had before.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
TOKENS = (8_192, 16_384, 32_768)
HEADS = 8
CASCADE_PATIENTS, CASCADE_EPOCHS = 96, 60


def peak() -> int:
    """Return this process's peak resident memory in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(function: str, *arguments: object) -> float:
    """Return what one of this file's functions prints in a process of its own."""
    code = f"from tests.bench import cascade; print(cascade.{function}{arguments!r})"
    code = code.replace(",)", ")")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout.split()[-1])


def attention_peak(tokens: int) -> int:
    """Return the bytes that attention among tokens adds, forward and backward, 8 heads, fp32."""
    import torch

    from trainers.cascade.blocks import Attention

    torch.set_num_threads(2)
    attention = Attention(128, HEADS)
    attention(torch.randn(1, 64, 128)).sum().backward()
    before = peak()
    attention(torch.randn(1, tokens, 128, requires_grad=True)).sum().backward()
    return peak() - before


def lifting_peak() -> int:
    """Return the bytes that lifting two views into 256^3 adds for a sample, forward and backward."""
    import torch

    from trainers.cascade.blocks import Lifting
    from trainers.cascade.projector import VIEWS

    torch.set_num_threads(2)
    lifting = Lifting(VIEWS, 256, 32, 512, True)
    features = [torch.randn(1, 256, 64, 64, requires_grad=True) for _ in VIEWS]
    torch.nn.functional.linear(torch.randn(8, 8), torch.randn(8, 8))
    before = peak()
    lifting(features).sum().backward()
    return peak() - before


def overfit_psnr(steps: int = 1200) -> float:
    """Return, in dB, how well a sample hits the random volume, 8^3, that a stage was trained on."""
    import torch

    from trainers.cascade.diffusion import Diffusion, seeded_noise
    from trainers.cascade.losses import stage_loss
    from trainers.cascade.model import CascadeStage, StageSizes
    from trainers.cascade.projector import VIEWS

    torch.set_num_threads(2)
    torch.manual_seed(0)
    stage = CascadeStage(StageSizes("one", 8, 2, 64, 1, 4, 16, True, VIEWS, True, 16, None))
    diffusion = Diffusion(100)
    truth, xrays = torch.rand(1, 1, 8, 8, 8) * 2 - 1, torch.zeros(16, 2, 16, 16)
    optimiser = torch.optim.AdamW(stage.parameters(), 3e-3, weight_decay=0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    x0 = truth.expand(16, -1, -1, -1, -1)
    for _ in range(steps):
        t, noise = torch.randint(100, (16,)), torch.randn(x0.shape)
        said = stage(diffusion.add_noise(x0, noise, t), t, xrays)
        stage_loss(diffusion, said, x0, noise, t, None, 0).total.mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    noise = seeded_noise((1, 1, 8, 8, 8), torch.device("cpu"), 0)
    found = diffusion.sample(lambda x, t: stage(x, t, xrays[:1]), noise, 25)
    return 10 * math.log10(4 / (found - truth).square().mean().item())


def cascade_table() -> list[str]:
    """Train the tiny cascade on made-up patients; return its table on test patients, and the time."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config = json.loads((ROOT / "trainers/cascade/config/tiny.json").read_text())
        config["training"] |= {"validation_samples": 4, "num_epochs_per_stage": CASCADE_EPOCHS}
        config["data"] |= {"train_split": 0.75, "val_split": 0.125, "test_split": 0.125}
        config["logging"] = {"validate_every_n_epochs": CASCADE_EPOCHS // 3}
        (place / "config.json").write_text(json.dumps(config))
        make = [
            sys.executable,
            str(ROOT / "trainers/cascade/make_patients.py"),
            str(place / "data"),
        ]
        subprocess.run([*make, "--count", str(CASCADE_PATIENTS)], check=True, capture_output=True)
        begun = time.monotonic()
        train = [
            sys.executable,
            str(ROOT / "trainers/cascade/train.py"),
            "--config",
            str(place / "config.json"),
        ]
        flags = ["--dataset_path", str(place / "data"), "--checkpoint_dir", str(place / "out")]
        more = ["--device", "cpu", "--threads", "2", "--no-tensorboard"]
        done = subprocess.run([*train, *flags, *more], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        seconds = time.monotonic() - begun
    lines = done.stdout.splitlines()
    at = next(place for place, line in enumerate(lines) if "on test patients" in line)
    end = next(
        place for place, line in enumerate(lines) if place > at and not line.startswith("  ")
    )
    notes = [line.strip() for line in lines if re.match(r"  (Metrics|beside|X-rays)", line)]
    return [
        *notes,
        *lines[at:end],
        f"{seconds:.0f} s, {CASCADE_EPOCHS} epochs a stage, {CASCADE_PATIENTS} patients",
    ]


def main() -> None:
    """Print the figures that are asked for, all by default."""
    asked = set(sys.argv[1:]) or {"attention", "lifting", "overfit", "cascade"}
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f} before; {time.strftime('%Y-%m-%d %H:%M')}", flush=True)
    if "lifting" in asked:
        used = measured("lifting_peak")
        print(
            f"lifting at 256^3   {used / 1e9:.3f} GB a sample, upstream 2.1 GB: 1/{2.1e9 / used:.0f}",
            flush=True,
        )
    if "attention" in asked:
        for tokens in TOKENS:
            used = measured("attention_peak", tokens)
            scores = HEADS * tokens**2 * 2
            print(
                f"attention          {tokens:6,} tokens {used / 1e6:7.0f} MB, {used / tokens:6.0f} bytes a token;"
                f" fp16 scores would be {scores / 1e9:.1f} GB",
                flush=True,
            )
    if "overfit" in asked:
        print(f"one random volume  {measured('overfit_psnr'):.1f} dB", flush=True)
    if "cascade" in asked:
        print("\n".join(cascade_table()), flush=True)


if __name__ == "__main__":
    main()
