"""Kill -9 at random moments of a tiny fast training, each time resumed; its end against a whole
run's, bit for bit.

    python tests/bench/gaussian_kills.py            20 kills, about a minute on one idle core
    python tests/bench/gaussian_kills.py --kills 5 --seed 1

The moments are spread over the whole run: each lies up to an epoch and its saving after the end of
an epoch drawn at random, so that every phase of the fast schedule is hit, judging and saving too.
Every attempt is a process of its own, forked from one that has imported everything already.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from trainers.gaussian import train  # noqa: E402

EPOCHS, STEPS = 12, 4
# fmt: off
TINY = (
    "--epochs", str(EPOCHS), "--max_images", "10", "--image_size", "64", "--batch_size", "2",
    "--gaussians_per_patch", "2", "--fast_mode", "--train_resolution", "48", "--train_window", "9",
    "--progressive_schedule", "--stochastic_k", "500", "--ema", "0.9", "--dropout", "0.1",
    "--final_share", "0.25", "--device", "cpu", "--threads", "1", "--no-export_onnx",
    "--no-tensorboard",
)
# fmt: on


def start(folder: Path) -> tuple[int, TextIO]:
    """Start a training that goes on from what the folder holds; return its id and its output."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.closerange(3, 64)
        os.environ["FRESNEL_RUN_DIR"] = str(folder)
        code = 1
        try:
            words = [*TINY, "--output_dir", str(folder), "--resume", "auto-or-new"]
            code = train.main(words)
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writing)
    return process, os.fdopen(reading)


def run(folder: Path) -> str:
    """Train to the end and return the output. Raises RuntimeError where it fails."""
    process, output = start(folder)
    with output:
        told = output.read()
    if os.waitpid(process, 0)[1]:
        raise RuntimeError(told[-1000:])
    return told


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a run's events."""
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def kill_once(folder: Path, epoch: int, seconds: float) -> str:
    """Go on with the run, kill it so many seconds after an epoch's end; return where it was.

    The answer is empty where the run ended before.
    """
    process, output = start(folder)
    with output:
        wait_for(output, epoch)
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
    if not os.WIFSIGNALED(status):
        return ""
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise RuntimeError(f"a training was ended by signal {os.WTERMSIG(status)}")
    told = events(folder)
    phases = (event["phase"] for event in reversed(told) if event["type"] == "phase")
    doing = next(phases, "starting")
    done = next((event["epoch"] for event in reversed(told) if event["type"] == "epoch"), 0)
    return f"{doing} after epoch {done}"


def wait_for(lines: Iterable[str], epoch: int) -> None:
    """Read a run's lines until so many epochs are done, before it began or since."""
    for line in lines:
        told = re.match(r"Epoch (\d+) complete", line)
        resumed = re.match(r"resume .*, (\d+) steps done", line)
        done = int(told[1]) if told else int(resumed[1]) // STEPS if resumed else -1
        if done >= epoch or (epoch == 0 and "warming up" in line):
            return


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Return the names of all tensors and numbers in which two checkpoints' states differ."""

    def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, part in value.items():
                yield from leaves(part, f"{name}.{key}")
        elif isinstance(value, (list, tuple)):
            for place, part in enumerate(value):
                yield from leaves(part, f"{name}.{place}")
        else:
            yield name, value

    names = ("model", "optimiser", "ema", "random", "position")
    one, other = (
        dict(leaf for name in names for leaf in leaves(content[name], name))
        for content in (first, second)
    )
    differing = list(one.keys() ^ other.keys())
    for name in one.keys() & other.keys():
        a, b = one[name], other[name]
        same = torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        differing += [] if same else [name]
    return sorted(differing)


def kills(count: int, seed: int) -> list[str]:
    """Run it whole, then killed and resumed; return what was hit and whether the ends are equal."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        # Side by side, the one would go on from the other's checkpoints: they have equal settings.
        whole, killed = Path(place) / "elsewhere" / "whole", Path(place) / "here" / "killed"
        phases = [line[13:] for line in run(whole).splitlines() if line.startswith("phase ")]
        ends = [event["time"] for event in events(whole) if event["type"] == "epoch"]
        each = (ends[-1] - ends[0]) / (len(ends) - 1)
        hit: list[str] = []
        for epoch in sorted(draw.randrange(EPOCHS) for _ in range(count)):
            hit.append(kill_once(killed, epoch, draw.uniform(0, 1.2 * each)))
        run(killed)
        last = f"checkpoints/epoch_{EPOCHS:04d}.pt"
        states = [torch.load(folder / last, weights_only=True) for folder in (whole, killed)]
    differing = differences(*states)
    verdict = f"DIFFER: {', '.join(differing[:5])}" if differing else "equal to the bit"
    epochs = sorted({int(words.rsplit(" ", 1)[1]) for words in hit if words})
    doing = Counter(words.split(" after ")[0] for words in hit if words)
    return [
        *phases,
        f"{sum(map(bool, hit))} of {count} kills hit a running process, seed {seed}",
        f"epochs that were done then: {', '.join(map(str, epochs))}",
        f"what it was doing: {', '.join(f'{name} {times}' for name, times in doing.items())}",
        f"weights, optimiser, averages, generators and position at the end: {verdict}",
    ]


def main() -> int:
    """Print what was found; return 1 where the ends differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    told = kills(asked.kills, asked.seed)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n".join([*told, f"{used.ru_utime + used.ru_stime:.0f} s of processor time"]))
    return int("DIFFER" in told[-1])


if __name__ == "__main__":
    sys.exit(main())
