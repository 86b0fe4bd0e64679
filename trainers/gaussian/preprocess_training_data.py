"""Make features and depth for a folder of photographs, once, before training.

    python trainers/gaussian/preprocess_training_data.py --data_dir images/training
    python trainers/gaussian/preprocess_training_data.py --dinov2_size base

Writes `features/{stem}_dinov2.bin` (`_dinov2_base.bin`, `_dinov2_large.bin`),
`features/{stem}_depth.bin` and `features/depth_polarity.json`. Files that are there and of the
right size are left alone, so that it can be stopped and started again.
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
from typing import NamedTuple

import numpy as np
from torch.utils.data import Dataset

from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags, use_device
from trainers.common.devices import describe_device
from trainers.common.files import remove_drafts, write_text_whole, write_whole
from trainers.common.loading import make_loader
from trainers.common.making import make_data
from trainers.common.reading import PictureError, read_picture
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    output_folder,
    whole_number,
)
from trainers.common.stopping import StopRequest
from trainers.gaussian.features import (
    DEPTH_SUFFIX,
    FEATURE_SUFFIXES,
    POLARITIES,
    POLARITY_NAME,
    SIZES,
    feature_bytes,
    read_polarity,
)
from trainers.gaussian.files_of_photographs import KINDS, photograph_files
from trainers.gaussian.networks import (
    Array,
    Network,
    agreed_polarity,
    depth_image,
    load_network,
    patch_features,
    to_input,
)

DIMS = {size: dim for dim, size in SIZES.items()}


def make_parser() -> SettingsParser:
    """Return the parser: upstream's flags, and ours for the networks' files."""
    parser = SettingsParser(
        "Make DINOv2 features and depth for a folder of photographs.",
        "python trainers/gaussian/preprocess_training_data.py --data_dir images/training\npython"
        " trainers/gaussian/preprocess_training_data.py --dinov2_size base --features_model"
        " ~/dinov2-base",
    )
    add = parser.add_argument
    # fmt: off
    add("--config", type=Path, metavar="FILE",
        help="YAML or JSON file of settings; flags win over it")
    add("--data_dir", type=Path, default=Path("images/training"),
        help="folder of images, not searched deeper")
    add("--output_dir", type=output_folder,
        help="where the files go; without it: features/ in the data folder")
    add("--overwrite", action="store_true", help="make files anew that are there")
    # fmt: on
    _add_network_flags(parser)
    add_device_flags(parser)
    _refuse_the_rest(parser)
    return parser


def _add_network_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("networks").add_argument
    # fmt: off
    add("--dinov2_size", choices=sorted(DIMS), default="small", help="384, 768 or 1024 channels")
    add("--features_model", type=Path, metavar="FILE|FOLDER",
        help="the .onnx file or transformers folder; without it: models/dinov2_SIZE.onnx")
    add("--depth_model", type=Path, default=Path("models/depth_anything_v2_small.onnx"),
        metavar="FILE|FOLDER", help="the same for depth")
    add("--depth", action=argparse.BooleanOptionalAction, default=True, help="make depth files too")
    add("--depth_size", type=whole_number(8, 2048), default=256,
        help="side of the depth files, in pixels")
    add("--depth_polarity", choices=POLARITIES,
        help="what the depth network answers; without it: what a transformers folder says of"
        " itself, else disparity (larger is nearer), as Depth Anything")
    # fmt: on


def _refuse_the_rest(parser: SettingsParser) -> None:
    parser.refuse("--remove_background",
        reason="upstream cleans only what the features see and trains on the raw image, so that"
        " both disagree; remove backgrounds in the images themselves")  # fmt: skip
    parser.refuse("--use_vlm", "--vlm_url", "--vlm_grid_size",
        reason="no language model is asked here; put your own features/STEM_vlm_density.npy there"
        " and train with --use_vlm_guidance")  # fmt: skip
    parser.refuse("--model_size", reason="it is called --dinov2_size")


def whole(path: Path, size: int) -> bool:
    """Return whether a file is there with so many bytes."""
    return path.is_file() and path.stat().st_size == size


def write_floats(path: Path, values: Array) -> None:
    """Write little-endian float32 without a header. Raises SettingsError where a number is not
    finite.
    """
    if not np.isfinite(values).all():
        raise SettingsError(f"the network's answer for {path.name} is not finite")
    written = np.ascontiguousarray(values, dtype="<f4").tobytes()
    write_whole(path, lambda file: file.write(written))


def state_polarity(folder: Path, settings: argparse.Namespace) -> None:
    """Write what the depth files hold. Raises SettingsError where files of the other kind are
    there.
    """
    path = folder / POLARITY_NAME
    stated = {"polarity": settings.depth_polarity, "source": str(settings.depth_model)}
    if path.is_file() and not settings.overwrite:
        before = read_polarity(folder)
        if before != settings.depth_polarity:
            raise SettingsError(
                f"{path} says {before}, --depth_polarity says {settings.depth_polarity}: add"
                " --overwrite to make all depth files anew"
            )
    write_text_whole(path, json.dumps(stated, indent=2) + "\n")


class Wanted(NamedTuple):
    """An image, and the files that are to be made of it; None: there already."""

    image: Path
    features: Path | None
    depth: Path | None


def wanted(path: Path, folder: Path, settings: argparse.Namespace) -> Wanted:
    """Return what is missing of an image in the folder, or all of it with --overwrite."""
    dim = DIMS[settings.dinov2_size]
    features = folder / f"{path.stem}{FEATURE_SUFFIXES[dim]}"
    depth = folder / f"{path.stem}{DEPTH_SUFFIX}"
    present = not settings.overwrite and whole(features, feature_bytes(dim))
    depth_present = not settings.overwrite and whole(depth, settings.depth_size**2 * 4)
    needs_depth = settings.depth and not depth_present
    return Wanted(path, None if present else features, depth if needs_depth else None)


class Pictures(Dataset[tuple[Array | None, str]]):
    """Gives each image as networks take it, or None and why it cannot be read."""

    def __init__(self, images: list[Path]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Array | None, str]:
        try:
            return to_input(read_picture(self.images[index])), ""
        except PictureError as problem:
            return None, str(problem)


def process(
    pixels: Array,
    item: Wanted,
    settings: argparse.Namespace,
    features: Network,
    depth: Network | None,
) -> None:
    """Make what is missing of one image from its pixels (1,3,518,518)."""
    if item.features is not None:
        dim = DIMS[settings.dinov2_size]
        found = patch_features(features, pixels, "the features' network")
        if found.shape[-1] != dim:
            fitting = SIZES.get(found.shape[-1])
            hint = f"; it is --dinov2_size {fitting}" if fitting else ""
            raise SettingsError(
                f"the features' network answers {found.shape[-1]} channels, not {dim}{hint}"
            )
        write_floats(item.features, found)
    if item.depth is not None and depth is not None:
        made = depth_image(depth, pixels, settings.depth_size, "the depth network")
        write_floats(item.depth, made)


def first(items: list[tuple[Array | None, str]]) -> tuple[Array | None, str]:
    """Return a batch's only item."""
    return items[0]


