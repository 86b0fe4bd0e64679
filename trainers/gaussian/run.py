"""What a run is made of, and writing it down so that another process goes on from it to the bit."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainers.common.counted_run import CountedRun
from trainers.common.ema import Ema
from trainers.common.files import expanded, name_also
from trainers.common.ranks import Ranks, from_leader
from trainers.common.resuming import find_checkpoint, restore_and_warn
from trainers.common.schedules import scaled_rate
from trainers.common.settings_parser import SettingsError
from trainers.gaussian.decoder import MEANING, GaussianDecoder, geometry_of, refuse_older_meaning
from trainers.gaussian.foreign import Foreign, as_foreign, load_optimiser, load_weights, read_any
from trainers.gaussian.held import HeldPhotographs
from trainers.gaussian.hfts import Phase, phase_of, split_gaussians
from trainers.gaussian.options import savings
from trainers.gaussian.perceptual import Lpips
from trainers.gaussian.photographs import Collection
from trainers.gaussian.render import Drawer

IDENTITY = (
    "experiment", "feature_dim", "gaussians_per_patch", "image_size", "use_depth_fusion",
    "use_pose_encoding", "geometry", "features", "seed", "data_dir",
)  # fmt: skip
"""Settings that make another run's checkpoint one that `--resume auto` may go on from."""


@dataclass
class GaussianPosition:
    """How far a run has come. `used` samples and `in_epoch` steps of the current epoch are done.

    `sums` holds for each part of the loss its sum over the epoch's images, and how many had it;
    `slots` is how many Gaussians a patch have begun to learn.
    """

    epoch: int = 0
    step: int = 0
    used: int = 0
    in_epoch: int = 0
    best_psnr: float = -math.inf
    sums: dict[str, tuple[float, float]] = field(default_factory=dict)
    slots: int = 0

    def plain(self) -> dict[str, Any]:
        """Return it in plain types."""
        return dict(vars(self))


@dataclass
class GaussianRun(CountedRun):
    """What the functions of the loop share."""

    collection: Collection
    decoder: GaussianDecoder
    lpips: Lpips | None
    draw: Drawer
    position: GaussianPosition = field(default_factory=GaussianPosition)
    values: dict[str, float] = field(default_factory=dict)
    held: HeldPhotographs = field(default_factory=HeldPhotographs)
    saved: Path | None = None
    saved_step: int = -1

    @property
    def training(self) -> Sized:
        """What is learnt from."""
        return self.collection.training

    @property
    def rate(self) -> tuple[float, str]:
        """The highest learning rate and the sentence that explains it."""
        settings = self.settings
        return scaled_rate(settings.lr, settings.lr_rule, self.batch, settings.base_batch)

    @property
    def phase(self) -> Phase:
        """What the current epoch works with."""
        settings = self.settings
        epoch = min(self.position.epoch, settings.epochs - 1)
        return phase_of(
            epoch, settings.epochs, settings.image_size, self.decoder.slots, savings(settings)
        )

    def parts(self) -> dict[str, Any]:
        """Return all that has a state."""
        parts = {"model": self.decoder, "optimiser": self.optimiser, "precision": self.precision}
        return parts | ({"ema": self.ema} if self.ema else {})


def grow(run: GaussianRun) -> None:
    """Split every patch's Gaussians where the epoch that begins asks for more."""
    position, wanted = run.position, run.phase.slots
    if 0 < position.slots < wanted:
        run.reporter.write(
            f"phase        {position.slots} Gaussians a patch are split into {wanted}"
        )
        split_gaussians(run.decoder.mlp.net[-1], run.optimiser, position.slots, wanted)
        if run.ema:
            run.ema.restart(run.decoder)
    position.slots = max(position.slots, wanted)


def save(run: GaussianRun, best: bool = False) -> None:
    """Write a checkpoint and report it; every rank must call this."""
    run.reporter.phase("saving")
    position = run.position
    state = {name: part.state_dict() for name, part in run.parts().items()}
    state |= {
        "position": position.plain(),
        "values": run.values,
        "geometry": run.decoder.settings.geometry,
    }
    state |= {"feature_dim": run.decoder.settings.feature_dim, "meaning": MEANING}
    saved = run.folder.save(
        state, epoch=position.epoch, step=position.step, step_in_epoch=position.in_epoch, best=best
    )
    run.reporter.checkpoint(saved, position.epoch + (position.in_epoch > 0), position.step, best)
    if not best:
        run.saved_step = position.step
    if saved is not None and not best:
        run.saved = saved[0]
        # The guide's name for the newest one, beside the folder of checkpoints.
        name = f"decoder_exp{run.settings.experiment}_lastcheckpoint.pt"
        name_also(saved[0], run.settings.output_dir / name)


