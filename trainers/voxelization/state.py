"""What a run holds, and its way into a checkpoint and back."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainers.common.checkpoint import load_checkpoint
from trainers.common.counted_run import CountedRun
from trainers.common.ema import Ema
from trainers.common.errors import SettingsError
from trainers.common.files import expanded, name_also
from trainers.common.loading import EpochLoader
from trainers.common.resuming import find_checkpoint, restore_and_warn
from trainers.common.settings_parser import plain
from trainers.common.weights import SUFFIX, read_weights
from trainers.voxelization.data import VoxelPairs
from trainers.voxelization.dpsr import DPSR
from trainers.voxelization.model import Voxelizer, load_weights
from trainers.voxelization.options import NETWORK, OVERRIDES
from trainers.voxelization.orientation import Orientation

TRAINER = "voxelization"


@dataclass
class VoxelPosition:
    """How far a run has come; `sums` and `samples` are of the epoch it is in."""

    epoch: int = 0
    it: int = 0
    step_in_epoch: int = 0
    used: int = 0
    samples: float = 0.0
    loss_sum: float = 0.0
    seconds: float = 0.0
    best: float = math.inf
    best_epoch: int = 0
    baseline: dict[str, float] = field(default_factory=dict)


@dataclass
class VoxelRun(CountedRun):
    """What the functions of the loop share."""

    loader: EpochLoader[VoxelPairs]
    judged_by: EpochLoader[VoxelPairs]
    network: Voxelizer
    solver: DPSR
    rate: float
    orientation: Orientation
    position: VoxelPosition = field(default_factory=VoxelPosition)

    @property
    def training(self) -> VoxelPairs:
        """What is learnt from."""
        return self.loader.dataset

    @property
    def evaluation(self) -> VoxelPairs:
        """What is judged by."""
        return self.judged_by.dataset

    @property
    def values(self) -> dict[str, Any]:
        """The configuration, by dotted names."""
        found: dict[str, Any] = self.settings.values
        return found


def described(settings: argparse.Namespace) -> dict[str, Any]:
    """Return the effective settings in plain types, the configuration's keys included."""
    flags = {name: value for name, value in vars(settings).items() if name != "values"}
    effective: dict[str, Any] = plain({**flags, **settings.values})
    return effective


def save(run: VoxelRun, best: bool = False) -> None:
    """Write a checkpoint and model.pt, or best.pt and model_best.pt; every rank calls this."""
    position = run.position
    weights = run.ema.weights() if run.ema else run.network.state_dict()
    state: dict[str, Any] = {
        # The first four are what the original project's programs read.
        "epoch": position.epoch - (position.step_in_epoch == 0),
        "it": position.it - 1,
        "loss_val_best": float(position.best),
        "state_dict": weights,
        "network": run.network.state_dict() if run.ema else {},
        "ema": {"updates": run.ema.updates} if run.ema else {},
        "optimiser": run.optimiser.state_dict(),
        "precision": run.precision.state_dict(),
        "position": asdict(position),
    }
    saved = run.folder.save(
        state,
        epoch=position.epoch,
        step=position.it,
        step_in_epoch=position.step_in_epoch,
        best=best,
    )
    if saved is None:
        return
    name = run.settings.output_dir.absolute() / ("model_best.pt" if best else "model.pt")
    name_also(saved[0], name)
    epoch = position.epoch + (position.step_in_epoch > 0)
    run.reporter.checkpoint((name, saved[1]), epoch, position.it, best)


def load_published(path: Path) -> dict[str, Any]:
    """Return a checkpoint of the original project without running code from it.

    Its best loss is a NumPy scalar, which weights_only refuses unless the scalar's types are named.
    Of a safetensors file of ours, what it holds of a checkpoint.
    """
    if path.suffix == SUFFIX:
        weights, about = read_weights(path, "--model_file")
        return {**(about or {}), "state_dict": weights}
    core = getattr(np, "_core", None) or np.core  # NumPy 1 has it by the second name
    scalar = core.multiarray.scalar
    allowed: list[Any] = [
        scalar,
        (scalar, "numpy.core.multiarray.scalar"),
        (scalar, "numpy._core.multiarray.scalar"),
        np.dtype,
        np.dtypes.Float64DType,
        np.dtypes.Float32DType,
    ]
    content = load_checkpoint(path, allowed)
    if not isinstance(content.get("state_dict"), dict):
        writer = (content.get("written_by") or {}).get("trainer")
        wrote = f"was written by {writer}" if writer else "has no state_dict"
        raise SettingsError(f"{path} {wrote}: it is no checkpoint of this network")
    return content


def resume(run: VoxelRun) -> Path | None:
    """Bring the run to where its checkpoint left it; return the file, or None to begin anew."""
    asked = run.settings.resume
    if asked and asked not in ("auto", "auto-or-new"):
        path = expanded(asked).absolute()
        content = load_published(path)
        if "position" not in content:
            return _from_published(run, content, path)
    identity = [*NETWORK, "model.grid_res", "seed", "train_path"]
    found = find_checkpoint(asked, run.folder, run.ranks, identity)
    if found is None:
        return None
    content, path, warnings = found
    weights = content["network"] or content["state_dict"]
    load_weights(run.network, weights, path)
    if run.ema:
        shadow = {"weights": content["state_dict"], "updates": content["ema"].get("updates", 0)}
        run.ema.load_state_dict(shadow)
    run.optimiser.load_state_dict(content["optimiser"])
    run.precision.load_state_dict(content["precision"])
    run.position = position = VoxelPosition(**content["position"])
    position.it, position.step_in_epoch = run.reporter.recount(
        position.it, position.epoch, position.used, run.batch, run.steps_per_epoch
    )
    newest = run.settings.output_dir.absolute() / "model.pt"
    if run.ranks.leads and path != newest:
        # A kill between writing the checkpoint and naming it leaves an older model.pt, or none.
        name_also(path, newest)
    # A flag says what its key says; the key is there however it was given.
    known = {"no_cuda", "made_up_root", "wandb", "tensorboard", "keep", "train.n_workers"}
    known |= set(OVERRIDES)
    restore_and_warn(run, content, warnings, known)
    return path


def _from_published(run: VoxelRun, content: dict[str, Any], path: Path) -> Path:
    """Take over the weights, epoch and best value of a file that has no optimiser's state."""
    load_weights(run.network, content["state_dict"], path)
    if run.ema:
        run.ema = Ema(run.network, run.ema.decay)
    epoch = int(content.get("epoch", -1)) + 1
    best = float(content.get("loss_val_best", math.inf))
    run.position = VoxelPosition(epoch=epoch, it=epoch * run.steps_per_epoch, best=best)
    run.reporter.warn(
        f"{path} is of the original project: weights and epoch {epoch} are taken over; it holds no"
        " optimiser state, so Adam begins anew"
    )
    return path
