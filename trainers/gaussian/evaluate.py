"""Judge a checkpoint on a folder: PSNR, SSIM, LPIPS where its weights are, and a contact sheet.

    python trainers/gaussian/evaluate.py --checkpoint checkpoints/best.pt --data_dir images/training

Only the photographs that training holds out are judged, as the same --held_out and --max_images
choose them; --all judges every one.
"""

# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import json

import torch
from torch import Tensor

from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags, use_device
from trainers.common.devices import describe_device
from trainers.common.files import write_text_whole
from trainers.common.loading import make_loader, to_device
from trainers.common.main_program import run_main
from trainers.common.precision import in_groups
from trainers.common.report import EventLog, run_directory
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    number_between,
    output_folder,
    whole_number,
)
from trainers.gaussian.announcement import unseen_line
from trainers.gaussian.contact_sheet import write_contact_sheet
from trainers.gaussian.evaluation import MOST_SHOWN, NAMES, judge_batch, seen_by_all, shown_of
from trainers.gaussian.perceptual import find_lpips
from trainers.gaussian.photographs import PhotographSet, collect
from trainers.gaussian.projection import Camera
from trainers.gaussian.render import BACKENDS, choose_drawer
from trainers.gaussian.trained import load_trained


def make_parser() -> SettingsParser:
    """Return the parser."""
    parser = SettingsParser(
        "Judge a checkpoint on photographs.",
        "python trainers/gaussian/evaluate.py --checkpoint best.pt --data_dir images/training",
    )
    add = parser.add_argument
    # fmt: off
    add("--checkpoint", type=Path, required=True,
        help="of this trainer or of the Fresnel project's")
    add("--data_dir", type=Path,
        help="folder of images and features/; without it: built-in photographs")
    add("--output_dir", type=output_folder, default=Path("evaluation"),
        help="where the figures and the picture go")
    add("--all", action="store_true", help="judge all photographs, those trained on too")
    add("--max_images", type=whole_number(1), help="as in training")
    add("--pair_gap", type=whole_number(0), default=0, help="judge unseen views, as in training")
    add("--held_out", type=number_between(0, 1), default=0.2, help="as in training")
    add("--image_size", type=whole_number(16, 4096), help="in pixels; without it: as trained")
    add("--batch_size", type=whole_number(1), default=4, help="images at once")
    add("--blur", type=number_between(0, 100),
        help="variance in px² added to every Gaussian; else as trained")
    add("--lpips_dir", type=Path, help="folder of alexnet-owt-7be5be79.pth and lpips' alex.pth")
    add("--renderer", choices=BACKENDS, default="auto", help="what draws")
    # fmt: on
    add_device_flags(parser)
    return parser


@torch.no_grad()
def evaluate_folder(settings: argparse.Namespace) -> int:
    """Print and write the figures and return the exit code."""
    trained = load_trained(settings.checkpoint)
    device, reason = use_device(settings)
    decoder = trained.decoder.to(device)
    width = decoder.settings.feature_dim
    found = collect(
        settings.data_dir,
        trained.feature_kind,
        width,
        settings.max_images,
        settings.held_out,
        pair_gap=settings.pair_gap,
    )
    if decoder.settings.depth_fusion and not found.has_depth:
        raise SettingsError("this decoder is told depth, and the folder has no depth files")
    chosen = (*found.held_out, *found.training) if settings.all else found.held_out
    size = settings.image_size or trained.image_size
    camera = seen_by_all(found, Camera(size, settings.blur or trained.blur))
    draw = choose_drawer(settings.renderer, device)
    photographs = PhotographSet(chosen, found, size)
    lpips, reason_off = find_lpips(settings.lpips_dir)
    if settings.lpips_dir and lpips is None:
        raise SettingsError(f"--lpips_dir: {reason_off}")
    lpips = lpips.to(device) if lpips else None
    print(
        f"found        {len(chosen)} photographs, {size} px, {decoder.gaussians:,} Gaussians each"
    )
    print(f"device       {describe_device(device)} ({reason})")
    print(f"checkpoint   {settings.checkpoint} ({trained.writer})")
    if lpips is None:
        print(f"lpips        off: {reason_off}")
    batches = list(in_groups(range(len(chosen)), settings.batch_size))
    rows: list[dict[str, float | str]] = []
    shown: list[tuple[Tensor, Tensor, str, float]] = []
    loader = make_loader(photographs, batches, device, settings.workers)
    for loaded in bar(loader, "judging", len(batches)):
        batch = to_device(loaded, device)
        judged = judge_batch(decoder, batch, camera, draw, lpips=lpips)
        for place, name in enumerate(batch["name"]):
            figures = {key: float(value[place]) for key, value in judged.figures.items()}
            rows.append({"name": name, **figures})
        shown += shown_of(judged, batch["name"])
    means = report(rows, settings, camera)
    images, renders, names, marks = zip(*shown[:MOST_SHOWN], strict=True)
    sheet = settings.output_dir / "contact_sheet.png"
    title = f"{settings.checkpoint.name} on {len(chosen)} photographs at {size} px"
    write_contact_sheet(sheet, torch.stack(images), torch.stack(renders), names, marks, title)
    print(f"written      {settings.output_dir / 'figures.json'}, {sheet}")
    events = EventLog(run_directory())
    events.emit("image", path=sheet.absolute(), caption=title)
    events.emit("summary", values=means)
    events.close()
    return 0


def report(
    rows: list[dict[str, float | str]], settings: argparse.Namespace, camera: Camera
) -> dict[str, float]:
    """Print the means beside the baseline's, write figures.json, and return the means."""
    keys = [key for key in rows[0] if key != "name"]
    means = {key: sum(float(row[key]) for row in rows) / len(rows) for key in keys}
    lpips = "" if "held_out_lpips" not in means else f", LPIPS {means['held_out_lpips']:.4f}"
    print(f"result       PSNR {means[NAMES[0]]:.2f} dB, SSIM {means[NAMES[1]]:.4f}{lpips}")
    if "unseen_psnr" in means:
        print(unseen_line(means))
    print(f"mean colour  PSNR {means[NAMES[2]]:.2f} dB, SSIM {means[NAMES[3]]:.4f}")
    if means[NAMES[0]] <= means[NAMES[2]]:
        print("warning: the model is no better than each image's mean colour", file=sys.stderr)
    written = {
        "checkpoint": str(settings.checkpoint),
        "range": [0, 1],
        "image_size": camera.size,
        "blur": camera.blur,
        "means": means,
        "photographs": rows,
    }
    write_text_whole(settings.output_dir / "figures.json", json.dumps(written, indent=2) + "\n")
    return means


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, or 2 for a setting that cannot be, 1 where it failed."""
    return run_main(evaluate_folder, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
