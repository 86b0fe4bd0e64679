"""A run in the middle of its work: its state, its position, saving and resuming."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainers.cascade.cascade import Cascade
from trainers.cascade.config import Config, StageSettings
from trainers.cascade.dataset import PatientData, Splits
from trainers.cascade.model import complete_older_weights
from trainers.cascade.patients import Calibration
from trainers.common.checkpoint import CheckpointFolder, load_checkpoint
from trainers.common.compiling import compile_network
from trainers.common.config_file import flat_keys
from trainers.common.ema import Ema
from trainers.common.precision import Precision
from trainers.common.randomness import restore_rank_state, seed_everything
from trainers.common.ranks import Ranks, wrap_model
from trainers.common.reporter import Reporter
from trainers.common.resuming import changes_on_resume, differences, find_checkpoint
from trainers.common.settings_parser import SettingsError
from trainers.common.stopping import StopRequest

TRAINER = "cascade"
IDENTITY = ("xray", "stages", "data")


@dataclass
class CascadePosition:
    """Where a run stands: stage from 1, epochs in it, patients of the next, sums of that epoch."""

    stage: int = 1
    epoch: int = 0
    used: int = 0
    step_in_stage: int = 0
    step: int = 0
    epochs_before: int = 0
    best: float = float("inf")
    sums: dict[str, float] = field(default_factory=dict)


@dataclass
class CascadeRun:
    """Everything a step needs."""

    settings: argparse.Namespace
    config: Config
    ranks: Ranks
    stop: StopRequest
    splits: Splits
    calibration: Calibration
    reporter: Reporter
    folder: CheckpointFolder
    cascade: Cascade
    position: CascadePosition = field(default_factory=CascadePosition)
    data: PatientData | None = None
    model: nn.Module | None = None
    optimiser: torch.optim.Optimizer | None = None
    ema: Ema | None = None
    precision: Precision | None = None
    resumed_from: Path | None = None
    saved_step: int = 0

    @property
    def stage(self) -> StageSettings:
        """The stage that is trained."""
        return self.config.stages[self.position.stage - 1]

    @property
    def epochs(self) -> int:
        """Epochs of the stage that is trained."""
        return self.stage.epochs

    def batch(self, number: int) -> int:
        """Patients of one step of a stage, over all devices and accumulated batches."""
        each = self.config.stages[number - 1].batch_size * self.ranks.world
        return each * int(self.config.training["accumulation_steps"])

    def steps_per_epoch(self, number: int) -> int:
        """How many optimiser steps an epoch of a stage has."""
        return -(-len(self.splits.train) // self.batch(number))

    def begin_stage(self) -> None:
        """Make the current stage's network, optimiser, average and scaler, alike on every rank."""
        training, number = self.config.training, self.position.stage
        # A stage's first weights follow from the seed and its number, resumed before it or not.
        seed_everything(self.settings.seed + 7919 * number)
        while len(self.cascade.stages) >= number:
            self.cascade.stages.pop()
        network = self.cascade.add_stage(self.ranks.device)
        asked, graphs = self.settings.compile, self.settings.cuda_graphs
        parts = int(training["accumulation_steps"])
        compile_network(asked, network, self.ranks.device, graphs, parts, network.regions)
        self.model = wrap_model(network, self.ranks, broadcast_buffers=False)
        seed_everything(self.settings.seed + 7919 * number, self.ranks.rank)
        self.optimiser = torch.optim.AdamW(
            network.parameters(),
            lr=training["learning_rate"],
            weight_decay=training["weight_decay"],
        )
        self.ema = Ema(network, training["ema_decay"]) if training["ema_decay"] else None
        precision = precision_name(training["mixed_precision"])
        self.precision = Precision(precision, self.ranks.device, volumes=True)
        if self.precision.trouble:
            self.reporter.warn(f"precision fp32: {self.precision.trouble}")
        cache = self.settings.checkpoint_dir / "cache"
        everyone = [*self.splits.train, *self.splits.val, *self.splits.test]
        size = self.stage.sizes.size
        self.data = PatientData(self.config, self.calibration, cache, size, everyone)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside what CheckpointFolder adds."""
        assert self.optimiser is not None and self.precision is not None
        number = self.position.stage
        weights = self.cascade.state_dict()
        return {
            "stage_name": self.stage.name,
            "epoch": self.position.epoch - 1,
            "model_state_dict": {
                name: tensor.detach().cpu().clone() for name, tensor in weights.items()
            },
            "optimizer_state_dict": self.optimiser.state_dict(),
            "ema": self.ema.state_dict() if self.ema else None,
            "precision": self.precision.state_dict(),
            "position": asdict(self.position),
            "levels": [float(level) for level in self.cascade.levels[: number - 1]],
            "calibration": {
                "kind": self.calibration.kind,
                "maximum": self.calibration.maximum,
                "field_of_view": list(self.calibration.field_of_view or ()),
            },
        }

    def save(self, values: dict[str, float] | None = None, best: bool = False) -> None:
        """Write a checkpoint, numbered or stageN_best.pt, and report it; every rank calls this."""
        position = self.position
        epoch = position.epochs_before + position.epoch
        measured = {name: float(value) for name, value in (values or {}).items()}
        state = {
            **self.state(),
            "values": measured,
            "val_loss": measured.get("val_loss", float("nan")),
        }
        name = f"{self.stage.name}_best.pt" if best else ""
        self.saved_step = self.saved_step if best else position.step
        saved = self.folder.save(
            state, epoch=epoch, step=position.step, step_in_epoch=position.used, name=name
        )
        self.reporter.checkpoint(saved, epoch + (position.used > 0), position.step, best)


def precision_name(mixed_precision: str) -> str:
    """Return the shared trainers' word for a configuration's."""
    return "fp32" if mixed_precision == "no" else mixed_precision


def resume(run: CascadeRun) -> Path | None:
    """Bring a run to where --resume_from left off; return the file, or None to begin anew.

    Every rank does so alike. stageN_best.pt goes on with its stage; --start_stage begins a stage
    anew on top of the finished ones. Raises SettingsError where the file is another model's, or
    lacks the stages before the one to start.
    """
    asked, start = run.settings.resume_from, run.settings.start_stage
    if start and start > len(run.config.stages):
        raise SettingsError(f"--start_stage {start}: there are {len(run.config.stages)} stages")
    found = find_checkpoint(asked, run.folder, run.ranks, IDENTITY)
    if found is None:
        if start and start > 1:
            raise SettingsError(
                f"--start_stage {start} needs --resume_from with stages 1 to {start - 1}"
            )
        run.begin_stage()
        return None
    content, path, warnings = found
    for warning in [*warnings, *changes(content, run.folder)]:
        run.reporter.warn(f"resume: {warning}")
    check_model(content, run, path)
    run.resumed_from = path
    saved = CascadePosition(**content["position"])
    if start and start != saved.stage:
        restart_at(run, content, saved, start, path)
        return path
    run.position = saved
    if start:
        run.position = CascadePosition(
            saved.stage, 0, 0, 0, saved.step - saved.step_in_stage, saved.epochs_before
        )
    load_finished(run, content, saved.stage - 1)
    run.begin_stage()
    if not start:
        take_up(run, content)
    return path


RUN_ONLY = {
    "resume_from", "start_stage", "checkpoint_dir", "log_dir", "tensorboard", "wandb",
    "wandb_project", "keep", "save_every", "made_up", "config", "device", "threads", "compile",
    "data.num_workers", "data.cache_in_memory",
}  # fmt: skip
"""What a resumed run may have otherwise without a word."""


def changes(content: dict[str, Any], folder: CheckpointFolder) -> list[str]:
    """Return a line for every key that differs from the checkpoint's, and for the world size."""
    saved, current = (
        dict(flat_keys(by_number(settings))) for settings in (content["settings"], folder.settings)
    )
    lines = differences(saved, current, sorted((saved.keys() | current.keys()) - RUN_ONLY))
    return [*lines, *changes_on_resume(content, folder, {*content["settings"], *folder.settings})]


