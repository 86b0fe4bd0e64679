"""Checkpoints of other programs: the Fresnel project's, and our own first version's.

Upstream's hold `epoch` (whole epochs, from 1), `model_state_dict`, `optimizer_state_dict`, `losses`
and `config`. Its weights go on in its own geometry (`upstream`). They cannot be turned into ours:
its decoder learnt to draw at the bottom what its features saw at the top, so neither the picture
nor the places of the Gaussians would be right. What can be taken over are the hidden layers.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainers.common.checkpoint import load_checkpoint
from trainers.common.errors import SettingsError
from trainers.gaussian.decoder import GaussianDecoder
from trainers.gaussian.geometry import SIGMOID

TRAINER = "gaussian"
OLD_NAME = re.compile(r"^mlp\.(\d+)\.")
HEADS = {2: "mlp.net.12", 4: "mlp.net.9", 5: "init_state_net.4"}
EXTRAS = ("fresnel_zones.", "edge_detector.")
"""Parts of upstream's decoder that are left out here."""


@dataclass(frozen=True)
class Foreign:
    """Upstream-named weights, the optimiser's state or None, finished epochs, and the writer."""

    weights: dict[str, Tensor]
    optimiser: dict[str, Any] | None
    epoch: int
    upstream: bool
    geometry: str
    blur: float | None = None


def read_any(path: Path) -> dict[str, Any]:
    """Return a checkpoint's content; upstream's may hold paths, which weights_only refuses."""
    kinds = [pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath]
    with torch.serialization.safe_globals(kinds):
        return load_checkpoint(path)


def as_foreign(content: dict[str, Any], path: Path) -> Foreign | None:
    """Return what a checkpoint of another writer holds, or None where this trainer wrote it.

    Raises SettingsError where it is neither.
    """
    if "written_by" in content:
        return None
    if "model_state_dict" in content:
        weights = dict(content["model_state_dict"])
        epoch = int(content.get("epoch", 0))
        return Foreign(weights, content.get("optimizer_state_dict"), epoch, True, "upstream")
    if {"model", "optimiser", "progress"} <= content.keys():
        epoch = int(content["progress"]["epoch"])
        # That version drew with the blur of viewers.
        return Foreign(
            with_upstream_names(content["model"]),
            content["optimiser"],
            epoch,
            False,
            SIGMOID,
            0.3001,
        )
    if content and all(isinstance(value, Tensor) for value in content.values()):
        return Foreign(with_upstream_names(content), None, 0, True, "upstream")
    raise SettingsError(
        f"--resume: {path} is neither a checkpoint of this trainer nor of the Fresnel project's"
    )


def with_upstream_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights with `mlp.0.weight` and the like called `mlp.net.0.weight`."""
    return {OLD_NAME.sub(r"mlp.net.\1.", name): tensor for name, tensor in weights.items()}


def load_weights(decoder: GaussianDecoder, foreign: Foreign, path: Path) -> list[str]:
    """Load foreign weights strictly and return what a user should know.

    Into a decoder of another geometry only the layers before the last are taken. Raises
    SettingsError naming the first names and shapes that do not fit, or the parts that are left out
    here.
    """
    extra = sorted({name.split(".")[0] for name in foreign.weights if name.startswith(EXTRAS)})
    if extra:
        raise SettingsError(
            f"--resume: {path} was trained with {', '.join(extra)}, which are left out here"
        )
    here = decoder.state_dict()
    given = {name: tuple(weight.shape) for name, weight in foreign.weights.items()}
    wanted = {name: tuple(weight.shape) for name, weight in here.items()}
    wrong = [
        f"{name} {given.get(name, 'missing')} for {wanted.get(name, 'nothing')}"
        for name in sorted(given.keys() | wanted.keys())
        if given.get(name) != wanted.get(name)
    ]
    if wrong:
        raise SettingsError(f"--resume: {path} is of another decoder: {'; '.join(wrong[:3])}")
    head = HEADS[decoder.settings.experiment]
    if foreign.geometry == decoder.settings.geometry:
        decoder.load_state_dict(foreign.weights)
        if not foreign.upstream:
            return []
        return [
            "these weights draw row 0 of the features at the bottom and take the nearest for the"
            " farthest; training goes on in that geometry. It cannot be turned round: --geometry"
            " patch takes over the hidden layers and begins the last one anew"
        ]
    kept = {name: here[name] for name in here if name.startswith((head, "depth_offset"))}
    decoder.load_state_dict({**foreign.weights, **kept})
    return [
        f"hidden layers taken over; {head} begins anew, since its numbers mean other places there"
    ]


def load_optimiser(
    optimiser: torch.optim.Optimizer, state: dict[str, Any], parameters: list[nn.Parameter]
) -> str:
    """Load a foreign optimiser's moments; return a warning where they do not fit."""
    moments = state.get("state", {})
    for index, parameter in enumerate(parameters):
        if index in moments and moments[index]["exp_avg"].shape != parameter.shape:
            return "its optimiser is of another decoder: the moments begin anew"
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": moments, "param_groups": groups})
    return ""
