"""A run's configuration: the guide's JSON files, each key acting or refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainers.cascade.config_keys import (
    ALIASES,
    STAGE_KEY,
    ConfigSection,
    check_sections,
    read_section,
    section_of,
    unify,
)
from trainers.cascade.conventions import read_geometry
from trainers.cascade.geometry import Geometry
from trainers.cascade.model import StageSizes
from trainers.cascade.projector import VIEWS
from trainers.common.config_file import count_comments, read_config_file
from trainers.common.settings_parser import SettingsError

MOST_TOKENS_A_SIDE = 32


STAGE_KEYS = {
    "training.batch_size": ("batch_size_stage", "--batch_size"),
    "training.num_epochs_per_stage": ("num_epochs_stage", "--epochs"),
}
"""Keys that a stage's own win over, how those begin, and the flag that wins over all."""


@dataclass(frozen=True)
class StageSettings:
    """One stage: its sizes, its loss, its batch for each GPU, its epochs and its place, from 1."""

    number: int
    sizes: StageSizes
    physics_weight: float
    batch_size: int
    epochs: int

    @property
    def name(self) -> str:
        """The stage's name, which its checkpoints begin with."""
        return self.sizes.name


@dataclass(frozen=True)
class Config:
    """Everything that a configuration file decides, by its keys' names."""

    name: str
    views: tuple[str, ...]
    image_size: int
    stages: tuple[StageSettings, ...]
    training: dict[str, Any]
    data: dict[str, Any]
    checkpointing: dict[str, Any]
    logging: dict[str, Any]
    notes: tuple[str, ...]
    geometry: Geometry
    stated_geometry: dict[str, Any] | None


