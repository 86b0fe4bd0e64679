"""Make a folder to train on from scenes whose cameras are known: pictures and cameras.json.

    python trainers/gaussian/prepare_scenes.py --scenes realestate10k/train --output_dir pairs
    python trainers/gaussian/preprocess_training_data.py --data_dir pairs
    python trainers/gaussian/train.py --data_dir pairs --pair_gap 10

Every picture is cut and scaled to the decoder's own camera, a square of 64 degrees about the
principal point; beyond a picture its edges are repeated, and cameras.json says how much is known.
RealEstate10K's films are not downloaded: the pictures have to be there.
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
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags
from trainers.common.files import write_text_whole, write_whole
from trainers.common.making import each_made, make_data
from trainers.common.reading import read_picture
from trainers.common.settings_parser import (
    SettingsParser,
    number_between,
    output_folder,
    whole_number,
)
from trainers.common.stopping import StopRequest
from trainers.gaussian.pairs import CAMERAS
from trainers.gaussian.projection import FOCAL_LENGTH
from trainers.gaussian.scenes import View, read_scenes


def make_parser() -> SettingsParser:
    """Return the parser."""
    parser = SettingsParser(
        "Make pictures and cameras.json from RealEstate10K's clips or COLMAP's folders.",
        "python trainers/gaussian/prepare_scenes.py --scenes realestate10k/train --output_dir"
        " pairs\npython trainers/gaussian/prepare_scenes.py --scenes garden --every 2",
    )
    add = parser.add_argument
    # fmt: off
    add("--scenes", type=Path, required=True, help="a COLMAP folder, folders of these, or clips")
    add("--output_dir", type=output_folder, default=Path("pairs"), help="where the pictures go")
    add("--every", type=whole_number(1), default=1, help="take every so many-th view of a scene")
    add("--side", type=whole_number(16, 4096), default=518, help="of the pictures, in pixels")
    add("--scene_scale", type=number_between(0, 1e6), default=1.0,
        help="units of the decoder's world, whose depths are 2 to 4, that one of the scenes is;"
        " COLMAP's points3D are brought to its middle first")
    # fmt: on
    add_device_flags(
        parser, cpu_only="Pillow cuts the pictures, on one thread of each of --workers"
    )
    return parser


def framed(view: View, side: int) -> tuple[Image.Image, list[float]]:
    """Return a view through the decoder's camera, and which share of width and height is known.

    The share is that of the largest part about the middle.
    """
    # Cameras are of the picture as it is stored: COLMAP looks at no EXIF data.
    picture = read_picture(view.picture, turned=False)
    known, box = [], []
    for size, focal, middle in zip(picture.size, view.lens[:2], view.lens[2:], strict=True):
        reach = 0.5 * focal * size / FOCAL_LENGTH
        box.append((middle * size - reach, middle * size + reach))
        known.append(min(1.0, min(middle, 1 - middle) * size / reach))
    (left, right), (top, bottom) = box
    # What is resized must lie within; edges that are repeated leave no trace of black inside.
    edges = (max(0, -left), max(0, -top), max(0, right - picture.width))
    border = int(max(*edges, bottom - picture.height)) + 1
    around = ((border, border), (border, border), (0, 0))
    wide = Image.fromarray(np.pad(np.asarray(picture), around, mode="edge"))
    area = (left + border, top + border, right + border, bottom + border)
    return wide.resize((side, side), Image.Resampling.LANCZOS, box=area), known


def stem_of(view: View) -> str:
    """Return the name of a view's picture without its ending."""
    return f"{view.scene}-{view.place:05d}"


def cut_picture(folder: Path, side: int, view: View) -> list[float]:
    """Write a view's picture and return which share of its width and height is known."""
    picture, known = framed(view, side)
    path = folder / f"{stem_of(view)}.png"
    write_whole(path, lambda file: picture.save(file, format="PNG"))
    return known


def prepare(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Write pictures and cameras and return the exit code."""
    print(f"reading      {settings.scenes}")
    views = [view for view in read_scenes(settings.scenes) if view.place % settings.every == 0]
    scenes = {view.scene for view in views}
    print(f"found        {len(views)} views of {len(scenes)} scenes")
    cameras: dict[str, Any] = {}
    cut = partial(cut_picture, settings.output_dir, settings.side)
    known = each_made(cut, views, settings.workers, stop.watched)
    for view, share in bar(known, "cutting pictures", len(views)):
        cameras[stem_of(view)] = {
            "scene": view.scene,
            "place": view.place // settings.every,
            "rotation": view.rotation.tolist(),
            "translation": (view.translation * settings.scene_scale).tolist(),
            "known": share(),
        }
    write_text_whole(settings.output_dir / CAMERAS, json.dumps(cameras, indent=1) + "\n")
    print(f"written      {settings.output_dir / CAMERAS}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, or what make_data says."""
    return make_data(partial(prepare, make_parser().read(arguments)))


if __name__ == "__main__":
    sys.exit(main())
