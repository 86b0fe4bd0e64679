"""Figures of the cascade trainer: memory, overfitting, kills, and a small cascade's quality.

    python tests/bench/cascade.py                # all, a quarter of an hour on two idle cores
    python tests/bench/cascade.py attention      # or some: attention lifting overfit compile kills cascade

Two threads each, or BENCH_THREADS. Memory is the peak of a process, less what it had before.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
TOKENS = (8_192, 16_384, 32_768)
HEADS = 8
CASCADE_PATIENTS, CASCADE_EPOCHS = 96, 55
THREADS = os.environ.get("BENCH_THREADS", "2")


def peak() -> int:
    """Return this process's peak resident memory in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(function: str, *arguments: object) -> list[float]:
    """Return the numbers one of this file's functions returns, in a process of its own."""
    code = f"from tests.bench import cascade; print(cascade.{function}{arguments!r})"
    code = code.replace(",)", ")")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return [float(number) for number in re.findall(r"-?[\d.]+", done.stdout)]


def attention_peak(tokens: int) -> int:
    """Return the bytes that attention among tokens adds, forward and backward, 8 heads, fp32."""
    import torch

    from trainers.cascade.blocks import TokenAttention

    torch.set_num_threads(int(THREADS))
    attention = TokenAttention(128, HEADS)
    attention(torch.randn(1, 64, 128)).sum().backward()
    before = peak()
    attention(torch.randn(1, tokens, 128, requires_grad=True)).sum().backward()
    return peak() - before


def lifting_peak() -> int:
    """Return the bytes that lifting two views into 256^3 adds a sample, forward and backward."""
    import torch

    from trainers.cascade.blocks import Lifting
    from trainers.cascade.projector import VIEWS

    torch.set_num_threads(int(THREADS))
    lifting = Lifting(VIEWS, 256, 32, 512, True)
    features = [torch.randn(1, 256, 64, 64, requires_grad=True) for _ in VIEWS]
    torch.nn.functional.linear(torch.randn(8, 8), torch.randn(8, 8))
    before = peak()
    lifting(features).sum().backward()
    return peak() - before


def overfit_psnr(steps: int = 600, draws: int = 8) -> tuple[float, float]:
    """Return, in dB, how well a sample, and the mean of some, hit the one volume trained on.

    The volume is random, 8^3 voxels.
    """
    import torch

    from trainers.cascade.diffusion import VolumeDiffusion, seeded_noise
    from trainers.cascade.losses import stage_loss
    from trainers.cascade.model import CascadeStage, StageSizes
    from trainers.cascade.projector import VIEWS

    torch.set_num_threads(int(THREADS))
    torch.manual_seed(0)
    stage = CascadeStage(StageSizes("one", 8, 2, 64, 1, 4, 16, True, VIEWS, True, 16, None))
    diffusion = VolumeDiffusion(100)
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
    noise = torch.cat([seeded_noise((1, 1, 8, 8, 8), torch.device("cpu"), k) for k in range(draws)])
    found = diffusion.sample(lambda x, t: stage(x, t, xrays[:draws]), noise, 25)
    errors = [(one - truth).square().mean().item() for one in (found[:1], found.mean(0, True))]
    return 10 * math.log10(4 / errors[0]), 10 * math.log10(4 / errors[1])


