"""Drawing with gsplat's fused CUDA kernels. Written from its documented interface; untested on
hardware here.

gsplat differs in small things: it leaves out what is fainter than 1/255, ends ellipses at 3.33
standard deviations and stops behind 0.9999 of cover. Its `eps2d` is our blur.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainers.common.settings_parser import SettingsError
from trainers.gaussian.projection import NEAR, Camera, Gaussians


def draw_with_gsplat(gaussians: Gaussians, camera: Camera) -> Tensor:
    """Draw the whole batch in one call as (B,5,S,S): red, green, blue, distance, coverage.

    Raises SettingsError where the installed gsplat is older than 1.5 and takes no batch.
    """
    try:
        from gsplat import rasterization
    except ImportError as problem:
        raise SettingsError(
            f"gsplat cannot be imported ({problem}); use --renderer torch"
        ) from problem
    positions, device = gaussians.positions, gaussians.positions.device
    flip = torch.tensor([1.0, -1.0, -1.0], device=device)
    axes = flip.unsqueeze(-1) * gaussians.rotations * gaussians.scales.unsqueeze(-2)
    images = len(positions)
    eye = torch.eye(4, device=device).expand(images, 1, 4, 4)
    left, top = camera.window[:2] if camera.window else (0, 0)
    focal, middle = camera.focal * camera.size, camera.size / 2
    inner = torch.tensor(
        [[focal, 0, middle - left], [0, focal, middle - top], [0, 0, 1.0]], device=device
    )
    try:
        with torch.autocast(device.type, enabled=False):
            colours, coverage, _ = rasterization(
                means=positions * flip,
                quats=None,
                scales=None,
                opacities=gaussians.opacities,
                colors=gaussians.colours,
                viewmats=eye,
                Ks=inner.expand(images, 1, 3, 3),
                width=camera.width,
                height=camera.width,
                near_plane=NEAR,
                eps2d=camera.blur,
                packed=False,
                render_mode="RGB+D",
                covars=axes @ axes.transpose(-1, -2),
            )
    except AssertionError as problem:
        raise SettingsError(
            "this gsplat takes no batch of Gaussian sets (1.5 and newer do); use --renderer torch"
        ) from problem
    return torch.cat((colours, coverage), dim=-1).squeeze(1).permute(0, 3, 1, 2)
