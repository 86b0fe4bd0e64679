"""From a completed cloud to a skull's volume, with a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from trainers.common.errors import SettingsError
from trainers.common.weights import check_trained
from trainers.voxelization.config import architecture, read_config
from trainers.voxelization.dpsr import DPSR, Shape
from trainers.voxelization.model import Voxelizer, load_weights
from trainers.voxelization.state import load_published


@dataclass
class Voxelization:
    """A trained network and how its field is solved; `points` is what it was trained with."""

    network: Voxelizer
    resolution: Shape | None
    sigma: float
    level: float
    points: int
    device: torch.device

    @torch.no_grad()
    def skull(self, cloud: np.ndarray, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
        """Return the skull's mask in `shape` for a cloud (N, 3) in voxel indices of that shape.

        Where a coarser resolution is set, the field is interpolated to the volume's voxels.
        """
        grid = self.resolution or shape
        longest = max(shape)
        if any(
            size * longest != length * max(grid) for size, length in zip(grid, shape, strict=True)
        ):
            raise SettingsError(
                f"generation.psr_resolution {grid} has other proportions than the volume {shape}"
            )
        if len(cloud) > self.points:
            chosen = np.random.default_rng(seed).choice(len(cloud), self.points, replace=False)
            cloud = cloud[chosen]
        points = torch.from_numpy(np.clip(cloud / longest, 0, 1 - 1e-5).astype(np.float32))
        oriented = self.network(points[None].to(self.device))
        field = DPSR(grid, self.sigma)(*oriented)
        if grid != shape:
            factor = longest / max(grid)
            axes = [torch.arange(length, device=self.device) / factor for length in shape]
            scaled = [2 * axis / (size - 1) - 1 for axis, size in zip(axes, grid, strict=True)]
            where = torch.stack(torch.meshgrid(*scaled, indexing="ij")[::-1], -1)
            field = functional.grid_sample(
                field[None], where[None], padding_mode="border", align_corners=True
            )[0]
        inside: np.ndarray = (field[0] <= self.level).cpu().numpy()
        return inside


def load_voxelization(
    model_file: Path, values: dict[str, Any] | None, device: torch.device
) -> Voxelization:
    """Return the network of a checkpoint, with its own settings or those of a configuration.

    A checkpoint of ours knows its sizes; one of the original project needs a configuration, or is
    of the published sizes. Raises SettingsError for files that do not fit.
    """
    content = load_published(model_file)
    own = content.get("settings", {})
    base = read_config(None, {name: value for name, value in own.items() if "." in name})
    chosen = values or base
    sizes = architecture(base if own else chosen)
    network = Voxelizer(sizes).to(device).eval()
    load_weights(network, content["state_dict"], model_file)
    check_trained(network, model_file)
    trained = base if own else chosen
    sigma = chosen["generation.psr_sigma"]
    return Voxelization(
        network=network,
        resolution=chosen["generation.psr_resolution"],
        sigma=trained["model.psr_sigma"] if sigma is None else sigma,
        level=chosen["data.zero_level"],
        points=trained["data.pointcloud_n"],
        device=device,
    )
