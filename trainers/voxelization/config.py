"""Configurations: the keys of the published YAML files, each of which acts or is refused.

A file may inherit another (`inherit_from`, relative to the file or the working directory) and name
environment variables as `${NAME:-default}`. Keys, values and the output folder are those of the
pcdiff-implant project's voxelization/configs.
"""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.common.config_file import flat_keys, read_config_file
from trainers.common.errors import SettingsError, nearest
from trainers.voxelization.model import Architecture

VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

DEFAULTS: dict[str, Any] = {
    "data.train_path": None,
    "data.eval_path": None,
    "data.num_offset": 7,
    "data.pointcloud_n": 30720,
    "data.pointcloud_noise": 0.0,
    "data.implant_noise": 0.0,
    "data.zero_level": 0.0,
    "data.dset": None,
    "data.path": None,
    "model.grid_res": 512,
    "model.psr_sigma": 2.0,
    "model.psr_tanh": True,
    "model.normal_normalize": False,
    "model.c_dim": 32,
    "model.s_offset": 0.001,
    "model.local_coord": True,
    "model.encoder_kwargs.hidden_dim": 32,
    "model.encoder_kwargs.grid_resolution": 32,
    "model.encoder_kwargs.unet3d_kwargs.num_levels": 3,
    "model.encoder_kwargs.unet3d_kwargs.f_maps": 32,
    "model.decoder_kwargs.sample_mode": "bilinear",
    "model.decoder_kwargs.hidden_size": 32,
    "train.gpu": 0,
    "train.batch_size": 2,
    "train.lr": 5e-4,
    "train.out_dir": "out/skullbreak",
    "train.w_psr": 1.0,
    "train.model_selection_metric": "psr_l2",
    "train.print_every": 10,
    "train.checkpoint_every": 5,
    "train.validate_every": 10,
    "train.backup_every": 100,
    "train.total_epochs": 1300,
    "train.visualize_every": 5000,
    "train.exp_pcl": False,
    "train.exp_mesh": False,
    "train.n_workers": 8,
    "train.n_workers_val": 0,
    "train.timestamp": False,
    "generation.generation_dir": "generation_ours",
    "generation.exp_gt": False,
    "generation.exp_input": True,
    "generation.psr_resolution": None,
    "generation.psr_sigma": None,
    "generation.num_ensemble": 5,
    "generation.save_ensemble_implants": False,
    "generation.compute_eval_metrics": True,
    "generation.defect_point_count": None,
    "generation.postprocess.method": "radius",
    "generation.postprocess.bbox_margin_voxels": 12,
    "generation.postprocess.radius_scale": 1.1,
    "test.model_file": None,
}

ONE_VALUE: dict[str, tuple[Any, str]] = {
    "data.dataset": ("SkullData", "there is one data set class"),
    "data.data_type": ("psr_full", "the target is the whole grid"),
    "data.input_type": ("pointcloud", "the network reads points"),
    "data.dim": (3, "points have three coordinates"),
    "data.num_gt_points": (10000, "only losses that are refused here would use it"),
    "data.padding": (0.1, "coordinates are clamped and never padded, upstream too"),
    "model.predict_normal": (True, "the Poisson solver needs normals"),
    "model.predict_offset": (True, "the offset decoder is part of the network"),
    "model.encoder": ("local_pool_pointnet", "there is one encoder"),
    "model.encoder_kwargs.plane_type": ("grid", "features lie on a 3D grid"),
    "model.encoder_kwargs.unet3d": (True, "the encoder has a 3D U-Net"),
    "model.decoder": ("simple_local", "there is one kind of decoder"),
    "train.w_reg_point": (0, "a chamfer loss; it is 0 in every published configuration"),
    "train.w_normals": (0, "a loss on normals; it is 0 in every published configuration"),
    "train.w_raw": (0, "a loss on meshes; it is 0 in every published configuration"),
    "train.gauss_weight": (0, "a weighted loss; it is 0 in every published configuration"),
    "generation.refinement.strategy": ("legacy", "use postprocess, or the mirror baseline instead"),
    "generation.postprocess.fallback": (
        "largest_component",
        "without generated points the largest piece is always what is left",
    ),
}

REFUSED = {
    "generation.refinement.": "the fork's refinement is not offered; the mirror baseline stands"
    " beside every figure instead"
}
"""Beginnings of keys that are refused whatever they say."""

BOUND_TO = {
    "model.encoder_kwargs.unet3d_kwargs.in_channels": "model.c_dim",
    "model.encoder_kwargs.unet3d_kwargs.out_channels": "model.c_dim",
}

METRICS = ("psr_l1", "psr_l2", "psr_iou")
CHOICES = {
    "train.model_selection_metric": METRICS,
    "data.dset": ("SkullBreak", "SkullFix"),
    "generation.postprocess.method": ("radius", "bbox", "none"),
    "model.decoder_kwargs.sample_mode": ("bilinear", "nearest"),
}
LEAST = {
    "data.num_offset": 1,
    "data.pointcloud_n": 1,
    "model.c_dim": 8,
    "model.encoder_kwargs.grid_resolution": 4,
    "model.encoder_kwargs.unet3d_kwargs.num_levels": 1,
    "model.encoder_kwargs.unet3d_kwargs.f_maps": 8,
    "train.batch_size": 1,
    "train.print_every": 1,
    "train.checkpoint_every": 1,
    "train.validate_every": 1,
    "train.total_epochs": 1,
    "generation.num_ensemble": 1,
}


