"""Images to learn from: a folder, or crops of photographs that two packages ship."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset

from trainers.common.bar import bar
from trainers.common.kept_items import KeptItems, size_of
from trainers.common.reading import check_pictures, read_picture
from trainers.common.settings_parser import SettingsError
from trainers.common.stopping import Watched
from trainers.gaussian import features
from trainers.gaussian.files_of_photographs import KINDS, photograph_files
from trainers.gaussian.geometry import GRID
from trainers.gaussian.pairs import CAMERAS, Posed, motion, partners, read_cameras

CROPS_ACROSS, CROPS_DOWN = 3, 2
MANY = 50
"""Photographs whose files take long enough to be checked that a bar says how far it is."""
TRAINING_PHOTOGRAPHS = (
    "skimage/data/astronaut.png", "skimage/data/motorcycle_left.png", "skimage/data/rocket.jpg",
    "sklearn/datasets/images/flower.jpg", "skimage/data/hubble_deep_field.jpg",
    "skimage/data/ihc.png", "skimage/data/retina.jpg", "skimage/data/motorcycle_right.png",
)  # fmt: skip
HELD_OUT_PHOTOGRAPHS = (
    "skimage/data/coffee.png",
    "sklearn/datasets/images/china.jpg",
    "skimage/data/chelsea.png",
)
"""Shipped by scikit-image and scikit-learn, whose README.txt files name authors and licences. The
two motorcycle pictures show one scene, so both are for training."""


@dataclass(frozen=True)
class Photograph:
    """An image file, the square of it to use or None for all, and its name.

    The square is left, top, right, bottom.
    """

    path: Path
    name: str
    box: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Collection:
    """Photographs to learn from and others to judge by, and what is known about them.

    `unseen` is, by stem, the picture of another camera that its Gaussians are judged by too.
    """

    training: tuple[Photograph, ...]
    held_out: tuple[Photograph, ...]
    feature_dim: int
    feature_folder: Path | None
    has_depth: bool
    polarity: str = "disparity"
    has_density: bool = False
    cameras: Mapping[str, Posed] = field(default_factory=dict)
    unseen: Mapping[str, Path] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Return a digest of the names in their order: equal for equal splits."""
        names = [photograph.name for photograph in (*self.training, *self.held_out)]
        return hashlib.sha256("\n".join([*names, str(len(self.training))]).encode()).hexdigest()[
            :16
        ]


def collect(
    folder: Path | None,
    kind: str,
    feature_dim: int | None,
    max_images: int | None,
    held_out: float,
    density: bool = False,
    shown: bool = True,
    pair_gap: int = 0,
    watched: Watched = iter,
) -> Collection:
    """Choose photographs from a folder, or built-in ones for None, and check what they need.

    kind is `auto`, `dinov2` or `patch`; feature_dim None takes what the files are; max_images
    counts held-out ones too; held_out is their share; density asks for a language model's weights;
    shown: with a bar; pair_gap: how many places in its scene a picture's unseen view lies on, 0 for
    none; watched: yields what it is given, or raises StoppedError before the next file. Raises
    SettingsError naming what is missing or wrong.
    """
    if kind == "auto":
        kind = "dinov2" if folder else "patch"
    _refuse_unfit(folder, kind, feature_dim, density, pair_gap)
    if folder is None:
        if kind == "dinov2":
            raise SettingsError(
                "--features dinov2 needs --data_dir: the built-in photographs have no DINOv2"
                " features"
            )
        training, judging = built_in_crops(max_images, held_out)
        return Collection(training, judging, features.PATCH_FEATURE_DIM, None, False)
    cameras = read_cameras(folder)
    if pair_gap and not cameras:
        raise SettingsError(
            f"--pair_gap: there is no {folder / CAMERAS}: make it with prepare_scenes.py"
        )
    scenes = {stem: posed.scene for stem, posed in cameras.items()}
    training, judging = split_folder(folder, max_images, held_out, scenes, shown, watched)
    stems = [photograph.path.stem for photograph in (*training, *judging)]
    beside = folder / "features"
    if kind == "dinov2":
        feature_dim = feature_dim or features.found_feature_dim(beside, stems)
        features.check_feature_files(beside, stems, feature_dim)
    if density:
        features.check_density_files(beside, stems)
    has_depth = features.find_depth_files(beside, stems)
    polarity = features.read_polarity(beside)
    width = feature_dim or features.PATCH_FEATURE_DIM
    found = Collection(
        training, judging, width, beside if kind == "dinov2" else None, has_depth, polarity, density
    )
    if pair_gap:
        unseen = with_partners(found, cameras, pair_gap)
        found = replace(found, cameras=cameras, unseen=unseen)
    every = (*training, *judging)
    for photograph in bar(
        watched(every), "checking files", len(every), shown=shown and len(every) > MANY
    ):
        read_beside(photograph, found, 16)
    return found