def read_config(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Return the configuration in a file, with overrides such as {"training.batch_size": 4}.

    Raises SettingsError, naming file and key, for whatever is unknown, of the wrong type, out of
    range or without effect by design; what merely has no effect here is told in the notes.
    """
    content = read_config_file(path)
    notes = []
    if comments := count_comments(path):
        notes.append(
            f"{path.name}: {comments} comments passed over"
            " (JSON has none; other programs will refuse them)"
        )
    overrides = overrides or {}
    for dotted, (beginning, flag) in STAGE_KEYS.items():
        if dotted in overrides and isinstance(content.get("training"), dict):
            for key in [key for key in content["training"] if key.startswith(beginning)]:
                notes.append(f"training.{key} gives way to {flag}")
                del content["training"][key]
    try:
        for dotted, value in overrides.items():
            section, key = dotted.split(".")
            inside = section_of(content, section)
            inside[key] = value
            for old, new in ALIASES.items():
                if old.startswith(section) and new == key:
                    inside.pop(old.rpartition(".")[2], None)
        return build_config(unify(content, notes), notes)
    except SettingsError as problem:
        raise SettingsError(f"--config: {path}: {problem}") from problem


def build_config(content: dict[str, Any], notes: list[str]) -> Config:
    """Return the configuration of content in multi_view_config.json's schema; extends notes."""
    check_sections(content)
    xray = read_section(ConfigSection.XRAY, content.get("xray_config", {}))
    training = read_section(ConfigSection.TRAINING, content.get("training", {}))
    data = read_section(ConfigSection.DATA, content.get("data", {}))
    checkpointing = read_section(ConfigSection.CHECKPOINTING, content.get("checkpointing", {}))
    logging = read_section(ConfigSection.LOGGING, content.get("logging", {}))
    logging["wandb"] = read_section(ConfigSection.WANDB, logging["wandb"] or {})
    views, geometry = read_views(xray), read_geometry(xray["geometry"])
    if data["augmentation"] and not geometry.mirrors:
        notes.append(
            "augmentation: no patient is mirrored, a cone beam's lateral view would change"
        )
    raw_stages = content.get("stage_configs")
    if not isinstance(raw_stages, list) or not raw_stages:
        raise SettingsError("stage_configs must be a list of at least one stage")
    stages: list[StageSettings] = []
    for number, raw in enumerate(raw_stages, start=1):
        stages.append(read_stage(number, raw, stages, views, xray, training, notes))
    check_together(stages, xray, training, data, notes)
    name = str(content.get("model_name", "hybrid-vit-cascade"))
    return Config(
        name,
        views,
        xray["img_size"],
        tuple(stages),
        training,
        data,
        checkpointing,
        logging,
        tuple(notes),
        geometry,
        xray["geometry"],
    )


def read_views(xray: dict[str, Any]) -> tuple[str, ...]:
    """Return the views in use. Raises SettingsError where view_types and num_views disagree."""
    count, named = xray["num_views"], xray["view_types"]
    if named is None:
        return VIEWS[:count]
    if not named or len(set(named)) != len(named) or any(name not in VIEWS for name in named):
        raise SettingsError(
            f"xray_config.view_types must be some of {', '.join(VIEWS)}, each once; found {named}"
        )
    if len(named) != count:
        raise SettingsError(f"xray_config: num_views is {count}, but view_types names {len(named)}")
    return tuple(view for view in VIEWS if view in named)


def read_stage(
    number: int,
    raw: Any,
    before: list[StageSettings],
    views: tuple[str, ...],
    xray: dict[str, Any],
    training: dict[str, Any],
    notes: list[str],
) -> StageSettings:
    """Return one stage, checked against the stages before it. Raises SettingsError naming the
    stage.
    """
    where = f"stage_configs[{number - 1}]"
    stage = read_section(ConfigSection.STAGE, raw, where)
    size, dim, heads = stage["volume_size"][0], stage["voxel_dim"], stage["num_heads"]
    name = stage["name"] or f"stage{number}"
    if len(set(stage["volume_size"])) != 1:
        raise SettingsError(
            f"{where}.volume_size must be a cube such as [64, 64, 64]; found {stage['volume_size']}"
        )
    if dim % heads or dim % 2:
        raise SettingsError(
            f"{where}: voxel_dim {dim} must be even and divisible by num_heads {heads}"
        )
    patch = stage["patch_size"] or default_patch(size)
    if size % patch:
        raise SettingsError(f"{where}: volume_size {size} is not divisible by patch_size {patch}")
    if before and size < before[-1].sizes.size:
        raise SettingsError(
            f"{where}: {size} is smaller than the stage before ({before[-1].sizes.size})"
        )
    if name in {stage.name for stage in before}:
        raise SettingsError(
            f"{where}: the name {name} is taken; each stage's checkpoints need their own"
        )
    weight = stage["physics_weight"] if stage["use_physics_loss"] else 0.0
    if stage["physics_weight"] and not stage["use_physics_loss"]:
        notes.append(f"{name}: physics_weight has no effect while use_physics_loss is false")
    if stage["use_physics_loss"] and not weight:
        notes.append(f"{name}: use_physics_loss has no effect while physics_weight is 0")
    previous = before[-1].sizes.size if before else None
    sizes = StageSizes(
        name, size, patch, dim, stage["vit_depth"], heads, stage["head_channels"],
        stage["use_depth_lifting"], views, xray["share_view_weights"], xray["img_size"], previous,
        read_geometry(xray["geometry"]),
    )  # fmt: skip
    batch = training.get(f"batch_size_stage{number}") or training["batch_size"]
    epochs = training.get(f"num_epochs_stage{number}") or training["num_epochs_per_stage"]
    return StageSettings(number, sizes, weight, batch, epochs)


def default_patch(size: int) -> int:
    """Return voxels per side of a token, at least 2.

    There are 16 tokens a side up to 64 voxels, as upstream, and 32 above.
    """
    return max(2, size // 16 if size <= 64 else size // MOST_TOKENS_A_SIDE)


def check_together(
    stages: list[StageSettings],
    xray: dict[str, Any],
    training: dict[str, Any],
    data: dict[str, Any],
    notes: list[str],
) -> None:
    """Check what involves several keys; raises SettingsError or extends notes."""
    size = data["target_xray_size"]
    if size is not None and size != xray["img_size"]:
        raise SettingsError(
            f"data.target_xray_size {size} and xray_config.img_size {xray['img_size']} must agree"
        )
    total = data["train_split"] + data["val_split"] + data["test_split"]
    if abs(total - 1) > 1e-6:
        raise SettingsError(
            f"data: train_split, val_split and test_split add up to {total:g}, not 1"
        )
    for key in sorted(key for key in training if STAGE_KEY.fullmatch(key)):
        if int(key.rpartition("stage")[2]) > len(stages):
            notes.append(f"training.{key} has no effect: there are {len(stages)} stages")
    if len(xray["view_types"] or ()) == 1 or xray["num_views"] == 1:
        notes.append(
            "one view: depth along its rays can only be guessed from what patients look like"
        )