def preprocess(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Make all missing files and return the exit code: 1 where an image could not be read."""
    images = photograph_files(settings.data_dir)
    if not images:
        raise SettingsError(f"{settings.data_dir} holds no images ({KINDS})")
    folder = settings.output_dir or settings.data_dir / "features"
    path = settings.features_model or Path(f"models/dinov2_{settings.dinov2_size}.onnx")
    print(f"found        {len(images)} images in {settings.data_dir}")
    device, reason = use_device(settings)
    print(f"device       {describe_device(device)} ({reason})")
    features = load_network(path, "--features_model", "last_hidden_state", device)
    depth = (
        load_network(settings.depth_model, "--depth_model", "predicted_depth", device)
        if settings.depth
        else None
    )
    settings.depth_polarity = agreed_polarity(settings.depth_polarity, settings.depth_model)
    folder.mkdir(parents=True, exist_ok=True)
    remove_drafts(folder)
    if depth is not None:
        state_polarity(folder, settings)
    missing = [wanted(image, folder, settings) for image in images]
    missing = [item for item in missing if item.features or item.depth]
    pictures = Pictures([item.image for item in missing])
    places = [[place] for place in range(len(missing))]
    loader = make_loader(pictures, places, device, settings.workers, collate=first)
    unreadable = []
    shown = bar(stop.watched(loader), "preprocessing", len(missing))
    for item, (pixels, problem) in zip(missing, shown, strict=True):
        if pixels is None:
            unreadable.append(problem)
        else:
            process(pixels, item, settings, features, depth)
    made, earlier = len(missing) - len(unreadable), len(images) - len(missing)
    print(f"made         {made} images, {earlier} were there already")
    print(f"features     {folder}")
    if unreadable:
        print(
            f"error: {len(unreadable)} images cannot be read: {'; '.join(unreadable[:5])}",
            file=sys.stderr,
        )
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, 1 where images could not be read, or what make_data says."""
    return make_data(partial(preprocess, make_parser().read(arguments)))


if __name__ == "__main__":
    sys.exit(main())