def by_number(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the list of stages as a mapping from their numbers."""
    stages = {str(number): stage for number, stage in enumerate(settings["stages"], start=1)}
    return {**settings, "stages": stages}


def check_model(content: dict[str, Any], run: CascadeRun, path: Path) -> None:
    """Raise SettingsError naming what differs where a checkpoint is of another model."""
    if "position" not in content or "model_state_dict" not in content:
        raise SettingsError(f"--resume_from: {path} is not a checkpoint of this trainer")
    saved, current = content["settings"], run.folder.settings
    if saved["xray"] != current["xray"]:
        raise SettingsError(
            f"--resume_from: {path} saw X-rays as {saved['xray']}, this run as {current['xray']}"
        )
    for number, (old, new) in enumerate(
        zip(saved["stages"], current["stages"], strict=False), start=1
    ):
        for key in old.keys() - {"physics_weight", "batch_size"}:
            if old[key] != new.get(key):
                raise SettingsError(
                    f"--resume_from: {path}: stage {number} has {key} {old[key]} there"
                    f" and {new.get(key)} here"
                )
    for key in ("num_timesteps", "v_parameterization"):
        if saved["training"][key] != current["training"][key]:
            raise SettingsError(
                f"--resume_from: {path} has another training.{key}: {saved['training'][key]}"
            )


def load_finished(run: CascadeRun, content: dict[str, Any], count: int) -> None:
    """Give the run the stages that were finished when a checkpoint was written."""
    run.cascade.load(content["model_state_dict"], count, run.ranks.device)
    run.cascade.levels = [float(level) for level in content["levels"][:count]]


def take_up(run: CascadeRun, content: dict[str, Any]) -> None:
    """Go on with the current stage: weights, optimiser, average, scaler and random generators."""
    assert run.optimiser is not None and run.precision is not None
    network, name = run.cascade.stages[-1], run.stage.name
    beginning = f"stages.{name}."
    weights = content["model_state_dict"]
    network.load_state_dict(
        {k.removeprefix(beginning): w for k, w in weights.items() if k.startswith(beginning)}
    )
    run.optimiser.load_state_dict(content["optimizer_state_dict"])
    if run.ema and content["ema"]:
        complete_older_weights(network, content["ema"]["weights"])
        run.ema.load_state_dict(content["ema"])
    run.precision.load_state_dict(content["precision"])
    position, number = run.position, run.position.stage
    earlier = position.step - position.step_in_stage
    batch, each = run.batch(number), run.steps_per_epoch(number)
    position.step, _ = run.reporter.recount(
        position.step, position.epoch, position.used, batch, each, earlier
    )
    position.step_in_stage = position.step - earlier
    if warning := restore_rank_state(content["random"], run.ranks):
        run.reporter.warn(f"resume: {warning}")


def restart_at(
    run: CascadeRun, content: dict[str, Any], saved: CascadePosition, start: int, path: Path
) -> None:
    """Begin stage `start` anew on the finished stages of a checkpoint of another stage."""
    if start > saved.stage + 1:
        raise SettingsError(f"--start_stage {start}: {path} has no finished stage {start - 1}")
    load_finished(run, content, min(start - 1, saved.stage - 1))
    done = min(start - 1, saved.stage - 1)
    if start == saved.stage + 1:
        finish_from(run, content, saved.stage)
        done = saved.stage
    run.position = CascadePosition(
        start,
        epochs_before=sum(stage.epochs for stage in run.config.stages[:done]),
        step=saved.step if start > saved.stage else 0,
    )
    run.begin_stage()


def finish_from(run: CascadeRun, content: dict[str, Any], number: int) -> None:
    """Add stage `number` as finished: its averaged weights and their measured error."""
    network = run.cascade.add_stage(run.ranks.device)
    weights = content["ema"]["weights"] if content["ema"] else None
    beginning = f"stages.{run.config.stages[number - 1].name}."
    own = {
        k.removeprefix(beginning): w
        for k, w in content["model_state_dict"].items()
        if k.startswith(beginning)
    }
    network.load_state_dict(weights or own)
    if "rmse" not in content["values"]:
        raise SettingsError(
            f"{run.config.stages[number - 1].name} was never judged in this checkpoint;"
            " use its _best.pt"
        )
    run.cascade.levels = [*run.cascade.levels[: number - 1], float(content["values"]["rmse"])]


def place_best(run: CascadeRun) -> None:
    """Put the best weights of the current stage in place, as its _best.pt has them."""
    name = f"{run.stage.name}_best.pt"
    own = run.folder.folder / name
    before = run.resumed_from.with_name(name) if run.resumed_from else own
    paths = [path for path in dict.fromkeys((before, own)) if path.is_file()]
    found = [load_checkpoint(path) for path in paths or [own]]
    # An earlier run may have left one in this run's folder; and this run, killed, one that is
    # better than its checkpoint remembers.
    found.sort(key=lambda content: content["position"]["best"] != run.position.best)
    content = found[0]
    run.cascade.stages.pop()
    finish_from(run, content, run.position.stage)


def next_stage(run: CascadeRun) -> None:
    """Begin the stage after the current one, on that one's best weights."""
    position = run.position
    place_best(run)
    run.position = CascadePosition(
        position.stage + 1,
        step=position.step,
        epochs_before=position.epochs_before + position.epoch,
    )
    run.begin_stage()