def _refuse_unfit(
    folder: Path | None, kind: str, feature_dim: int | None, density: bool, pair_gap: int
) -> None:
    """Raise SettingsError for what needs a folder or other features, before any file is read."""
    if density and folder is None:
        raise SettingsError(
            "--use_vlm_guidance needs --data_dir: built-in photographs have no density files"
        )
    if (
        kind == "patch"
        and (feature_dim or features.PATCH_FEATURE_DIM) != features.PATCH_FEATURE_DIM
    ):
        raise SettingsError(
            f"--feature_dim {feature_dim}: pixel descriptors have {features.PATCH_FEATURE_DIM}"
        )
    if pair_gap and folder is None:
        raise SettingsError("--pair_gap needs --data_dir: a folder made by prepare_scenes.py")


def with_partners(
    collection: Collection, cameras: Mapping[str, Posed], gap: int
) -> dict[str, Path]:
    """Return every picture's unseen view, by stem, from its own side of the split."""
    unseen = {}
    for part in (collection.training, collection.held_out):
        paths = {photograph.name: photograph.path for photograph in part}
        chosen = partners(cameras, paths, gap)
        unseen |= {stem: paths[other] for stem, other in chosen.items()}
    return unseen


def read_beside(
    photograph: Photograph, collection: Collection, size: int, described: bool = False
) -> dict[str, Tensor]:
    """Return what the files beside a photograph say of it: `features`, `disparity`, `weights`.

    Shapes are those of PhotographSet; features are left out where it is `described` already. Raises
    SettingsError naming the file that is bad.
    """
    beside, stem = photograph.path.parent / "features", photograph.path.stem
    found = {}
    if collection.feature_folder is not None and not described:
        dim = collection.feature_dim
        path = beside / f"{stem}{features.FEATURE_SUFFIXES[dim]}"
        found["features"] = features.read_features(path, dim)
    if collection.has_depth:
        path = beside / f"{stem}{features.DEPTH_SUFFIX}"
        disparity = features.read_disparity(path, collection.polarity)[None]
        found["disparity"] = F.interpolate(disparity, size=size, mode="bilinear", antialias=True)[0]
    if collection.has_density:
        path = beside / f"{stem}{features.DENSITY_SUFFIX}"
        found["weights"] = features.read_density(path, size)
    return found


def split_folder(
    folder: Path,
    max_images: int | None,
    held_out: float,
    scenes: Mapping[str, str] | None = None,
    shown: bool = True,
    watched: Watched = iter,
) -> tuple[tuple[Photograph, ...], tuple[Photograph, ...]]:
    """Return a folder's training and held-out images, ordered by their names alone.

    Pictures of one of the `scenes`, by stem, stay together, so that none is on both sides.
    """
    paths = photograph_files(folder, shown)
    if len(paths) < 2:
        raise SettingsError(f"{folder} holds {len(paths)} images ({KINDS}); at least 2 are needed")
    groups = {path.stem: (scenes or {}).get(path.stem, path.stem) for path in paths}

    def drawn(path: Path) -> tuple[bytes, str]:
        return hashlib.sha256(groups[path.stem].encode()).digest(), path.stem

    shuffled = sorted(paths, key=drawn)[:max_images]
    check_pictures(watched(shuffled))
    judging = held_out_count(len(shuffled), held_out)
    if scenes:
        judging = whole_scenes([groups[path.stem] for path in shuffled], judging, folder)
    chosen = tuple(Photograph(path, path.stem) for path in shuffled)
    return chosen[judging:], chosen[:judging]


def whole_scenes(names: list[str], count: int, folder: Path) -> int:
    """Return about `count`, so that the first pictures are whole scenes and others are left."""
    ends = [place for place in range(1, len(names)) if names[place] != names[place - 1]]
    if not ends:
        raise SettingsError(f"{folder} holds one scene; at least 2 are needed, one to judge by")
    return min(ends, key=lambda end: abs(end - count))


def built_in_crops(
    max_images: int | None, held_out: float
) -> tuple[tuple[Photograph, ...], tuple[Photograph, ...]]:
    """Return distinct square crops of built-in photographs, none on both sides of the split."""
    training, judging = crops_in_turn(TRAINING_PHOTOGRAPHS), crops_in_turn(HELD_OUT_PHOTOGRAPHS)
    total = min(max_images or len(training) + len(judging), len(training) + len(judging))
    judged = min(held_out_count(total, held_out), len(judging))
    return tuple(training[: total - judged]), tuple(judging[:judged])


