"""Drawing with gsplat's fused CUDA kernels.

Written from its documented interface; 1.5.3 was held against the batched renderer on an NVIDIA H200
(tests/bench/README.md).

gsplat differs in small things: it leaves out what is fainter than 1/255, ends ellipses at 3.33
standard deviations and stops behind 0.9999 of cover. Its `eps2d` is our blur.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from trainers.gaussian.projection import NEAR, Camera, Gaussians

OLDEST = (1, 5, 3)
"""The first version that draws batches of sets of Gaussians."""


def why_not_gsplat(device: torch.device) -> str:
    """Return why gsplat cannot draw on a device, in one line; nothing where it drew one Gaussian.

    The first time it may compile its kernels, which takes minutes. Without nvcc it can be imported
    and draws nothing.
    """
    try:
        found = version("gsplat")
    except PackageNotFoundError:
        return "gsplat is not installed"
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < OLDEST:
        return f"gsplat {found} draws no batches, {'.'.join(map(str, OLDEST))} does"
    point = torch.tensor([[[0.0, 0.0, -2.0]]], device=device)
    ball = Gaussians(
        point,
        torch.full_like(point, 0.5),
        torch.eye(3, device=device)[None, None],
        torch.ones_like(point),
        torch.full((1, 1), 0.9, device=device),
    )
    try:
        middle = draw_with_gsplat(ball, Camera(16))[0, :, 8, 8].tolist()
    except Exception as problem:  # whatever its build or the compiler of its kernels raises
        lines = str(problem).strip().splitlines() or [""]
        return f"gsplat {found} does not draw here ({type(problem).__name__}: {lines[0]})"
    # Half a pixel beside its middle; colour times coverage, distance times coverage, coverage.
    if not all(abs(value - wanted) < 0.05 for value, wanted in zip(middle, SEEN, strict=True)):
        return f"gsplat {found} draws a Gaussian wrongly here: {[round(v, 3) for v in middle]}"
    return ""


SEEN = (0.9, 0.9, 0.9, 1.8, 0.9)
"""The middle of one white Gaussian of opacity 0.9 at a distance of 2."""


def draw_with_gsplat(gaussians: Gaussians, camera: Camera) -> Tensor:
    """Draw the whole batch in one call as (B,5,S,S): red, green, blue, distance, coverage."""
    from gsplat import rasterization

    positions, device = gaussians.positions, gaussians.positions.device
    # Made on the GPU: a list sent there, and a number assigned, are waited for.
    flip = torch.ones(3, device=device)
    flip[1:].neg_()
    axes = flip.unsqueeze(-1) * gaussians.rotations * gaussians.scales.unsqueeze(-2)
    images = len(positions)
    eye = torch.eye(4, device=device).expand(images, 1, 4, 4)
    left, top = camera.window[:2] if camera.window else (0, 0)
    inner = torch.eye(3, device=device)
    inner[:2] *= camera.focal * camera.size
    inner[0, 2].fill_(camera.size / 2 - left)
    inner[1, 2].fill_(camera.size / 2 - top)
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
    return torch.cat((colours, coverage), dim=-1).squeeze(1).permute(0, 3, 1, 2)
