"""Pairs of volumes: a defective skull and its implant on the U-Net's grid."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from trainers.common.errors import SettingsError
from trainers.common.kept_items import KeptItems
from trainers.common.ranks import Ranks, from_leader
from trainers.common.reporter import Reporter
from trainers.common.stopping import Watched
from trainers.implants.unet import counted
from trainers.skulls.listing import SkullSample, check_split, check_volumes, read_listing, volume_of
from trainers.skulls.made_up import make_up
from trainers.skulls.volumes import check_axes, read_volume

PARTS = ("defective", "implant")
KEPT_BYTES = 4 << 30
"""Of coarse volumes that stay in memory, for all processes that load them together."""


class Volumes(Dataset[dict[str, Any]]):
    """Pairs `defective` and `implant` (1, G, G, G), mirrored left-right at random.

    Of each coarse voxel they count its voxels of bone, of `voxels` (): a fourth of what the shares
    of it are to send and to keep, which `shares` makes of them where they are needed.
    """

    def __init__(self, samples: list[SkullSample], grid: int, seed: int) -> None:
        self.samples, self.grid, self.seed = samples, grid, seed
        self._kept: KeptItems | None = None

    def __len__(self) -> int:
        return len(self.samples)

    def pair(self, index: int) -> dict[str, Tensor]:
        """Return the coarse volumes of a sample, read once while there is room."""
        found = self._kept and self._kept.find(index)
        if not found:
            sample = self.samples[index]
            paths = {"defective": volume_of(sample.defective), "implant": volume_of(sample.implant)}
            found = {}
            for name, path in paths.items():
                found[name], voxels = counted(read_volume(path).mask, self.grid, path)
                found["voxels"] = torch.tensor(voxels)
            if self._kept is None:
                self._kept = KeptItems(len(self), KEPT_BYTES, found)
            self._kept.keep(index, found)
        return found

    def __getitem__(self, place: tuple[int, int]) -> dict[str, Any]:
        """Return the sample at a place (epoch, index)."""
        epoch, index = place
        item = self.pair(index)
        if np.random.default_rng([self.seed, epoch, index]).random() < 0.5:
            item = item | {name: item[name].flip(1) for name in PARTS}
        return {**item, "name": self.samples[index].name}


def find_data(
    settings: argparse.Namespace, ranks: Ranks, log: Reporter, watched: Watched
) -> tuple[list[SkullSample], list[SkullSample]]:
    """Return training and held-out samples; the skulls are made up first where asked."""
    if (settings.path is None) == (settings.made_up is None):
        raise SettingsError("name a list with --path, or try --made_up 10")
    path = settings.path
    if path is None:
        root = settings.output_dir.absolute() / "made_up"
        log.phase("loading", f"making up {settings.made_up} skulls in {root}")
        count, size = settings.made_up, settings.made_up_size
        from_leader(ranks, lambda: make_up(root, count, size, watched=watched))
        path = root / "train.csv"
    log.phase("loading", f"reading {path}")
    training = read_listing(path)
    check_volumes(training, PARTS)
    for note in check_axes(volume_of(getattr(s, part)) for s in training for part in PARTS):
        log.warn(note)
    beside = path.with_name("test.csv")
    judged = settings.val_path or (beside if beside.is_file() and beside != path else None)
    if judged is None:
        log.warn("no --val_path and no test.csv beside --path: nothing is judged on unseen skulls")
        return training, []
    unseen = read_listing(judged)
    check_split(training, unseen)
    check_volumes(unseen, PARTS)
    places = np.unique(np.linspace(0, len(unseen) - 1, settings.val_samples).astype(int))
    return training, [unseen[place] for place in places]


def shares(pairs: dict[str, Any], name: str) -> Tensor:
    """Return the share of bone, float32, in each coarse voxel of a pair or of a batch of them."""
    voxels: Tensor = pairs["voxels"]
    found: Tensor = pairs[name].float() / voxels.view(*voxels.shape, 1, 1, 1, 1)
    return found


def middle(grid: Tensor) -> Tensor:
    """Return the greatest value along the left-right axis of a grid (1, G, G, G), upright."""
    return grid[0].amax(0).T.flip(0).float().cpu()
