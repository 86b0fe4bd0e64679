"""LPIPS (Zhang et al. 2018) with AlexNet's features, from weight files a user already has.

Nothing is downloaded. Needed are torchvision's `alexnet-owt-7be5be79.pth` and the `lpips` package's
`alex.pth` (its five linear layers); both are looked for where these packages keep them.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainers.common.errors import read_as
from trainers.common.files import expanded

BACKBONE, LINEAR = "alexnet-owt-7be5be79.pth", "alex.pth"
LAYERS = (
    (3, 64, 11, 4, 2),
    (64, 192, 5, 1, 2),
    (192, 384, 3, 1, 1),
    (384, 256, 3, 1, 1),
    (256, 256, 3, 1, 1),
)
PLACES = (0, 3, 6, 8, 10)
SIDE = 128
"""Both images are brought to this size, as the Fresnel project does."""


class Lpips(nn.Module):
    """The perceptual distance (B,) of images (B,3,H,W) in [0,1]; 0 for equal ones."""

    shift: Tensor
    scale: Tensor

    def __init__(self, backbone: dict[str, Tensor], linear: dict[str, Tensor]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(*layer) for layer in LAYERS)
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188]).view(1, 3, 1, 1))
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450]).view(1, 3, 1, 1))
        weights = []
        for place, (index, layer) in enumerate(zip(PLACES, self.convolutions, strict=True)):
            part = {name: backbone[f"features.{index}.{name}"] for name in ("weight", "bias")}
            layer.load_state_dict(part)
            weights.append(linear[f"lin{place}.model.1.weight"].flatten())
        self.weights = nn.ParameterList(nn.Parameter(weight.clone()) for weight in weights)
        self.requires_grad_(False)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Compare."""
        both = F.interpolate(torch.cat((first, second)), size=SIDE, mode="bilinear", antialias=True)
        activations = (2 * both - 1 - self.shift) / self.scale
        total = torch.zeros(len(first), device=first.device)
        for place, layer in enumerate(self.convolutions):
            if place in (1, 2):
                activations = F.max_pool2d(activations, 3, 2)
            activations = F.relu(layer(activations))
            left, right = F.normalize(activations, dim=1, eps=1e-10).chunk(2)
            total = total + ((left - right).square() * self.weights[place].view(1, -1, 1, 1)).sum(
                1
            ).mean((1, 2))
        return total


def find_lpips(folder: Path | None) -> tuple[Lpips | None, str]:
    """Return the network and where its weights lie, or None and which files are missing where.

    `folder` is looked in alone where it is given. Raises SettingsError where a file is none of
    these.
    """
    hub = expanded(os.environ.get("TORCH_HOME", "~/.cache/torch")) / "hub" / "checkpoints"
    package = importlib.util.find_spec("lpips")
    inside = Path(package.origin).parent / "weights" / "v0.1" if package and package.origin else hub
    backbone, linear = ((folder or hub) / BACKBONE, (folder or inside) / LINEAR)
    missing = [str(path) for path in (backbone, linear) if not path.is_file()]
    if missing:
        return None, f"no {' and no '.join(missing)}"
    with read_as(backbone.parent, "LPIPS weights"):
        parts = [
            torch.load(path, map_location="cpu", weights_only=True) for path in (backbone, linear)
        ]
        return Lpips(*parts).eval(), str(backbone.parent)
