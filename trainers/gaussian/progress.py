"""How far a run has come, and writing that down so that another process can go on from it."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainers.common import checkpoint as checkpoints
from trainers.common.ranks import Ranks, gather_from_ranks
from trainers.common.report import EventLog
from trainers.common.settings import SettingsError
from trainers.common.stopping import StopRequest
from trainers.gaussian.decoder import DirectPatchDecoder
from trainers.gaussian.photographs import Collection

MODEL_SETTINGS = ("gaussians_per_patch", "feature_dim", "image_size", "features")
ORDER_SETTINGS = ("batch_size", "processes", "seed", "photographs")


@dataclass
class Progress:
    """How far a run has come; `sums` are over this epoch's images, `values` are the last whole epoch's."""

    epoch: int = 0
    step: int = 0
    images: float = 0.0
    seconds: float = 0.0
    lost_in_a_row: int = 0
    best_psnr: float = -math.inf
    sums: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)


@dataclass
class Run:
    """What the functions of the loop share."""

    settings: argparse.Namespace
    ranks: Ranks
    collection: Collection
    events: EventLog
    stop: StopRequest
    decoder: DirectPatchDecoder
    model: nn.Module
    optimiser: torch.optim.Optimizer
    steps_per_epoch: int
    progress: Progress = field(default_factory=Progress)
    written: list[Path] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return int(self.settings.epochs) * self.steps_per_epoch

    @property
    def step(self) -> int:
        """Steps done since the run began, earlier attempts included."""
        return self.progress.epoch * self.steps_per_epoch + self.progress.step

    @property
    def slots(self) -> int:
        """Gaussians per patch in use in the current epoch, or in the last one once all are done."""
        k: int = self.settings.gaussians_per_patch
        if not self.settings.progressive_schedule:
            return k
        epoch = min(self.progress.epoch, self.settings.epochs - 1)
        return min(k, (1, 2, 4, k)[4 * epoch // self.settings.epochs])

    @property
    def saved(self) -> Path | None:
        """The checkpoint this process wrote last, best.pt aside."""
        return self.written[-1] if self.written else None

    def say(self, line: str) -> None:
        """Print a line, from one process only, and not into a buffer."""
        if self.ranks.leads:
            print(line, flush=True)

    def described(self) -> dict[str, Any]:
        """Return the effective settings in plain types."""
        given = {name: str(value) if isinstance(value, Path) else value for name, value in vars(self.settings).items()}
        return given | {"processes": self.ranks.world, "photographs": self.collection.fingerprint}


def save(run: Run, best: bool = False) -> str:
    """Write a checkpoint, report it and return a phrase that names it; every rank must call this."""
    random_states = gather_from_ranks(checkpoints.random_state())
    if not run.ranks.leads:
        return ""
    progress = run.progress
    content = {
        "model": run.decoder.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "schedule": {"steps": run.steps, "highest": run.settings.lr},
        "random": random_states,
        "progress": asdict(progress),
        "global_step": run.step,
        "settings": run.described(),
    }
    name = "best.pt" if best else checkpoints.checkpoint_name(progress.epoch, progress.step)
    path = run.settings.output_dir.absolute() / "checkpoints" / name
    size = checkpoints.save_checkpoint(path, content)
    epoch = progress.epoch + (progress.step > 0)
    run.events.emit("checkpoint", epoch=epoch, step=run.step, path=path, bytes=size)
    if not best:
        run.written = [*(earlier for earlier in run.written if earlier != path), path]
        while run.settings.keep and len(run.written) > run.settings.keep:
            run.written.pop(0).unlink(missing_ok=True)
    return f"checkpoint {path} ({size / 1e6:.1f} MB)"


def resume(run: Run) -> Path | None:
    """Bring the run to where the checkpoint asked for left it; return its path, or None to begin anew."""
    asked = run.settings.resume
    if asked is None:
        return None
    path = checkpoints.newest_checkpoint(run.settings.output_dir / "checkpoints") if asked == "auto" else Path(asked)
    if path is None:
        run.say("resume       no checkpoint in the output folder yet: beginning anew")
        return None
    saved = checkpoints.load_checkpoint(path)
    if not {"model", "optimiser", "random", "progress", "settings"} <= saved.keys():
        raise SettingsError(f"--resume: {path} is not a checkpoint of this trainer")
    here, there = run.described(), saved["settings"]
    checkpoints.compare_settings(there, here, MODEL_SETTINGS, f"{path} is of another model")
    progress = Progress(**saved["progress"])
    if progress.step:
        why = f"{path} lies inside an epoch, whose order of images these decide"
        checkpoints.compare_settings(there, here, ORDER_SETTINGS, why)
    run.decoder.load_state_dict(saved["model"])
    run.optimiser.load_state_dict(saved["optimiser"])
    run.progress = progress
    if len(saved["random"]) == run.ranks.world:
        checkpoints.restore_random_state(saved["random"][run.ranks.rank])
    run.say(f"resume       {path}: {progress.epoch} epochs done, and {progress.step} steps of the next")
    if saved["schedule"] != {"steps": run.steps, "highest": run.settings.lr}:
        run.say(f"note         the learning rate now falls over {run.steps} steps from {run.settings.lr:g}")
    return path.absolute()
