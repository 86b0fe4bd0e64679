"""A trained network put to use: which noise it sees in implants beside one skull."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainers.common.checkpoint import load_checkpoint
from trainers.common.errors import SettingsError
from trainers.common.weights import SUFFIX, check_trained, read_weights
from trainers.pcdiff.diffusion import NOISE_SETTINGS, PointDiffusion
from trainers.pcdiff.geometry import Steady, survey
from trainers.pcdiff.model import HEAD, PVCNN, Sizes
from trainers.pcdiff.naming import bare_names, load_weights
from trainers.pcdiff.samplers import Predict

TRAINER = "pcdiff"
PUBLISHED_NOISE = dict(zip(NOISE_SETTINGS, ("linear", 1e-4, 0.02, 1000, "eps"), strict=True))
"""What checkpoints without a word on it were trained with."""


def noise_predictor(
    network: PVCNN, diffusion: PointDiffusion, skull: Tensor, keep: bool = True
) -> Predict:
    """Return what predicts the noise of implants (B, 3, I) at timesteps (B,) beside a skull (3, S).

    What the searches know of the skull is kept between calls, unless `keep` is False.
    """
    steady = Steady(skull.shape[1]) if keep else None

    def predict(implants: Tensor, timesteps: Tensor) -> Tensor:
        points = torch.cat([skull.expand(len(implants), -1, -1), implants], dim=2)
        levels = survey(points.transpose(1, 2), network.balls, network.search, steady)
        predicted = network(points, timesteps, levels)[:, :, skull.shape[1] :]
        return diffusion.noise(predicted.float(), implants, timesteps)

    return predict


def read_content(path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds, or as much of it as an exported file does."""
    if path.suffix != SUFFIX:
        return load_checkpoint(path)
    weights, about = read_weights(path, "--model")
    return {**(about or {}), "model": weights}


def load_network(
    path: Path, given: Mapping[str, Any], search: str, device: torch.device
) -> tuple[PVCNN, PointDiffusion, str]:
    """Return the network of a checkpoint of either kind, its diffusion, and words on it.

    Sizes are those the checkpoint names, else what its weights show; `given` are sizes and noise
    settings the user names (None where not), which have to agree. Averaged weights are taken where
    there are any.
    """
    content = read_content(path)
    averaged = content.get("ema")
    weights = averaged["weights"] if averaged else content.get("model", content.get("model_state"))
    if not isinstance(weights, Mapping) or not weights:
        raise SettingsError(f"{path}: holds no weights of PCDiff, neither model nor model_state")
    weights = bare_names(weights)
    writer = (content.get("written_by") or {}).get("trainer", TRAINER)
    if writer != TRAINER:
        raise SettingsError(f"{path}: was written by {writer}, and this is {TRAINER}")
    known = content.get("sizes") or sizes_from_weights(weights, path)
    known = {**known, **content.get("diffusion", {})}
    wanted = {name: value for name, value in given.items() if value is not None}
    for name, value in wanted.items():
        if name in known and known[name] != value:
            raise SettingsError(f"{path}: its {name} is {known[name]}, and {value} is asked for")
    found = {**PUBLISHED_NOISE, **known, **wanted}
    diffusion = PointDiffusion.described({name: found.pop(name) for name in NOISE_SETTINGS})
    sizes = Sizes.from_dict(found)
    network = PVCNN(sizes, search)
    load_weights(network, weights, path)
    check_trained(network, path)
    kind = "averaged weights" if averaged else "weights"
    epoch = content.get("epoch", content.get("written_by", {}).get("epoch", "?"))
    description = f"{kind} of epoch {epoch}, {sizes.points} points"
    return network.to(device).eval(), diffusion, description


def sizes_from_weights(weights: Mapping[str, Tensor], path: Path) -> dict[str, Any]:
    """Return the sizes a published state dict shows; it shows neither grids nor point counts."""
    try:
        embedding = int(weights["embedf.0.weight"].shape[0])
        width = weights["classifier.2.weight"].shape[1] / HEAD
    except KeyError as problem:
        raise SettingsError(
            f"{path}: lacks {problem}: no checkpoint of PCDiff's network"
        ) from problem
    return {
        "embedding": embedding,
        "width": width,
        "up_convolutions": max(
            int(name.split(".")[2]) for name in weights if name.startswith("fp_layers.")
        ),
        "attention": any(name.startswith("global_att.") for name in weights),
    }
