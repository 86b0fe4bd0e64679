"""Pairs of views: what a picture's Gaussians should look like from another, unseen camera."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.common.errors import SettingsError
from trainers.gaussian.losses import psnr, ssim
from trainers.gaussian.projection import Gaussians

CAMERAS = "cameras.json"
LEAST = 11
"""Pixels a side that SSIM needs."""
FLIP = np.diag([1.0, -1.0, -1.0])
"""From cameras that look along +z, y down, to the decoder's, that look along -z, y up."""
UNSEEN = ("unseen_psnr", "unseen_ssim", "unchanged_psnr", "unchanged_ssim")
"""Of the view that the decoder was not shown; `unchanged` is the picture it was shown, as it is."""


class Posed(NamedTuple):
    """A picture's scene, its place there, world to camera (3,4), and the share that is known."""

    scene: str
    place: int
    camera: NDArray[np.float64]
    known: float


def read_cameras(folder: Path) -> dict[str, Posed]:
    """Return what a folder's cameras.json says of its pictures, by stem; empty without the file.

    Raises SettingsError where it is damaged.
    """
    path = folder / CAMERAS
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {stem: _posed(entry) for stem, entry in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise SettingsError(
            f"{path} cannot be read ({problem!r}): make it anew with prepare_scenes.py"
        ) from problem


def _posed(entry: Mapping[str, Any]) -> Posed:
    turn = np.array(entry["rotation"], dtype=np.float64).reshape(3, 3)
    shift = np.array(entry["translation"], dtype=np.float64).reshape(3, 1)
    known = min(float(share) for share in entry["known"])
    return Posed(str(entry["scene"]), int(entry["place"]), np.hstack((turn, shift)), known)


def partners(cameras: Mapping[str, Posed], stems: Iterable[str], gap: int) -> dict[str, str]:
    """Return each picture's unseen view: the one `gap` places on in its scene, else before it.

    Raises SettingsError naming a picture that has neither, or no camera.
    """
    chosen = list(stems)
    missing = [stem for stem in chosen if stem not in cameras]
    if missing:
        raise SettingsError(f"{CAMERAS} says nothing of {missing[0]}: run prepare_scenes.py anew")
    places = {(cameras[stem].scene, cameras[stem].place): stem for stem in chosen}
    found = {}
    for stem in chosen:
        scene, place = cameras[stem][:2]
        other = places.get((scene, place + gap), places.get((scene, place - gap)))
        if other is None:
            raise SettingsError(
                f"--pair_gap {gap}: {scene} has no view {gap} places from {stem}; use less"
            )
        found[stem] = other
    return found


def motion(seen: Posed, unseen: Posed) -> Tensor:
    """Return (3,4): from the decoder's frame of one view to that of another."""
    turn = unseen.camera[:, :3] @ seen.camera[:, :3].T
    shift = unseen.camera[:, 3] - turn @ seen.camera[:, 3]
    moved = np.hstack((FLIP @ turn @ FLIP, (FLIP @ shift)[:, None]))
    return torch.from_numpy(moved.astype(np.float32))


def moved_by(gaussians: Gaussians, motions: Tensor) -> Gaussians:
    """Return Gaussians in the frames that motions (B,3,4) lead to."""
    turn, shift = motions[..., :3], motions[..., 3]
    return gaussians._replace(
        positions=gaussians.positions @ turn.transpose(-1, -2) + shift.unsqueeze(1),
        rotations=turn.unsqueeze(1) @ gaussians.rotations,
    )


def known_window(cameras: Iterable[Posed], size: int) -> tuple[int, int, int] | None:
    """Return the square (left, top, width) of a picture of so many pixels that all of them know.

    None where all of it is. Raises SettingsError where it is too small to be judged.
    """
    share = min(posed.known for posed in cameras)
    edge = int(np.ceil((1 - share) * size / 2 - 1e-6))
    if size - 2 * edge < LEAST:
        raise SettingsError(
            f"all pictures know only {size - 2 * edge} of {size} pixels a side, and SSIM needs"
            f" {LEAST}: use a larger --image_size"
        )
    return (edge, edge, size - 2 * edge) if edge else None


def judge_unseen(drawn: Tensor, unseen: Tensor, shown: Tensor) -> tuple[Tensor, ...]:
    """Return the UNSEEN figures (B,) of what was drawn (B,3,S,S)."""
    return psnr(drawn, unseen), ssim(drawn, unseen), psnr(shown, unseen), ssim(shown, unseen)