def resolve_geometry(settings: argparse.Namespace) -> str:
    """Return the geometry to use: the one asked for, else the checkpoint's, else ours."""
    if settings.geometry != "auto":
        return str(settings.geometry)
    if settings.resume in (None, "auto", "auto-or-new"):
        return "patch"
    path = expanded(settings.resume).absolute()
    content = read_any(path)
    foreign = as_foreign(content, path)
    return foreign.geometry if foreign else geometry_of(content)


def foreign_checkpoint(settings: argparse.Namespace, ranks: Ranks) -> tuple[Foreign, Path] | None:
    """Return what `--resume PATH` holds where another program wrote it."""
    asked = settings.resume
    if asked in (None, "auto", "auto-or-new"):
        return None
    path = expanded(asked).absolute()
    # Every rank reads it; an error is told once, by all.
    from_leader(ranks, lambda: read_any(path).keys() and None)
    foreign = as_foreign(read_any(path), path)
    return None if foreign is None else (foreign, path)


def resume_foreign(run: GaussianRun, foreign: Foreign, path: Path) -> None:
    """Go on from another program's checkpoint, at its next epoch."""
    warnings = load_weights(run.decoder, foreign, path)
    run.position.slots = run.decoder.slots
    fitting = foreign.geometry == run.decoder.settings.geometry
    if fitting and foreign.optimiser is not None:
        parameters = list(run.decoder.parameters())
        warning = load_optimiser(run.optimiser, foreign.optimiser, parameters)
        warnings += [warning] if warning else []
    if fitting:
        run.position.epoch = min(foreign.epoch, run.settings.epochs)
        run.position.step = run.position.epoch * run.steps_per_epoch
    if foreign.blur is not None and abs(foreign.blur - run.settings.blur) > 1e-3:
        warnings.append(
            "it was trained with a blur of 0.3 px²: --blur 0.3 goes on so, here"
            f" {run.settings.blur:g}"
        )
    whose = "the Fresnel project's" if foreign.upstream else "this trainer's first version's"
    run.reporter.write(f"resume       {path}, {whose}: {foreign.epoch} whole epochs are done")
    for warning in warnings:
        run.reporter.warn(f"resume: {warning}")


def resume(run: GaussianRun) -> Path | None:
    """Bring the run to where our own checkpoint left it; return its path, or None to begin anew."""
    found = find_checkpoint(run.settings.resume, run.folder, run.ranks, IDENTITY)
    if found is None:
        return None
    content, path, warnings = found
    refuse_other_decoder(run, content, path)
    refuse_older_meaning(content, run.decoder.settings, path)
    for name, part in run.parts().items():
        if name in content:
            part.load_state_dict(content[name])
        else:
            warnings.append(
                f"it holds no averaged weights: {name} begins with the weights themselves"
            )
            run.ema = Ema(run.decoder, run.settings.ema)
    run.position, run.values = GaussianPosition(**content["position"]), dict(content["values"])
    position = run.position
    position.step, position.in_epoch = run.reporter.recount(
        position.step, position.epoch, position.used, run.batch, run.steps_per_epoch
    )
    restore_and_warn(run, content, warnings)
    return path


def refuse_other_decoder(run: GaussianRun, content: dict[str, Any], path: Path) -> None:
    """Raise SettingsError naming the first settings that make a checkpoint another decoder's."""
    current, saved = run.decoder.state_dict(), content["model"]
    if {name: tuple(part.shape) for name, part in current.items()} == {
        name: tuple(part.shape) for name, part in saved.items()
    }:
        return
    names = (
        "experiment", "gaussians_per_patch", "feature_dim", "use_depth_fusion", "use_pose_encoding",
        "n_spiral_points", "nca_neighbors", "depth_feature_dim",
    )  # fmt: skip
    settings = vars(run.settings)
    differing = [
        f"{name} is {content['settings'].get(name)!r} there and {settings[name]!r} here"
        for name in names
        if content["settings"].get(name) != settings[name]
    ]
    raise SettingsError(
        f"--resume: {path} is of another decoder: {'; '.join(differing) or 'other layers'}"
    )
