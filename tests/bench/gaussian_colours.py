"""Colours of held-out photographs as they were drawn and as they are, at equal processor time.

    python tests/bench/gaussian_colours.py --epochs 20 --seeds 3 --sheet colours.png

Each side is trained on the shipped photographs at 64 px, three seeds in turns, on one thread; the
side that is slower gets fewer epochs where --before says so. Beside PSNR and SSIM stands, for
pixels (means of 4 x 4) of each range of colourfulness (greatest minus least channel), how far the
colours without their grey are off and how strongly they are drawn along themselves.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

import torch  # noqa: E402
from gaussian_hfts import trained  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from trainers.common.preview import write_preview  # noqa: E402
from trainers.gaussian.evaluation import judge_batch  # noqa: E402
from trainers.gaussian.photographs import PhotographSet, collect  # noqa: E402
from trainers.gaussian.projection import Camera  # noqa: E402
from trainers.gaussian.render import choose_drawer  # noqa: E402
from trainers.gaussian.trained import load_trained  # noqa: E402

SIZE = 64
SIDES = {
    "before": ("--geometry", "patch-sigmoid", "--dropout", "0.1"),
    "now": (),
}
RANGES = ((0.0, 0.15), (0.15, 0.3), (0.3, 0.45), (0.45, 1.0))


def drawn_by(folder: Path) -> tuple[Tensor, Tensor]:
    """Return held-out photographs (N,3,S,S) and what a run's last weights draw of them."""
    found = trained_decoder(folder)
    collection = collect(None, "patch", None, None, 0.2)
    photographs = PhotographSet(collection.held_out, collection, SIZE)
    draw, camera = choose_drawer("auto", torch.device("cpu")), Camera(SIZE, found.blur)
    items = [photographs[place] for place in range(len(photographs))]
    batch = {name: torch.stack([item[name] for item in items]) for name in ("image", "features")}
    return batch["image"], judge_batch(found.decoder, batch, camera, draw).renders


def trained_decoder(folder: Path):
    """Return the decoder that a run's folder exported."""
    return load_trained(folder / "gaussian_decoder_exp2.safetensors")


def colours(images: Tensor, drawn: Tensor) -> list[tuple[float, float]]:
    """Return for each range how far colours are off, and their gain."""
    wanted, found = (F.avg_pool2d(part, 4) for part in (images, drawn))
    strength = (wanted.amax(1) - wanted.amin(1)).flatten()
    bare = [(part - part.mean(1, keepdim=True)).transpose(0, 1).flatten(1) for part in
            (wanted, found)]  # fmt: skip
    rows = []
    for low, high in RANGES:
        inside = (strength >= low) & (strength < high)
        one, other = (part[:, inside] for part in bare)
        off = (one - other).norm(dim=0).mean()
        rows.append((float(off), float((one * other).sum() / one.square().sum())))
    return rows


def main() -> int:
    """Print the table, and write the pictures where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--before", type=int, help="epochs of the side before; else the same")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sheet", type=Path)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, 1 thread, load {os.getloadavg()[0]:.1f} at the start")
    found: dict[str, list[list[float]]] = {name: [] for name in SIDES}
    rows: dict[str, Tensor] = {}
    for seed in range(asked.seeds):
        for name, words in SIDES.items():
            epochs = (asked.before if name == "before" else None) or asked.epochs
            size = ("--image_size", str(SIZE), "--epochs", str(epochs), "--seed", str(seed))
            with tempfile.TemporaryDirectory() as folder:
                spent, psnr, ssim, _ = trained(*size, "--fast_mode", *words, kept_in=Path(folder))
                images, drawn = drawn_by(Path(folder))
            rows |= {"photograph": images, name: drawn}
            by_range = [value for pair in colours(images, drawn) for value in pair]
            found[name].append([spent, psnr, ssim, *by_range])
            print(seed, name, [round(value, 3) for value in found[name][-1]], flush=True)
    heads = " | ".join(f"{low:g} to {high:g}" for low, high in RANGES)
    print(f"| | processor time | PSNR | SSIM | {heads} |\n" + "| --- " * (4 + len(RANGES)) + "|")
    for name, runs in found.items():
        spent, psnr, ssim, *rest = zip(*runs, strict=True)
        cells = [f"{statistics.mean(off):.3f}, {statistics.mean(gain):.2f}"
                 for off, gain in zip(rest[::2], rest[1::2], strict=True)]  # fmt: skip
        cells = [f"{statistics.mean(part):.4g} ({min(part):.4g}-{max(part):.4g})"
                 for part in (spent, psnr, ssim)] + cells  # fmt: skip
        print(f"| {name} | {' | '.join(cells)} |")
    if asked.sheet:
        write_preview(asked.sheet, rows, "held-out photographs, last seed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