def compiled_steps(size: int, rounds: int = 12) -> tuple[float, float, float, float]:
    """Return milliseconds of a training step of a stage, plain and compiled, the seconds of its
    first step compiled, and of a plain one.

    Medians of processor time; both kinds take turns. Batch 4; the sizes are those of tiny.json's
    second stage, but for the volume's.
    """
    # Else compilers run in processes whose time is not seen.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import torch

    from trainers.cascade.diffusion import VolumeDiffusion
    from trainers.cascade.losses import stage_loss
    from trainers.cascade.model import CascadeStage, StageSizes
    from trainers.cascade.projector import VIEWS

    torch.set_num_threads(int(THREADS))
    torch.set_flush_denormal(True)
    diffusion = VolumeDiffusion(1000)
    sizes = StageSizes("stage2", size, 4, 64, 2, 4, 64, True, VIEWS, True, 8, size // 2)
    stages, first, times = [], [], [[], []]
    for compiled in (False, True):
        torch.manual_seed(0)
        stages.append(CascadeStage(sizes))
        if compiled:
            for part in stages[-1].regions:
                part.compile()
    optimisers = [torch.optim.AdamW(stage.parameters(), 1e-3) for stage in stages]
    x0, noise = torch.rand(4, 1, size, size, size) * 2 - 1, torch.randn(4, 1, size, size, size)
    before = (torch.rand(4, 1, size // 2, size // 2, size // 2), torch.rand(4))
    xrays, t = torch.rand(4, 2, 64, 64), torch.randint(1000, (4,))
    for turn in range(rounds + 1):
        for which, (stage, optimiser) in enumerate(zip(stages, optimisers, strict=True)):
            begun = os.times()
            said = stage(diffusion.add_noise(x0, noise, t), t, xrays, *before)
            stage_loss(diffusion, said, x0, noise, t, None, 0).total.mean().backward()
            optimiser.step()
            optimiser.zero_grad()
            used = sum(os.times()[:4]) - sum(begun[:4])
            (times[which] if turn else first).append(used)
    plain, quick = (1000 * statistics.median(found) for found in times)
    return plain, quick, first[1], first[0]


def kills(count: int = 20) -> str:
    """Kill a small run at random moments, resume it each time, and compare with a whole one."""
    import random

    import torch

    small = {
        "xray_config": {"img_size": 16},
        "stage_configs": [
            {"volume_size": [size] * 3, "voxel_dim": 16, "num_heads": 2, "patch_size": 4}
            for size in (8, 16)
        ],
        "training": {"batch_size": 1, "num_epochs_per_stage": 40, "sampling_steps": 2},
        "data": {"num_workers": 0, "augmentation": True},
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "small.json").write_text(json.dumps(small))
        script = str(ROOT / "trainers/cascade/train.py")
        flags = ["--dataset_path", str(place / "data"), "--made_up", "12", "--device", "cpu"]
        config = ["--config", str(place / "small.json"), "--threads", "1", "--no-tensorboard"]
        train = [sys.executable, script, *config, *flags]
        whole = [*train, "--checkpoint_dir", str(place / "whole")]
        subprocess.run(whole, check=True, capture_output=True)
        draw, done = random.Random(0), 0
        again = [*train, "--checkpoint_dir", str(place / "killed"), "--resume_from", "auto-or-new"]
        for _ in range(count):
            pipe = subprocess.PIPE
            process = subprocess.Popen(again, stdout=pipe, stderr=subprocess.STDOUT, text=True)
            assert process.stdout is not None
            # Starting takes most of the time: the clock begins with the stage's first words.
            next((line for line in process.stdout if "Training Stage" in line), "")
            time.sleep(draw.uniform(0.1, 2.5))
            process.kill()
            process.communicate()
            done += process.returncode == -9
        subprocess.run(again, check=True, capture_output=True)
        first, second = (
            torch.load(place / name / "last.pt", weights_only=True)["model_state_dict"]
            for name in ("whole", "killed")
        )
    same = all(torch.equal(first[name], second[name]) for name in first)
    verdict = "equal to the bit" if same else "DIFFER"
    return f"{done} of {count} kills hit a running process; weights at the end {verdict}"


def cascade_table(place: Path) -> list[str]:
    """Train the tiny cascade on made-up patients; return its table on test patients and time."""
    config = json.loads((ROOT / "trainers/cascade/config/tiny.json").read_text())
    config["training"] |= {"validation_samples": 4, "num_epochs_per_stage": CASCADE_EPOCHS}
    config["data"] |= {"train_split": 0.75, "val_split": 0.125, "test_split": 0.125}
    config["logging"] = {"validate_every_n_epochs": CASCADE_EPOCHS}
    (place / "config.json").write_text(json.dumps(config))
    make = [sys.executable, str(ROOT / "trainers/cascade/make_patients.py"), str(place / "data")]
    subprocess.run([*make, "--count", str(CASCADE_PATIENTS)], check=True, capture_output=True)
    train = [sys.executable, str(ROOT / "trainers/cascade/train.py")]
    train += ["--config", str(place / "config.json"), "--dataset_path", str(place / "data")]
    train += ["--checkpoint_dir", str(place / "out"), "--save_every", str(CASCADE_EPOCHS)]
    train += ["--device", "cpu", "--threads", THREADS, "--no-tensorboard"]
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (place / "log").open("w") as log:
        subprocess.run(train, stdout=log, stderr=subprocess.STDOUT, check=True)
    seconds, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = (place / "log").read_text().splitlines()
    at = next(place for place, line in enumerate(lines) if "on test patients" in line)
    end = next(place for place, line in enumerate(lines) if place > at and line[:2] != "  ")
    notes = [line.strip() for line in lines if re.match(r"  (Metrics|beside|X-rays)", line)]
    told = f"{seconds:.0f} s, {used:.0f} s of processors, {CASCADE_EPOCHS} epochs a stage"
    return [*notes, *lines[at:end], f"{told}, {CASCADE_PATIENTS} patients"]


def main() -> None:
    """Print the figures that are asked for, all by default."""
    asked = set(sys.argv[1:]) or {"attention", "lifting", "overfit", "compile", "kills", "cascade"}
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f} before; {time.strftime('%Y-%m-%d %H:%M')}", flush=True)
    if "lifting" in asked:
        (used,) = measured("lifting_peak")
        print(
            f"lifting at 256^3   {used / 1e9:.3f} GB a sample, 1/{2.1e9 / used:.1f} of 2.1 GB",
            flush=True,
        )
    if "attention" in asked:
        for tokens in TOKENS:
            (used,) = measured("attention_peak", tokens)
            scores = HEADS * tokens**2 * 2
            print(
                f"attention          {tokens:6,} tokens {used / 1e6:7.0f} MB,"
                f" {used / tokens:6.0f} bytes a token;"
                f" kept fp16 scores: {scores / 1e9:.1f} GB",
                flush=True,
            )
    if "overfit" in asked:
        one, mean = measured("overfit_psnr")
        print(f"one random volume  {one:.1f} dB a sample, {mean:.1f} dB the mean of 8", flush=True)
    if "compile" in asked:
        for size in (16, 32):
            plain, quick, compiling, first = measured("compiled_steps", size)
            print(
                f"--compile, {size}^3     {plain:.0f} -> {quick:.0f} ms a step, {plain / quick:.2f} x;"
                f" first step {first:.1f} -> {compiling:.1f} s; {THREADS} thread(s), batch 4, CPU",
                flush=True,
            )
    if "kills" in asked:
        print(f"kill -9            {kills()}", flush=True)
    if "cascade" in asked:
        with tempfile.TemporaryDirectory() as folder:
            print("\n".join(cascade_table(Path(folder))), flush=True)


if __name__ == "__main__":
    main()
