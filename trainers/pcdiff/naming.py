"""Published checkpoints: their names, their shells, and their optimiser, read and written.

`epoch_N.pth` of pfriedri/pcdiff-implant and DimensionLab/pcdiff-implant holds `epoch` (finished,
counted from 0), `model_state` with names that begin with `model.`, `optimizer_state` and, in the
newer generation, `loss`. DDP and torch.compile add `module.` and `_orig_mod.` somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainers.common.checkpoint import check_loadable, load_checkpoint, save_checkpoint
from trainers.common.errors import SettingsError

SHELLS = ("module", "_orig_mod")
PREFIX = "model."


def bare_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict without any `module.` and `_orig_mod.`, and without `model.` in front."""
    found = {}
    for name, tensor in state.items():
        bare = ".".join(part for part in name.split(".") if part not in SHELLS)
        found[bare.removeprefix(PREFIX)] = tensor
    return found


def published_names(state: Mapping[str, Tensor], shells: str = "") -> dict[str, Tensor]:
    """Return a state dict with `model.` in front, and shells such as `module.` after it."""
    return {f"{PREFIX}{shells}{name}": tensor for name, tensor in state.items()}


def load_weights(network: nn.Module, state: Mapping[str, Tensor], where: Path) -> None:
    """Load weights strictly; raise SettingsError naming what differs."""
    bare, own = bare_names(state), network.state_dict()
    missing, extra = sorted(own.keys() - bare.keys()), sorted(bare.keys() - own.keys())
    wrong = [name for name in own if name in bare and own[name].shape != bare[name].shape]
    if missing or extra or wrong:
        problems = [f"{len(missing)} missing, first {missing[0]}"] if missing else []
        problems += [f"{len(extra)} unknown, first {extra[0]}"] if extra else []
        problems += [
            f"{name} is {tuple(bare[name].shape)} there and {tuple(own[name].shape)} here"
            for name in wrong[:1]
        ]
        raise SettingsError(
            f"{where}: its weights are another network's ({'; '.join(problems)});"
            " compare --width_mult, --embed_dim, --attention"
        )
    network.load_state_dict(bare)


def load_optimiser(optimiser: torch.optim.Optimizer, state: Mapping[str, Any], where: Path) -> None:
    """Load a published optimiser state, whose parameters stand in the network's order."""
    own = [p for group in optimiser.param_groups for p in group["params"]]
    moments = state.get("state", {})
    indices = [index for group in state.get("param_groups", []) for index in group["params"]]
    fits = len(indices) == len(own) and all(
        moments[index]["exp_avg"].shape == parameter.shape
        for index, parameter in zip(indices, own, strict=True)
        if index in moments
    )
    if not fits:
        raise SettingsError(f"{where}: its optimizer_state does not fit the network's parameters")
    optimiser.load_state_dict(dict(state))


def read_published(path: Path) -> dict[str, Any]:
    """Return a checkpoint that has a `model_state`; raise SettingsError where it is not one."""
    content = load_checkpoint(path)
    if "model_state" not in content:
        found = ", ".join(sorted(map(str, content))[:6]) or "nothing"
        raise SettingsError(f"{path}: holds no model_state but {found}: no checkpoint of PCDiff")
    return content


def write_published(
    folder: Path,
    epoch: int,
    state: Mapping[str, Tensor],
    optimiser: torch.optim.Optimizer,
    loss: float,
    sizes: Mapping[str, Any],
    noise: Mapping[str, Any],
) -> tuple[Path, int]:
    """Write epoch_<epoch>.pth, epoch counted from 0, and return path and bytes.

    Beside the published keys it holds `sizes` and `diffusion`, which published programs pass over.
    """
    content = {
        "epoch": epoch,
        "model_state": published_names(state),
        "optimizer_state": optimiser.state_dict(),
        "loss": loss,
        "sizes": dict(sizes),
        "diffusion": dict(noise),
    }
    check_loadable(content)
    path = folder / f"epoch_{epoch}.pth"
    return path, save_checkpoint(path, content)
