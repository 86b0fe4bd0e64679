"""What the decoder is given of an image: DINOv2 features, or descriptors of its pixels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from shlex import quote

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trainers.common.files import DAMAGED
from trainers.common.reading import check_finite
from trainers.common.settings_parser import SettingsError
from trainers.gaussian.geometry import GRID

FEATURE_SUFFIXES = {384: "_dinov2.bin", 768: "_dinov2_base.bin", 1024: "_dinov2_large.bin"}
"""File endings of the Fresnel project for DINOv2 small, base and large."""
SIZES = {384: "small", 768: "base", 1024: "large"}
DEPTH_SUFFIX = "_depth.bin"
DENSITY_SUFFIX = "_vlm_density.npy"
POLARITY_NAME = "depth_polarity.json"
POLARITIES = ("disparity", "distance")
"""`disparity`: 1 is nearest, what Depth Anything writes; `distance`: 1 is farthest."""
PATCH_FEATURE_DIM = 384
PIXELS_PER_PATCH = 4


def feature_bytes(feature_dim: int) -> int:
    """Return the size of a feature file: 37*37*C little-endian float32 without a header."""
    return GRID * GRID * feature_dim * 4


def found_feature_dim(folder: Path, stems: list[str]) -> int:
    """Return the feature size with files for the most stems, the larger of equals; else 384."""
    counts = {
        dim: sum((folder / f"{stem}{suffix}").is_file() for stem in stems)
        for dim, suffix in FEATURE_SUFFIXES.items()
    }
    return max(counts, key=lambda dim: (counts[dim], dim if counts[dim] else -dim))


def check_feature_files(folder: Path, stems: list[str], feature_dim: int) -> None:
    """Raise SettingsError unless every stem has a feature file of feature_dim's size."""
    paths = [folder / f"{stem}{FEATURE_SUFFIXES[feature_dim]}" for stem in stems]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise SettingsError(
            f"{len(missing)} of {len(paths)} feature files are missing in {folder}:"
            f" {first_names(missing)} (make them with: python"
            f" trainers/gaussian/preprocess_training_data.py --data_dir {quote(str(folder.parent))}"
            f" --dinov2_size {SIZES[feature_dim]}; or train on pixel descriptors with --features"
            " patch)"
        )
    expected = feature_bytes(feature_dim)
    for path in paths:
        found = path.stat().st_size
        if found != expected:
            fitting = [str(dim) for dim in FEATURE_SUFFIXES if feature_bytes(dim) == found]
            hint = f"; this size fits --feature_dim {fitting[0]}" if fitting else ""
            raise SettingsError(
                f"{path} has {found:,} bytes, expected {expected:,}"
                f" (37 x 37 x {feature_dim} float32 without a header){hint}"
            )


def check_density_files(folder: Path, stems: list[str]) -> None:
    """Raise SettingsError unless every stem has a file of a language model's weights."""
    missing = [path for stem in stems if not (path := folder / f"{stem}{DENSITY_SUFFIX}").is_file()]
    if missing:
        raise SettingsError(
            f"--use_vlm_guidance: {len(missing)} of {len(stems)} files are missing in {folder}:"
            f" {first_names(missing)}"
        )


def find_depth_files(folder: Path, stems: list[str]) -> bool:
    """Return whether every stem has a depth file and False where none has.

    Raises SettingsError where only some have one, or where one is not a square of float32.
    """
    paths = [folder / f"{stem}{DEPTH_SUFFIX}" for stem in stems]
    missing = [path for path in paths if not path.is_file()]
    if len(missing) == len(paths):
        return False
    if missing:
        raise SettingsError(
            f"{len(missing)} of {len(paths)} depth files are missing in {folder}:"
            f" {first_names(missing)} (depth is used for all images or for none)"
        )
    for path in paths:
        depth_side(path)
    return True


