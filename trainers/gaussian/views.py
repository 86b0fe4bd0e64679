"""Other views of a photograph: poses to train on, and its pixels moved by their depth."""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor

from trainers.gaussian.geometry import DEPTH_RANGE, pivot_of, pose_rotation
from trainers.gaussian.projection import FOCAL_LENGTH

FACING = math.cos(math.radians(75))
"""Seen more sideways than this, a photograph's pixels tell too little to learn from."""


def random_poses(
    count: int, settings: argparse.Namespace, generator: torch.Generator | None = None
) -> Tensor:
    """Return poses (count,2), frontal with probability `frontal_prob`.

    Elevation and azimuth are in radians.
    """
    draws = torch.rand(count, 3, generator=generator)
    ranges = torch.tensor([settings.pose_range_elevation, settings.pose_range_azimuth])
    degrees = ranges[:, 0] + draws[:, :2] * (ranges[:, 1] - ranges[:, 0])
    frontal = draws[:, 2:] < settings.frontal_prob
    return torch.where(frontal, torch.zeros(()), torch.deg2rad(degrees))


@torch.no_grad()
def turned_photographs(
    image: Tensor, disparity: Tensor, poses: Tensor, nearest: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Return what images (B,3,S,S) look like from poses (B,2), and where that is known (B,1,S,S).

    Every pixel is moved as a point at the distance its disparity (B,1,S,S) says, `nearest` for 1;
    the nearest of several that meet in a pixel wins. A view turned away further than 75 degrees
    shows nothing.
    """
    images, _, size, _ = image.shape
    places = ((torch.arange(size, device=image.device) + 0.5) / size - 0.5) / FOCAL_LENGTH
    down, across = torch.meshgrid(places, places, indexing="ij")
    distance = nearest + DEPTH_RANGE * (1 - disparity[:, 0])
    points = torch.stack((across * distance, -down * distance, -distance), dim=-1).flatten(1, 2)
    middle, poses = pivot_of(points), poses.to(points)
    turn = pose_rotation(poses)
    x, y, z = ((points - middle) @ turn.transpose(-1, -2) + middle).unbind(-1)
    safe = (-z).clamp(min=1e-3)
    column = ((0.5 + FOCAL_LENGTH * x / safe) * size).floor().long()
    row = ((0.5 - FOCAL_LENGTH * y / safe) * size).floor().long()
    facing = (poses[:, 0].cos() * poses[:, 1].cos() > FACING).unsqueeze(1)
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size) & (-z > 1e-3) & facing
    target = torch.where(inside, row * size + column, size * size)
    depth = torch.full((images, size * size + 1), torch.inf, device=image.device)
    depth.scatter_reduce_(1, target, -z, "amin")
    wins = inside & (-z <= depth.gather(1, target) + 1e-6)
    target = torch.where(wins, target, size * size)
    drawn = torch.zeros(images, 3, size * size + 1, device=image.device)
    drawn.scatter_(2, target.unsqueeze(1).expand(-1, 3, -1), image.flatten(2))
    known = torch.zeros(images, 1, size * size + 1, device=image.device)
    known.scatter_(2, target.unsqueeze(1), 1.0)
    known = known[..., :-1].view(images, 1, size, size)
    return drawn[..., :-1].view(images, 3, size, size) * known, known


def cut(picture: Tensor | None, window: tuple[int, int, int] | None) -> Tensor | None:
    """Return the window (left, top, width) of (B,C,S,S), all of it and None for None."""
    if picture is None or window is None:
        return picture
    left, top, width = window
    return picture[..., top : top + width, left : left + width]
