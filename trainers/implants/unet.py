"""A 3-D U-Net that answers a defective skull with its implant: the plain baseline of the field.

MONAI's residual UNet (Kerfoot et al. 2019, after Çiçek et al., arXiv 1606.06650) on a grid coarser
than the volume where asked; its answer is brought back to the volume's voxels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.common.checkpoint import load_checkpoint
from trainers.common.errors import SettingsError
from trainers.common.model_card import export_model
from trainers.common.weights import SUFFIX, check_trained, read_weights
from trainers.skulls.card import skull_card
from trainers.skulls.listing import SkullDataError
from trainers.skulls.metrics import bounding_box
from trainers.skulls.shaping import largest

TRAINER = "unet"
NAME = "unet.safetensors"
ABOUT = (
    "A defective skull's volume in, its implant out: the plain baseline. Judge it beside PCDiff by"
    " `python trainers/implants/implant.py --unet FILE`."
)
MISSING = "the U-Net is MONAI's: pip install 'fresnel-tui[unet]', or pip install monai"


@dataclass(frozen=True)
class UNetSizes:
    """What decides the network: voxels a side, channels of the first level, levels, units."""

    grid: int = 128
    channels: int = 16
    levels: int = 5
    units: int = 2

    def check(self) -> None:
        """Raise SettingsError for a grid that the levels cannot halve."""
        step = 2 ** (self.levels - 1)
        if self.grid % step or self.grid < 2 * step:
            raise SettingsError(
                f"--grid_res {self.grid} cannot be halved {self.levels - 1} times:"
                f" take a multiple of {step}, at least {2 * step}, or fewer --levels"
            )


def make_network(sizes: UNetSizes) -> nn.Module:
    """Return the network: masks (B, 1, G, G, G) in 0…1 to logits; raise SettingsError w/o MONAI."""
    try:
        from monai.networks.nets import UNet
    except ImportError as problem:
        raise SettingsError(f"{MISSING} ({problem})") from problem
    sizes.check()
    channels = [sizes.channels * 2**level for level in range(sizes.levels)]
    network: nn.Module = UNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=1,
        channels=channels,
        strides=[2] * (sizes.levels - 1),
        num_res_units=sizes.units,
    )
    return network


def overlap_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return cross-entropy plus 1 - soft Dice, of logits and targets (B, 1, G, G, G) in 0…1."""
    logits = logits.float()
    found = torch.sigmoid(logits)
    axes = (1, 2, 3, 4)
    both = 2 * (found * target).sum(axes) + 1
    soft = 1 - both / (found.sum(axes) + target.sum(axes) + 1)
    return functional.binary_cross_entropy_with_logits(logits, target) + soft.mean()


def coarse(mask: np.ndarray, grid: int, name: object = "the volume") -> Tensor:
    """Return the share of bone (1, G, G, G) float32 of each coarse voxel of a mask (S, S, S)."""
    seen, voxels = counted(mask, grid, name)
    return seen.float() / voxels


def counted(mask: np.ndarray, grid: int, name: object = "the volume") -> tuple[Tensor, int]:
    """Return the voxels of bone (1, G, G, G) in each coarse voxel of a mask, and out of how many.

    In bytes where they suffice. Raises SkullDataError where S is no whole multiple of the grid.
    """
    sides = set(mask.shape)
    if len(sides) != 1 or mask.shape[0] % grid:
        raise SkullDataError(
            f"{name} has shape {mask.shape}: the U-Net needs a cube whose side is a multiple of"
            f" its grid, {grid}; python trainers/skulls/prepare.py --steps volumes clouds --to"
            " FOLDER makes cubes of other volumes"
        )
    factor = mask.shape[0] // grid
    kind = next(k for k in (np.uint8, np.int16, np.int32) if factor**3 <= np.iinfo(k).max)
    # NRRD's order: added up along the axis that lies together in memory first.
    turned = abs(mask.strides[0]) < abs(mask.strides[2])
    seen = (mask.T if turned else mask).astype(kind, order="C")
    if factor > 1:
        rows = seen[..., ::factor].copy()
        for place in range(1, factor):
            rows += seen[..., place::factor]
        planes = rows.reshape(-1, grid, factor, grid).sum(2, dtype=kind)
        seen = planes.reshape(grid, factor, grid, grid).sum(1, dtype=kind)
    return torch.from_numpy(np.ascontiguousarray(seen.T if turned else seen))[None], factor**3


def fine(logits: Tensor, defective: np.ndarray) -> np.ndarray:
    """Return the implant's mask in the volume's voxels of logits (1, 1, G, G, G), without bone."""
    shown = functional.interpolate(
        logits.float(), size=defective.shape, mode="trilinear", align_corners=False
    )
    inside: np.ndarray = (shown[0, 0] > 0).cpu().numpy()
    found = np.zeros_like(defective)
    # Within a box: the two lie in memory in different orders, which is slow to bring together.
    if (box := bounding_box(inside, [0, 0, 0])) is not None:
        found[box] = inside[box] & ~defective[box]
    return largest(found, 2)


@dataclass
class TrainedUNet:
    """A trained network and the grid it works on."""

    network: nn.Module
    sizes: UNetSizes
    device: torch.device

    @torch.no_grad()
    def implant(self, defective: np.ndarray) -> np.ndarray:
        """Return the implant's mask (S, S, S) for a defective skull's."""
        seen = coarse(defective, self.sizes.grid)[None].to(self.device)
        return fine(self.network(seen), defective)


def sizes_of(content: Mapping[str, Any], path: Path) -> UNetSizes:
    """Return the sizes that a checkpoint names; raise SettingsError where it is another's."""
    if content.get("written_by", {}).get("trainer") != TRAINER or "sizes" not in content:
        raise SettingsError(f"{path}: was not written by trainers/implants/train_unet.py")
    return UNetSizes(**content["sizes"])


def load_unet(path: Path, device: torch.device) -> TrainedUNet:
    """Return the network of a checkpoint, its averaged weights where there are any."""
    if path.suffix == SUFFIX:
        weights, about = read_weights(path, "--unet")
        content = {**(about or {}), "model": weights}
    else:
        content = load_checkpoint(path)
    sizes = sizes_of(content, path)
    network = make_network(sizes)
    averaged = content.get("ema")
    network.load_state_dict(averaged["weights"] if averaged else content["model"])
    check_trained(network, path)
    return TrainedUNet(network.to(device).eval(), sizes, device)


def export_unet(
    folder: Path,
    weights: Mapping[str, Tensor],
    sizes: UNetSizes,
    counts: Mapping[str, str],
    figures: Mapping[str, float],
    settings: Mapping[str, Any],
) -> list[Path]:
    """Write weights as safetensors and their card into a folder; return both files.

    `figures` are what these weights were judged by, `counts` what skull_counts returned.
    """
    made_up = settings["made_up"] is not None
    title = f"3-D U-Net for implants, grid {sizes.grid}"
    card = skull_card(title, TRAINER, ABOUT, counts, figures, settings, made_up)
    about = {"sizes": asdict(sizes), "written_by": {"trainer": TRAINER}}
    return export_model(folder / NAME, weights, card, about)