def depth_side(path: Path) -> int:
    """Return the pixels a side of a depth file. Raises SettingsError where it is no square."""
    found = path.stat().st_size
    side = math.isqrt(found // 4)
    if side == 0 or side * side * 4 != found:
        raise SettingsError(
            f"{path} has {found:,} bytes, expected side x side float32, such as 262,144 for 256"
        )
    return side


def read_polarity(folder: Path) -> str:
    """Return what a folder's depth files hold; `disparity` where no sidecar says so.

    Raises SettingsError where the sidecar cannot be read or names something else.
    """
    path = folder / POLARITY_NAME
    if not path.is_file():
        return POLARITIES[0]
    try:
        polarity = json.loads(path.read_text(encoding="utf-8"))["polarity"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SettingsError(
            f"{path} cannot be read ({problem}); delete it if depth is disparity"
        ) from problem
    if polarity not in POLARITIES:
        raise SettingsError(f"{path}: polarity {polarity!r} is neither {' nor '.join(POLARITIES)}")
    return str(polarity)


def first_names(paths: list[Path]) -> str:
    """Return the names of the first three paths, and whether there are more."""
    return ", ".join(path.name for path in paths[:3]) + (", ..." if len(paths) > 3 else "")


def read_features(path: Path, feature_dim: int) -> Tensor:
    """Read a file of rows, columns and channels, row 0 at the top of the image, as (C,37,37).

    Raises SettingsError naming the file where it holds a number that is not finite, or nothing but
    zeros.
    """
    values = np.fromfile(path, dtype="<f4").reshape(GRID, GRID, feature_dim)
    check_finite(values, path)
    if not values.any():
        raise SettingsError(f"{path} holds nothing but zeros")
    return torch.from_numpy(values.astype(np.float32)).permute(2, 0, 1).contiguous()


def read_disparity(path: Path, polarity: str = "disparity") -> Tensor:
    """Read a depth file as disparity (1,side,side) in [0,1], 1 nearest.

    Raises SettingsError naming the file where a number is not finite, or it is no square.
    """
    side = depth_side(path)
    values = np.fromfile(path, dtype="<f4")
    check_finite(values, path)
    read = torch.from_numpy(values.astype(np.float32)).view(1, side, side).clamp(0, 1)
    return 1 - read if polarity == "distance" else read


def read_density(path: Path, size: int) -> Tensor:
    """Read where detail is worth most, (g,g) in [0,1], as weights (1,size,size) in [0.5,1.5].

    Raises SettingsError naming the file where it is no square of finite numbers.
    """
    try:
        grid = np.asarray(np.load(path, allow_pickle=False), dtype=np.float32)
    except DAMAGED as problem:
        raise SettingsError(
            f"{path} cannot be read as an array of numbers ({problem})"
        ) from problem
    if grid.ndim != 2 or grid.shape[0] != grid.shape[1] or not grid.size:
        raise SettingsError(f"{path} holds no square of numbers, but shape {grid.shape}")
    check_finite(grid, path)
    weights = torch.from_numpy(grid).clamp(0, 1)[None, None]
    return 0.5 + F.interpolate(weights, size=size, mode="bilinear", align_corners=True)[0]


def describe_patches(pixels: Tensor) -> Tensor:
    """Describe the patches of an image (3,148,148) in [0,1] by their pixels, as (384,37,37).

    192 numbers: the 8 x 8 pixels around each patch of 4 x 4, in colour · 147: the mean colours of
    the 7 x 7 patches around · 27: the mean colours of 3 x 3 blocks of 5 x 5 patches around · 18:
    the patch's column and row, each as itself and as sine and cosine at four octaves. A colour is
    its grey, its red against blue and its green against both, the last two enlarged because they
    vary less. Nothing is learned.
    """
    red, green, blue = pixels
    grey = (pixels.mean(0) - 0.5) / 0.25
    image = torch.stack((grey, (red - blue) / 0.25, (green - (red + blue) / 2) / 0.12)).unsqueeze(0)
    near = F.unfold(pad_edges(image, 2), kernel_size=8, stride=PIXELS_PER_PATCH).view(
        192, GRID, GRID
    )
    means = F.avg_pool2d(image, PIXELS_PER_PATCH)
    around = F.unfold(pad_edges(means, 3), kernel_size=7).view(147, GRID, GRID)
    blocks = F.avg_pool2d(pad_edges(means, 2), 5, stride=1)
    dilated = F.unfold(pad_edges(blocks, 5), kernel_size=3, dilation=5).view(27, GRID, GRID)
    places = (torch.arange(GRID, dtype=torch.float32) + 0.5) / GRID * 2 - 1
    row, column = torch.meshgrid(places, places, indexing="ij")
    waves = []
    for place in (column, row):
        for octave in range(4):
            angle = place * math.pi * 2.0**octave
            waves += [angle.sin(), angle.cos()]
    return torch.cat((near, around, dilated, torch.stack((column, row, *waves))))


def pad_edges(image: Tensor, width: int) -> Tensor:
    """Return the image with its border pixels repeated outwards."""
    return F.pad(image, (width, width, width, width), mode="replicate")
