"""Every key of a configuration file: its type, range and default, or why it is refused.

Keys and defaults follow the Hybrid-ViT-Cascade project's files of December 2025 and January 2026
(multi_view_config, single_view, runpod, progressive_3stage, quick_2stage); those that are ours
alone say so.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainers.common.settings_parser import SettingsError

Reader = Callable[[Any], Any]


class ConfigSection(Enum):
    """The sections of a configuration file, by the name an error calls them."""

    XRAY = "xray_config"
    STAGE = "stage_configs[]"
    TRAINING = "training"
    DATA = "data"
    CHECKPOINTING = "checkpointing"
    LOGGING = "logging"
    WANDB = "logging.wandb"


@dataclass(frozen=True)
class Key:
    """How a key's value is read, and what it is where the file does not say."""

    read: Reader
    default: Any


def whole(least: int, most: int = 10**9) -> Reader:
    """Return a reader of whole numbers in a range."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return read


def real(least: float, most: float) -> Reader:
    """Return a reader of numbers in a range, both ends included."""

    def read(value: Any) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not least <= value <= most
        ):
            raise ValueError(f"a number from {least:g} to {most:g}")
        return float(value)

    return read


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def text(value: Any) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("a text in quotes")
    return value


def one_of(*choices: Any) -> Reader:
    """Return a reader of some fixed values."""

    def read(value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise ValueError("one of " + ", ".join(str(choice) for choice in choices))
        return value

    return read


def three_sizes(value: Any) -> list[int]:
    """Read a volume's size, such as [64, 64, 64]."""
    if (
        not isinstance(value, list)
        or len(value) != 3
        or not all(type(part) is int and part >= 4 for part in value)
    ):
        raise ValueError("three whole numbers from 4, such as [64, 64, 64]")
    return value


def texts(value: Any) -> list[str]:
    """Read a list of texts."""
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise ValueError("a list of texts")
    return value


def table(value: Any) -> dict[str, Any]:
    """Read a section inside a section."""
    if not isinstance(value, dict):
        raise ValueError("a section in braces")
    return value


def unit_range(value: Any) -> list[float]:
    """Read normalize_range, of which only [-1, 1] is right here."""
    if not isinstance(value, list) or [
        float(part) for part in value if isinstance(part, (int, float))
    ] != [-1, 1]:
        raise ValueError(
            "[-1, 1]: noise of deviation 1 is added to it, and it stands for [-1024, 1024] HU"
        )
    return value


def precision(value: Any) -> str:
    """Read mixed_precision; true and false are fp16 and no."""
    if isinstance(value, bool):
        return "fp16" if value else "no"
    return {"fp32": "no", "none": "no"}.get(value) or one_of("no", "fp16", "bf16", "auto")(value)


KEYS: dict[ConfigSection, dict[str, Key]] = {
    ConfigSection.XRAY: {
        "img_size": Key(whole(16, 4096), 512),
        "num_views": Key(whole(1, 2), 2),
        "share_view_weights": Key(flag, True),
        "view_types": Key(texts, None),
        "channels": Key(one_of(1), 1),
        # Ours: how the rays run, in one of the conventions of conventions.py; null: parallel.
        "geometry": Key(table, None),
    },
    ConfigSection.STAGE: {
        "name": Key(text, None),
        "volume_size": Key(three_sizes, [64, 64, 64]),
        "voxel_dim": Key(whole(8, 8192), 256),
        "vit_depth": Key(whole(1, 128), 4),
        "num_heads": Key(whole(1, 128), 4),
        "use_depth_lifting": Key(flag, True),
        "use_physics_loss": Key(flag, True),
        "physics_weight": Key(real(0, 1000), 0.1),
        # Ours: voxels per side of a token, and channels of the head that gives each voxel a value.
        "patch_size": Key(whole(1, 64), None),
        "head_channels": Key(whole(4, 512), 16),
    },
    ConfigSection.TRAINING: {
        "num_timesteps": Key(whole(2, 100_000), 1000),
        "v_parameterization": Key(flag, True),
        "batch_size": Key(whole(1), 4),
        "learning_rate": Key(real(1e-9, 1), 1e-4),
        "num_epochs_per_stage": Key(whole(1), 100),
        "gradient_clip": Key(real(0, 1e6), 1.0),
        "ema_decay": Key(real(0, 0.999999), 0.9999),
        "weight_decay": Key(real(0, 10), 0.01),
        "gradient_checkpointing": Key(flag, False),
        "mixed_precision": Key(precision, "no"),
        "accumulation_steps": Key(whole(1, 10_000), 1),
        # Ours: see the README.
        "warmup_steps": Key(whole(0), 500),
        "sampling_steps": Key(whole(1, 1000), 25),
        "validation_samples": Key(whole(1, 64), 1),
        "validation_patients": Key(whole(1), 8),
        "conditioning_noise": Key(real(0, 2), 0.4),
        "centred": Key(flag, True),
    },
    ConfigSection.DATA: {
        "dataset_path": Key(text, "./data/drr_patient_data"),
        "train_split": Key(real(0, 1), 0.8),
        "val_split": Key(real(0, 1), 0.1),
        "test_split": Key(real(0, 1), 0.1),
        "normalize_range": Key(unit_range, [-1, 1]),
        "target_xray_size": Key(whole(16, 4096), None),
        "validate_alignment": Key(flag, True),
        "augmentation": Key(flag, False),
        "cache_in_memory": Key(flag, False),
        "flip_drrs_vertical": Key(flag, False),
        "max_patients": Key(whole(3), None),
        "num_workers": Key(whole(0, 256), 4),
        # Ours: what a pixel of an X-ray means; auto asks calibration.json in the dataset's folder.
        "xray_calibration": Key(one_of("auto", "line_integral", "transmission", "none"), "auto"),
        "xray_maximum": Key(real(1e-6, 1e6), None),
    },
    ConfigSection.CHECKPOINTING: {
        "checkpoint_dir": Key(text, None),
        "save_every_n_epochs": Key(whole(1), None),
        "keep_last_n_checkpoints": Key(whole(0), 3),
    },
    ConfigSection.LOGGING: {
        "wandb": Key(table, None),
        "log_every_n_steps": Key(whole(1), None),
        "validate_every_n_epochs": Key(whole(1), 1),
    },
    ConfigSection.WANDB: {"enabled": Key(flag, False), "project": Key(text, "hybrid-vit-cascade")},
}

