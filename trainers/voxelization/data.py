"""Pairs of a completed point cloud and the skull's indicator grid, listed by a manifest.

Files and manifests are those of the pcdiff-implant project: `_pc.npz` with `points` (N, 3) in
0…1, `_vox.npz` with `psr` (X, Y, Z), −0.5 inside and +0.5 outside. A row has one column (the base
path of both files), two (their paths), or four to five (sample.npy, shift.npy, scale.npy, vox.npz
[, which of the ensemble]) to train on generated completions.
"""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset, default_collate

from trainers.common.files import DAMAGED
from trainers.common.kept_items import KeptItems, size_of
from trainers.skulls.listing import DEFECTS, PREPARE, SkullDataError

HEADINGS = ("#", "base_path", "pointcloud_path", "sample_points_path")
KINDS = "|".join(DEFECTS)
SUBJECT = re.compile(rf"(?:{KINDS})_?(.+)|(.+)_(?:{KINDS})|(.+)")
MULTIPLES = (1, 2, 4, 8)
"""How many times finer than the grid volumes may be."""
KEPT_BYTES = 2 << 30
"""Of targets that stay in memory, for all processes that load them: 128 skulls' masks at 512³."""


@dataclass(frozen=True)
class Pair:
    """One row of a manifest; `generated` holds sample, shift and scale of a completion."""

    vox: Path
    cloud: Path | None = None
    generated: tuple[Path, Path, Path] | None = None
    member: int = 0

    @property
    def name(self) -> str:
        """What to call it in lines and pictures."""
        return self.vox.name.removesuffix("_vox.npz")

    @property
    def subject(self) -> str:
        """The skull in the file's name: what is left of it without a kind of defect."""
        found = SUBJECT.fullmatch(self.name)
        return next(filter(None, found.groups())) if found else self.name


def prepared(root: Path) -> str:
    """Return what makes the pairs of a folder of skulls."""
    return f"make it with: {PREPARE} {quote(str(root))}"


def read_manifest(path: Path) -> list[Pair]:
    """Return the pairs of a manifest; paths are relative to its folder, or to the one above.

    Raises SkullDataError for an empty or ill-formed manifest and for files that are missing.
    """
    make = prepared(path.absolute().parent.parent)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise SkullDataError(f"{path}: cannot be read ({problem}); {make}") from problem
    rows = [row for row in rows if not row[0].strip().startswith(HEADINGS)]
    if not rows:
        raise SkullDataError(f"{path}: lists nothing; {make}")
    pairs: dict[Pair, int] = {}
    for number, row in enumerate(rows, 1):
        pair = _pair(path, number, [cell.strip() for cell in row])
        if pairs.setdefault(pair, number) != number:
            raise SkullDataError(
                f"{path}, row {number}: {pair.name} is listed in row {pairs[pair]}, too; remove one"
            )
    return list(pairs)


def _pair(manifest: Path, number: int, row: list[str]) -> Pair:
    if any(cell.endswith(".nrrd") for cell in row) or "complete_skull" in row[0]:
        raise SkullDataError(
            f"{manifest}, row {number}: {row[0]} is a list of skulls, not of _pc.npz and _vox.npz;"
            f" {prepared(manifest.parent)}, then use voxelization/{manifest.name} there"
        )
    if len(row) == 1:
        base = row[0].removesuffix("_pc.npz").removesuffix("_vox.npz")
        row = [f"{base}_pc.npz", f"{base}_vox.npz"]
    if len(row) == 2:
        return Pair(cloud=_found(manifest, number, row[0]), vox=_found(manifest, number, row[1]))
    if len(row) not in (4, 5):
        raise SkullDataError(f"{manifest}, row {number}: {len(row)} columns; expected 1, 2, 4 or 5")
    sample, shift, scale, vox = (_found(manifest, number, cell) for cell in row[:4])
    member = row[4] if len(row) == 5 else "0"
    if not member.isdigit():
        raise SkullDataError(
            f"{manifest}, row {number}: {member!r} numbers no member of an ensemble"
        )
    return Pair(vox=vox, generated=(sample, shift, scale), member=int(member))


def _found(manifest: Path, number: int, name: str) -> Path:
    choices = [Path(name)] if Path(name).is_absolute() else []
    choices = choices or [manifest.parent / name, manifest.parent.parent / name]
    for choice in choices:
        if choice.is_file():
            return choice.absolute()
    make = prepared(manifest.absolute().parent.parent)
    raise SkullDataError(f"{manifest}, row {number}: there is no file {choices[0]}; {make}")


def array_shape(path: Path, key: str) -> tuple[int, ...]:
    """Return the shape of an array in an `.npz` file without reading the array."""
    make = f"delete it and {prepared(path.absolute().parent.parent)}"
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as member:
            version = np.lib.format.read_magic(member)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            return tuple(int(size) for size in read(member)[0])
    except KeyError:
        raise SkullDataError(f"{path}: holds no array {key!r}; {make}") from None
    except DAMAGED as problem:
        raise SkullDataError(f"{path}: is damaged ({problem}); {make}") from problem