def crops_in_turn(shipped: tuple[str, ...]) -> list[Photograph]:
    """Return the first crop of every photograph, then the second of every one, and so on."""
    by_photograph = []
    for relative in shipped:
        path = shipped_file(relative)
        with Image.open(path) as image:
            width, height = image.size
        side = min(width // CROPS_ACROSS, height // CROPS_DOWN)
        left, top = (width - CROPS_ACROSS * side) // 2, (height - CROPS_DOWN * side) // 2
        places = product(range(CROPS_DOWN), range(CROPS_ACROSS))
        corners = [(left + column * side, top + row * side) for row, column in places]
        by_photograph.append(
            [
                Photograph(path, f"{path.stem}-{number}", (left, top, left + side, top + side))
                for number, (left, top) in enumerate(corners, start=1)
            ]
        )
    return [crop for turn in zip(*by_photograph, strict=True) for crop in turn]


def shipped_file(relative: str) -> Path:
    """Return where an installed package keeps a file; nothing is imported and nothing downloaded.

    Raises SettingsError where the package or the file is not there.
    """
    package, _, inside = relative.partition("/")
    found = importlib.util.find_spec(package)
    path = Path(found.origin).parent / inside if found and found.origin else None
    if path is None or not path.is_file():
        raise SettingsError(
            f"the built-in photograph {relative} is missing: install fresnel-tui with its `train`"
            " extra, or give photographs of your own with --data_dir"
        )
    return path


def held_out_count(total: int, share: float) -> int:
    """Return how many of total images are held out: about that share, at least one, never all."""
    return max(1, min(total - 1, round(total * share)))


class PhotographSet(Dataset[dict[str, Any]]):
    """Gives each photograph's image (3,S,S) in [0,1], features (C,37,37) and any disparity.

    Images are squashed to squares of S pixels, as those of the features were. `disparity` (1,S,S)
    is left out where there is no depth, `weights` (1,S,S) where no density was asked for. With
    `keep_bytes`, so many bytes of what was read stay in memory, features over a change of size too.
    """

    def __init__(
        self,
        photographs: tuple[Photograph, ...],
        collection: Collection,
        size: int,
        keep_bytes: int = 0,
    ) -> None:
        self.photographs, self.collection, self._room = photographs, collection, keep_bytes
        self._features: KeptItems | None = None
        self._images: KeptItems | None = None
        self.resize(size)

    def resize(self, size: int) -> None:
        """Give images of another size from now on; workers of a loader are to begin anew for it."""
        self.size, self._images = size, None
        if not self._room:
            return
        count, (item, described) = len(self), self._parts(0)
        if self._features is None:
            share = size_of(described) / (size_of(described) + size_of(item))
            self._features = KeptItems(count, int(self._room * share), described)
            self._features.keep(0, described)
        self._images = KeptItems(count, self._room - self._features.bytes, item)
        self._images.keep(0, item)

    def __len__(self) -> int:
        return len(self.photographs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        item, described = self._parts(index)
        return {"name": self.photographs[index].name, **item, **described}

    def _parts(self, index: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return a photograph's pictures, and its features, read only where they are not kept."""
        item = self._images and self._images.find(index)
        described = self._features and self._features.find(index)
        if item is None or described is None:
            item = self._read(index, described is not None)
            if described is None:
                described = {"features": item.pop("features")}
                if self._features:
                    self._features.keep(index, described)
            if self._images:
                self._images.keep(index, item)
        return item, described

    def read_ahead(self, shown: bool, watched: Watched = iter) -> None:
        """Read and describe photographs that have no feature files, with a bar where `shown`.

        Nothing is done where none would be kept.
        """
        if self._room and self.collection.feature_folder is None:
            places = watched(range(len(self)))
            for index in bar(places, "describing photographs", len(self), shown=shown):
                self[index]

    def _read(self, index: int, described: bool) -> dict[str, Tensor]:
        photograph, collection = self.photographs[index], self.collection
        image = read_picture(photograph.path)
        if photograph.box:
            image = image.crop(photograph.box)
        item = {"image": to_square(image, self.size)}
        other = collection.unseen.get(photograph.name)
        if other is not None:
            cameras = collection.cameras
            item["unseen"] = to_square(read_picture(other), self.size)
            item["motion"] = motion(cameras[photograph.name], cameras[other.stem])
        item |= read_beside(photograph, collection, self.size, described)
        if collection.feature_folder is None and not described:
            pixels = to_square(image, GRID * features.PIXELS_PER_PATCH)
            item["features"] = features.describe_patches(pixels)
        return item


def to_square(image: Image.Image, size: int) -> Tensor:
    """Return an RGB image squashed to (3,size,size) in [0,1]."""
    resized = image.resize((size, size), Image.Resampling.LANCZOS)
    return (
        torch.from_numpy(np.asarray(resized, dtype=np.float32) / 255).permute(2, 0, 1).contiguous()
    )
