"""A trained cascade from a checkpoint alone, for sampling: no configuration file is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from trainers.cascade.cascade import Cascade
from trainers.cascade.config import Config, build_config
from trainers.cascade.patients import Calibration, three_numbers
from trainers.common.checkpoint import load_checkpoint
from trainers.common.settings_parser import SettingsError
from trainers.common.weights import SUFFIX, check_trained, read_weights


def config_of(settings: dict[str, Any]) -> Config:
    """Return the configuration that a checkpoint's settings describe."""
    views = settings["xray"]["views"]
    xray = {"img_size": settings["xray"]["img_size"], "num_views": len(views), "view_types": views,
            "share_view_weights": settings["xray"]["share_view_weights"],
            "geometry": settings["xray"].get("geometry")}  # fmt: skip
    stages = []
    for stage in settings["stages"]:
        described = dict(stage)
        described.pop("batch_size", None)
        described["volume_size"] = [stage["volume_size"]] * 3
        described["use_physics_loss"] = stage["physics_weight"] > 0
        stages.append(described)
    training = dict(settings["training"])
    content = {"xray_config": xray, "stage_configs": stages, "training": training}
    return build_config(content, [])


def read_content(path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds, or as much of it as an exported file does."""
    if path.suffix != SUFFIX:
        return load_checkpoint(path)
    weights, described = read_weights(path)
    return {"ema": None, **(described or {}), "model_state_dict": weights}


def load_cascade(path: Path, device: torch.device) -> tuple[Cascade, Calibration, dict[str, Any]]:
    """Return a file's stages with averaged weights, what its X-rays meant, its content.

    The file is a checkpoint of train.py or the safetensors it exports.
    Raises SettingsError where the file is none of this trainer's.
    """
    content = read_content(path)
    if "position" not in content or "calibration" not in content:
        raise SettingsError(f"--checkpoint: {path} is not a checkpoint of this trainer")
    config = config_of(content["settings"])
    cascade = Cascade.of(config)
    number = int(content["position"]["stage"])
    cascade.load(content["model_state_dict"], number, device)
    cascade.levels = [float(level) for level in content["levels"]]
    if content["ema"]:
        cascade.stages[-1].load_state_dict(content["ema"]["weights"])
    for stage in cascade.stages:
        check_trained(stage, path)
    saved = content["calibration"]
    calibration = Calibration(
        saved["kind"], saved["maximum"], three_numbers(saved["field_of_view"])
    )
    return cascade, calibration, content