def read_array(path: Path, key: str | None = None) -> np.ndarray:
    """Return an array of a `.npz` (by key) or `.npy` file; raises SkullDataError if it is bad."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray) is not (key is None):
            raise ValueError(f"it holds {'named arrays' if key is None else 'one array'}")
        array: np.ndarray = loaded if key is None else loaded[key]
    except DAMAGED as problem:
        raise SkullDataError(
            f"{path}: is damaged ({problem}); delete it and make it anew"
        ) from problem
    if array.dtype.kind not in "biuf":
        raise SkullDataError(f"{path}: holds {array.dtype}, which are no real numbers")
    if not np.isfinite(array).all():
        raise SkullDataError(f"{path}: has values that are NaN or infinite; make it anew")
    return array


def completed_points(pair: Pair, longest: int) -> np.ndarray:
    """Return a pair's points (N, 3) float32 in 0…1, generated ones brought back from their box."""
    if pair.generated is None:
        assert pair.cloud is not None
        points = read_array(pair.cloud, "points")
    else:
        sample, shift, scale = (read_array(path) for path in pair.generated)
        if sample.ndim != 3 or pair.member >= len(sample):
            raise SkullDataError(
                f"{pair.generated[0]}: shape {sample.shape} has no member {pair.member}"
            )
        points = from_box(sample[pair.member], shift, scale, pair.generated[0]) / longest
    if points.ndim != 2 or points.shape[1] != 3 or len(points) == 0:
        raise SkullDataError(f"{pair.cloud}: points have shape {points.shape}; expected (N, 3)")
    return points.astype(np.float32, copy=False)


def from_box(points: np.ndarray, shift: np.ndarray, scale: np.ndarray, path: Path) -> np.ndarray:
    """Return normalised points (N, 3) in voxel indices. Raises SkullDataError naming their file."""
    sized = scale.size and shift.size and not shift.size % 3
    if points.ndim != 2 or points.shape[1] != 3 or not points.size or not sized:
        raise SkullDataError(
            f"{path}: shape {points.shape}, with shift {shift.shape} and scale {scale.shape} beside"
            " it: expected (N, 3), three numbers and one; complete this case again"
        )
    found: np.ndarray = points * scale.reshape(-1)[0] + shift.reshape(-1, 3)[0]
    return found


def check_pairs(pairs: Iterable[Pair], grid: tuple[int, int, int]) -> None:
    """Check every pair's shapes and points before the first step; raises for the first bad one."""
    for pair in pairs:
        shape = array_shape(pair.vox, "psr")
        if len(shape) != 3:
            raise SkullDataError(f"{pair.vox}: psr has shape {shape}; expected three axes")
        if not any(all(s == n * g for s, g in zip(shape, grid, strict=True)) for n in MULTIPLES):
            raise SkullDataError(
                f"{pair.vox}: psr has shape {shape}, which is not 1, 2, 4 or 8 times model.grid_res"
                f" {grid}; {fitting_grid(shape)}"
            )
        points = completed_points(pair, max(shape))
        if points.min() < -0.1 or points.max() > 1.1:
            raise SkullDataError(
                f"{pair.cloud or pair.generated}: points reach from {points.min():.2f} to"
                f" {points.max():.2f}; expected voxel coordinates divided by {max(shape)}"
            )