ALIASES = {
    "training.gradient_accumulation_steps": "accumulation_steps",
    "training.num_epochs": "num_epochs_per_stage",
    "logging.wandb.use_wandb": "enabled",
    "checkpointing.save_dir": "checkpoint_dir",
    "checkpointing.save_every": "save_every_n_epochs",
}

REFUSED = {
    "training.l1_weight": "it belongs to the regression programs; this one learns by diffusion",
    "training.ssim_weight": "it belongs to the regression programs; this one learns by diffusion",
    "training.pin_memory": "memory is pinned whenever there is a GPU",
    "data.pin_memory": "memory is pinned whenever there is a GPU",
}

SECTIONS = {
    "model_name", "description", "xray_config", "stage_configs", "training", "data",
    "checkpointing", "logging",
}  # fmt: skip
OTHER_PROGRAMS = {"model", "loss", "checkpoints"}
STAGE_KEY = re.compile(r"(batch_size|num_epochs)_stage[1-9]\d?")
"""What a stage has of its own, in place of `batch_size` and `num_epochs_per_stage`."""


def unify(content: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return content of either schema in that of multi_view_config.json; extends notes.

    Keys that start with an underscore are comments of people who know that JSON has none.
    """
    content = {key: value for key, value in content.items() if not key.startswith("_")}
    moved = {
        "stages": ("stage_configs", None),
        "xray_img_size": ("xray_config", "img_size"),
        "xray_channels": ("xray_config", "channels"),
        "num_views": ("xray_config", "num_views"),
    }
    for key in [key for key in moved if key in content]:
        section, inner = moved[key]
        if inner is None and section in content:
            raise SettingsError(f"both {key} and {section} are given; keep one")
        value = content.pop(key)
        if inner is None:
            content[section] = value
        else:
            section_of(content, section)[inner] = value
        notes.append(f"{key} is read as {section}{'.' + inner if inner else ''}")
    training = content.get("training")
    if isinstance(training, dict) and "num_workers" in training:
        content["training"] = {
            key: value for key, value in training.items() if key != "num_workers"
        }
        section_of(content, "data").setdefault("num_workers", training["num_workers"])
    return content


def section_of(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a section to put values into. Raises SettingsError where it is something else."""
    found = content.setdefault(name, {})
    if not isinstance(found, dict):
        raise SettingsError(f"{name} must be a section in braces")
    return found


def check_sections(content: dict[str, Any]) -> None:
    """Raise SettingsError for sections that are unknown or of another program."""
    foreign = sorted(OTHER_PROGRAMS & content.keys())
    if foreign:
        raise SettingsError(
            f"the sections {', '.join(foreign)} are those of the regression programs"
            " (config_direct.json, config_progressive.json); this program trains the diffusion"
            " cascade of multi_view_config.json"
        )
    for key in content.keys() - SECTIONS:
        raise SettingsError(f"unknown section {key}{suggestion(key, sorted(SECTIONS))}")


def read_section(section: ConfigSection, raw: Any, where: str | None = None) -> dict[str, Any]:
    """Return every key of a section with its value or default. Raises SettingsError naming a key
    that is wrong.
    """
    where = where or section.value
    if not isinstance(raw, dict):
        raise SettingsError(f"{where} must be a section in braces")
    keys = KEYS[section]
    found = {name: key.default for name, key in keys.items()}
    given: dict[str, str] = {}
    for name, value in raw.items():
        if name.startswith("_"):
            continue
        dotted = f"{section.value}.{name}"
        if dotted in REFUSED:
            raise SettingsError(f"{where}.{name} is refused: {REFUSED[dotted]}")
        known = ALIASES.get(dotted, str(name))
        if known in given:
            raise SettingsError(f"{where}: {given[known]} and {name} say the same; keep one")
        given[known] = name
        if section is ConfigSection.TRAINING and STAGE_KEY.fullmatch(known):
            read: Reader = whole(1)
        elif known in keys:
            read = keys[known].read
        else:
            raise SettingsError(f"unknown key {where}.{name}{suggestion(name, sorted(keys))}")
        try:
            empty = value is None and known in keys and keys[known].default is None
            found[known] = None if empty else read(value)
        except (ValueError, TypeError) as problem:
            raise SettingsError(f"{where}.{name} is {value!r}; expected {problem}") from problem
    return found


def suggestion(name: str, known: list[str]) -> str:
    """Return a phrase that names the nearest known key, or where to look."""
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
