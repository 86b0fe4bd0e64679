"""What the skull trainers say of a model they export."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.common.model_card import MADE_UP_LICENCE, ModelCard

NO_DEVICE = "No medical device: not for planning an operation, not validated on anybody's patients."
OF_THE_MACHINE = {
    "path", "val_path", "output_dir", "checkpoint_dir", "config", "configuration", "model",
    "resume", "device", "workers", "threads", "made_up_root", "tensorboard", "wandb", "train_path",
    "eval_path", "wandb_project", "wandb_entity", "wandb_name", "no_wandb", "values", "gpu",
    "data.train_path", "data.eval_path", "data.path", "train.out_dir", "test.model_file",
}  # fmt: skip
"""Settings that say where and how a run worked, which a card leaves away."""


def skull_card(
    title: str,
    trainer: str,
    about: str,
    counts: Mapping[str, Any],
    figures: Mapping[str, float],
    settings: Mapping[str, Any],
    made_up: bool,
) -> ModelCard:
    """Return a card: data without paths, figures, and settings that are not of the machine."""
    source = "skulls made up by trainers/skulls/made_up.py" if made_up else "skulls of the user"
    kept = {name: value for name, value in settings.items() if name not in OF_THE_MACHINE}
    licence = MADE_UP_LICENCE if made_up else ""
    data = {"source": source, **counts}
    return ModelCard(title, trainer, about, data, figures, kept, licence, (NO_DEVICE,))


def skull_counts(training: Any, held_out: Any) -> dict[str, str]:
    """Return how many samples of how many skulls there are, from lists of what has a subject."""

    def counted(samples: Any) -> str:
        skulls = len({sample.subject for sample in samples})
        return f"{len(samples)} samples of {skulls} skulls"

    return {"trained on": counted(training), "judged on": counted(held_out) if held_out else "none"}


def folder_of(settings: argparse.Namespace) -> Path:
    """Return a run's folder of checkpoints, where its exported model goes too."""
    named: Path | None = getattr(settings, "checkpoint_dir", None)
    return (named or settings.output_dir / "checkpoints").absolute()