def read_config(path: Path | None, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return every key of DEFAULTS with the file's values, then the changes (flat dotted names).

    Raises SettingsError for a key that is unknown or refused, and for a value of the wrong kind.
    """
    values = copy.deepcopy(DEFAULTS)
    given: dict[str, Any] = {}
    if path is not None:
        _collect(path, given, [])
    given |= {name: value for name, value in (changes or {}).items() if value is not None}
    for name, value in given.items():
        _take(values, name, value, path)
    for name, other in BOUND_TO.items():
        if name in given and given[name] != values[other]:
            raise SettingsError(f"{path}: {name} {given[name]} has to be {other}, {values[other]}")
    for level in range(values["model.encoder_kwargs.unet3d_kwargs.num_levels"] - 1):
        if values["model.encoder_kwargs.grid_resolution"] % 2 ** (level + 1):
            raise SettingsError(
                f"model.encoder_kwargs.grid_resolution"
                f" {values['model.encoder_kwargs.grid_resolution']} cannot be halved"
                f" {values['model.encoder_kwargs.unet3d_kwargs.num_levels'] - 1} times"
            )
    return values


def _collect(path: Path, given: dict[str, Any], above: list[Path]) -> None:
    """Add a file's keys to given, those of the files it inherits first."""
    if path.resolve() in above:
        raise SettingsError(f"{path}: inherit_from goes round in a circle")
    content = read_config_file(path)
    parent = content.pop("inherit_from", None)
    if parent:
        name = Path(expand(str(parent)))
        beside = path.parent / name
        _collect(beside if beside.is_file() else name, given, [*above, path.resolve()])
    given.update(flat_keys(content))


def _take(values: dict[str, Any], name: str, value: Any, path: Path | None) -> None:
    """Put one value where it belongs, checked."""
    where = f"{path}: {name}" if path else name
    if isinstance(value, str):
        value = expand(value)
    if name in BOUND_TO:
        return
    if name in ONE_VALUE:
        only, reason = ONE_VALUE[name]
        if value != only:
            raise SettingsError(f"{where}: {value!r} is refused, only {only!r} works: {reason}")
        return
    for beginning, reason in REFUSED.items():
        if name.startswith(beginning):
            raise SettingsError(f"{where}: is refused: {reason}")
    if name not in values:
        raise SettingsError(f"{where}: unknown key{nearest(name, [*values, *ONE_VALUE])}")
    values[name] = _checked(name, value, where)


def _checked(name: str, value: Any, where: str) -> Any:
    default = DEFAULTS[name]
    if name == "model.grid_res" or name == "generation.psr_resolution":
        return resolution(value, where)
    if name in CHOICES and value not in CHOICES[name]:
        raise SettingsError(f"{where}: {value!r} is none of {', '.join(CHOICES[name])}")
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise SettingsError(f"{where}: {value!r} is neither true nor false")
        return value
    if isinstance(default, (int, float)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise SettingsError(f"{where}: {value!r} is not a number") from None
        if not math.isfinite(number):
            raise SettingsError(f"{where}: {value!r} is no finite number")
        whole = isinstance(default, int)
        if isinstance(value, bool) or (whole and not number.is_integer()):
            raise SettingsError(f"{where}: {value!r} is not a whole number")
        # A zero level may be on either side of the surface; all other numbers count or measure.
        if number < LEAST.get(name, 0) and name != "data.zero_level":
            raise SettingsError(f"{where}: {value} is below {LEAST.get(name, 0)}")
        if name == "train.lr" and number == 0:
            raise SettingsError(f"{where}: a learning rate of 0 learns nothing")
        return int(number) if whole else number
    return value


def resolution(value: Any, where: str) -> tuple[int, int, int]:
    """Return a grid's three sizes from one number, a list of three, or text such as 64,96,64."""
    parts = value.split(",") if isinstance(value, str) else value
    parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    try:
        sizes = [int(str(part)) for part in parts]
    except ValueError:
        raise SettingsError(f"{where}: {value!r} is not a grid size such as 512") from None
    if len(sizes) == 1:
        sizes *= 3
    if len(sizes) != 3 or not all(16 <= size <= 512 for size in sizes):
        raise SettingsError(f"{where}: {value!r}; a grid has one or three sizes from 16 to 512")
    return (sizes[0], sizes[1], sizes[2])


def expand(text: str) -> str:
    """Return text with `${NAME}` and `${NAME:-default}` replaced.

    Raises SettingsError for a variable that is not set and has no default.
    """

    def look_up(match: re.Match[str]) -> str:
        found = os.environ.get(match[1]) or match[2]
        if found is None:
            raise SettingsError(f"the environment variable {match[1]} is not set")
        return found

    return VARIABLE.sub(look_up, text)


def architecture(values: Mapping[str, Any]) -> Architecture:
    """Return the network's sizes from a configuration."""
    unet = "model.encoder_kwargs.unet3d_kwargs"
    return Architecture(
        c_dim=values["model.c_dim"],
        hidden_dim=values["model.encoder_kwargs.hidden_dim"],
        grid_resolution=values["model.encoder_kwargs.grid_resolution"],
        num_levels=values[f"{unet}.num_levels"],
        f_maps=values[f"{unet}.f_maps"],
        hidden_size=values["model.decoder_kwargs.hidden_size"],
        num_offset=values["data.num_offset"],
        s_offset=values["model.s_offset"],
        local_coord=values["model.local_coord"],
        normal_normalize=values["model.normal_normalize"],
        sample_mode=values["model.decoder_kwargs.sample_mode"],
    )
