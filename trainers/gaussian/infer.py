"""Turn an image into 3D Gaussians: .ply, the Fresnel project's .bin, and a PNG.

    python trainers/gaussian/infer.py --checkpoint run/checkpoints/best.pt --image cat.jpg \\
        --features_model models/dinov2_small.onnx --depth_model models/depth_anything_v2_small.onnx

The first word on stdout is the number of Gaussians.
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
import math

import torch

from trainers.common.device_flags import add_device_flags, use_device
from trainers.common.devices import describe_device
from trainers.common.files import write_whole
from trainers.common.loading import to_device
from trainers.common.main_program import run_main
from trainers.common.report import EventLog, run_directory
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    check_kept,
    number_between,
    output_folder,
    whole_number,
)
from trainers.gaussian.contact_sheet import to_image
from trainers.gaussian.features import POLARITIES
from trainers.gaussian.gaussian_files import write_bin, write_ply
from trainers.gaussian.geometry import seen_from
from trainers.gaussian.networks import agreed_polarity
from trainers.gaussian.projection import Camera
from trainers.gaussian.render import BACKENDS, choose_drawer, render
from trainers.gaussian.trained import Sources, describe, load_trained


def make_parser() -> SettingsParser:
    """Return the parser."""
    parser = SettingsParser(
        "Turn an image into 3D Gaussians.",
        "python trainers/gaussian/infer.py --checkpoint best.pt --image cat.jpg --features"
        " cat_dinov2.bin\npython trainers/gaussian/infer.py --checkpoint best.pt --image cat.jpg"
        " --azimuth 20 --elevation 10",
    )
    add = parser.add_argument
    # fmt: off
    add("--checkpoint", type=Path, required=True,
        help="of this trainer or of the Fresnel project's")
    add("--image", type=Path, required=True, help="the photograph")
    add("--output_dir", type=output_folder, default=Path(),
        help="where STEM.ply, STEM.bin and STEM.png go")
    # fmt: on
    _add_source_flags(parser)
    _add_view_flags(parser)
    add_device_flags(parser, "one photograph is read, there is nothing to share out")
    return parser


def _add_source_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("features and depth").add_argument
    # fmt: off
    add("--features", type=Path, metavar="FILE",
        help="its features; else --features_model or features/ beside it")
    add("--depth", type=Path, metavar="FILE",
        help="its depth; else --depth_model or features/ beside it")
    add("--features_model", type=Path, metavar="FILE|FOLDER",
        help="DINOv2 as .onnx or transformers folder")
    add("--depth_model", type=Path, metavar="FILE|FOLDER", help="Depth Anything, the same")
    add("--depth_polarity", choices=POLARITIES,
        help="what --depth and --depth_model give; without it: what a transformers folder says of"
        " itself, else disparity (larger is nearer)")
    # fmt: on


def _add_view_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("picture").add_argument
    # fmt: off
    add("--size", type=whole_number(16, 4096),
        help="side of the PNG in pixels; without it: as trained")
    add("--elevation", type=number_between(-90, 90, closed=True), default=0.0,
        help="of the view, in degrees")
    add("--azimuth", type=number_between(-360, 360, closed=True), default=0.0,
        help="of the view, in degrees")
    add("--blur", type=number_between(0, 100),
        help="variance in px² added to every Gaussian; else as trained")
    add("--renderer", choices=BACKENDS, default="auto", help="what draws the PNG")
    # fmt: on


@torch.no_grad()
def infer(settings: argparse.Namespace) -> int:
    """Write the three files and return the exit code."""
    if not settings.image.is_file():
        raise SettingsError(f"--image: there is no file {settings.image}")
    folder, stem = settings.output_dir, settings.image.stem
    written = [folder / f"{stem}.{suffix}" for suffix in ("bin", "ply", "png")]
    check_kept((settings.image, settings.features, settings.depth, settings.checkpoint), written)
    device, _ = use_device(settings)
    trained = load_trained(settings.checkpoint)
    sources = Sources(
        settings.features,
        settings.depth,
        settings.features_model,
        settings.depth_model,
        agreed_polarity(settings.depth_polarity, None if settings.depth else settings.depth_model),
    )
    batch = to_device(describe(settings.image, trained, sources, device), device)
    view = [math.radians(settings.elevation), math.radians(settings.azimuth)]
    pose = torch.tensor([view], device=device)
    asked = {"pose": pose} if trained.decoder.settings.pose_encoding else {}
    gaussians = trained.decoder.to(device)(batch["features"], batch.get("disparity"), **asked)
    size = settings.size or trained.image_size
    camera = Camera(size, settings.blur or trained.blur)
    draw = choose_drawer(settings.renderer, device)
    drawn = render(seen_from(gaussians, pose), camera, draw)
    picture = to_image(drawn.image[0].clamp(0, 1))
    number = write_bin(written[0], gaussians)
    write_ply(written[1], gaussians)
    write_whole(written[2], lambda file: picture.save(file, format="PNG"))
    print(
        f"{number} Gaussians of {settings.image.name} by {settings.checkpoint} ({trained.writer})"
        f" on {describe_device(device)}"
    )
    if "disparity" not in batch:
        print("no depth was given: all Gaussians lie on one plane")
    for path in written:
        print(f"written      {path}")
    events = EventLog(run_directory())
    caption = f"{number} Gaussians of {settings.image.name}"
    events.emit("image", path=written[2].absolute(), caption=caption)
    events.close()
    if camera.blur < 0.1:
        print(
            f"note         viewers blur by 0.3 px², here {camera.blur:g}: they show it a little"
            " softer"
        )
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, or 2 for a setting that cannot be, 1 where it failed."""
    return run_main(infer, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