def fitting_grid(shape: tuple[int, ...]) -> str:
    """Return what makes volumes of a shape fit the grid."""
    fitting = [
        ",".join(str(size // factor) for size in shape)
        for factor in reversed(MULTIPLES)
        if all(size % factor == 0 and 16 <= size // factor <= 512 for size in shape)
    ]
    grids = f"set --grid_res to {' or '.join(fitting)}; " if fitting else ""
    return (
        f"{grids}of skulls of different shapes, python trainers/skulls/prepare.py --steps volumes"
        " clouds pairs --to FOLDER makes cubes"
    )


def coarser(grid: Tensor, factor: int) -> Tensor:
    """Return a grid (X, Y, Z) at every factor-th voxel, smoothed by a triangle of that width.

    Voxel j of the result lies on voxel factor · j, so that coordinates stay what they are.
    """
    if factor == 1:
        return grid
    ramp = torch.arange(1, factor + 1, dtype=grid.dtype)
    weights = torch.cat([ramp, ramp.flip(0)[1:]]) / factor**2
    result = functional.pad(grid[None, None], [factor - 1] * 6, mode="replicate")
    for axis in range(3):
        view = [1, 1, 1, 1, 1]
        view[axis + 2] = len(weights)
        stride = [factor if other == axis else 1 for other in range(3)]
        result = functional.conv3d(result, weights.view(view), stride=stride)
    return result[0, 0]


def misplaced(points: np.ndarray, most: float, chance: np.random.Generator) -> np.ndarray:
    """Return completed points (N, 3), their last tenth, the implant, where a model may put it.

    All of it is moved, and each point by itself, by normal noise of one deviation from 0 to `most`
    in units of the volume's longest side.
    """
    count, deviation = len(points) // 10, chance.uniform(0, most)
    moves = chance.normal(0, deviation, (1, 3)) + chance.normal(0, deviation, (count, 3))
    moved = points[len(points) - count :] + moves.astype(np.float32)
    return np.concatenate([points[: len(points) - count], moved])


def packed(psr: np.ndarray) -> Tensor | None:
    """Return a grid (X, Y, Z) of -0.5 and 0.5 as bits, (X·Y·Z / 8,) uint8; None of any other."""
    inside = psr < 0
    if not np.array_equal(psr, np.where(inside, np.float32(-0.5), np.float32(0.5))):
        return None
    return torch.from_numpy(np.packbits(inside))


def target_of(batch: Mapping[str, Any], grid: tuple[int, int, int]) -> Tensor:
    """Return the target of a batch (B, X, Y, Z), or of an item (X, Y, Z), on its own device.

    Bits are 32 times smaller than what they stand for, on their way from a worker to the device.
    """
    if "gt_psr" in batch:
        whole: Tensor = batch["gt_psr"]
        return whole
    bits: Tensor = batch["gt_bits"]
    # Made on the device: a list sent there would be waited for.
    places = 2 ** torch.arange(7, -1, -1, dtype=torch.uint8, device=bits.device)
    inside = (bits.unsqueeze(-1) & places).ne(0).flatten(-2)[..., : math.prod(grid)]
    return inside.to(torch.float32).neg_().add_(0.5).unflatten(-1, grid)


def collate_pairs(items: list[dict[str, Any]]) -> Any:
    """Return a batch of items; where one's target is no mask, all are sent whole."""
    if any("gt_psr" in item for item in items) and any("gt_bits" in item for item in items):
        grid = next(tuple(item["gt_psr"].shape) for item in items if "gt_psr" in item)
        items = [{**item, "gt_psr": target_of(item, grid)} for item in items]
        for item in items:
            item.pop("gt_bits", None)
    return default_collate(items)


class VoxelPairs(Dataset[dict[str, Any]]):
    """Items `inputs` (N, 3) and what target_of reads; chance follows from seed, epoch and index.

    That is `gt_bits` where the target is a mask, else `gt_psr` (X, Y, Z). The first skulls' masks
    stay in memory: the defects of one skull share theirs.
    """

    def __init__(
        self,
        pairs: list[Pair],
        grid: tuple[int, int, int],
        count: int,
        noise: float = 0.0,
        seed: int = 0,
        implant_noise: float = 0.0,
    ) -> None:
        self.pairs, self.grid, self.count = pairs, grid, count
        self.noise, self.seed = noise, seed
        self.implant_noise = implant_noise
        paths = dict.fromkeys(pair.vox for pair in pairs)
        self._places = {path: place for place, path in enumerate(paths)}
        self._kept: KeptItems | None = None

    def target(self, index: int) -> Tensor:
        """Return the target (X, Y, Z) of a pair."""
        return target_of(self._read(self.pairs[index].vox), self.grid)

    def item_bytes(self) -> int:
        """Return the most bytes of an item."""
        return size_of(self[0])

    def _read(self, path: Path) -> dict[str, Tensor]:
        """Return a target as `gt_bits` or `gt_psr`, and the `longest` side of its volume."""
        place = self._places[path]
        found = self._kept and self._kept.find(place)
        if found:
            return found
        psr = read_array(path, "psr").astype(np.float32, copy=False)
        if not psr.min() < 0 < psr.max():
            raise SkullDataError(
                f"{path}: psr reaches from {psr.min():g} to {psr.max():g}: a target is below 0"
                " inside of the skull, above 0 outside (prepare.py writes -0.5 and 0.5)"
            )
        factor = psr.shape[0] // self.grid[0]
        bits = packed(psr) if factor == 1 else None
        target = coarser(torch.from_numpy(psr), factor) if bits is None else bits
        name = "gt_psr" if bits is None else "gt_bits"
        found = {name: target, "longest": torch.tensor(max(psr.shape))}
        if self._kept is None:
            self._kept = KeptItems(len(self._places), KEPT_BYTES, found)
        self._kept.keep(place, found)
        return found

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, place: int | tuple[int, int]) -> dict[str, Any]:
        """Return the pair at a place (epoch, index), or at an index in the first epoch."""
        epoch, index = place if isinstance(place, tuple) else (0, place)
        pair = self.pairs[index]
        target = self._read(pair.vox)
        points = completed_points(pair, int(target.pop("longest")))
        chance = np.random.default_rng([self.seed, epoch, index])
        if self.implant_noise:
            points = misplaced(points, self.implant_noise, chance)
        if len(points) != self.count:
            fewer = len(points) < self.count
            points = points[chance.choice(len(points), self.count, replace=fewer)]
        if self.noise:
            points = points + chance.normal(0, self.noise, points.shape).astype(np.float32)
        inputs = torch.from_numpy(np.clip(points, 0, 1 - 1e-5))
        return {"inputs": inputs, **target, "name": pair.name}
