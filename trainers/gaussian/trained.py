"""A trained decoder from a checkpoint, whoever wrote it, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from trainers.common.reading import read_picture
from trainers.common.settings_parser import SettingsError
from trainers.common.weights import SUFFIX, check_trained, read_weights
from trainers.gaussian import features as files
from trainers.gaussian.decoder import (
    DecoderSettings,
    GaussianDecoder,
    geometry_of,
    make_decoder,
    refuse_older_meaning,
)
from trainers.gaussian.foreign import TRAINER, as_foreign, load_weights, read_any
from trainers.gaussian.geometry import GRID, OUTPUTS
from trainers.gaussian.networks import CPU, depth_image, load_network, patch_features, to_input
from trainers.gaussian.photographs import to_square
from trainers.gaussian.projection import UPSTREAM_BLUR


@dataclass(frozen=True)
class Trained:
    """A decoder ready to use, its kind of features, blur in px² and image size.

    The kind is `patch` or `dinov2`. `settings` and `figures` are those of its training, as far as
    the file says them.
    """

    decoder: GaussianDecoder
    feature_kind: str
    blur: float
    image_size: int
    writer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


def load_trained(path: Path) -> Trained:
    """Return a file's decoder in evaluation mode on the CPU, averaged weights if any.

    The file is a checkpoint or the .safetensors that a training exports. Raises SettingsError where
    it is missing or holds no decoder of ours or the Fresnel project's.
    """
    content = _exported(path) if path.suffix == SUFFIX else read_any(path)
    foreign = as_foreign(content, path)
    if foreign is not None:
        decoder = make_decoder(guess_settings(foreign.weights, foreign.geometry, path))
        load_weights(decoder, foreign, path)
        check_trained(decoder, path)
        writer = "the Fresnel project" if foreign.upstream else "this trainer's first version"
        kind = (
            "dinov2"
            if foreign.upstream
            else str(content.get("settings", {}).get("features", "dinov2"))
        )
        size = int(content.get("settings", {}).get("image_size", 256))
        blur, stated = foreign.blur or UPSTREAM_BLUR, content.get("settings", {})
        return Trained(decoder.eval(), kind, blur, size, writer, stated)
    wrote = content.get("written_by", {}).get("trainer", TRAINER)
    if wrote != TRAINER:
        raise SettingsError(f"--checkpoint: {path} was written by {wrote}, and this is {TRAINER}")
    weights = content["ema"]["weights"] if "ema" in content else content["model"]
    settings = content["settings"]
    shapes = guess_settings(weights, geometry_of(content), path)
    refuse_older_meaning(content, shapes, path)
    decoder = make_decoder(shapes)
    decoder.load_state_dict(weights)
    check_trained(decoder, path)
    step = content["written_by"]["step"]
    return Trained(
        decoder.eval(),
        settings["features"],
        settings["blur"],
        settings["image_size"],
        f"step {step} of a run",
        settings,
        content.get("values", {}),
    )


def _exported(path: Path) -> dict[str, Any]:
    weights, described = read_weights(path)
    if not isinstance(described, dict) or "geometry" not in described:
        raise SettingsError(f"--checkpoint: {path} was not exported by this trainer")
    return {**described, "model": weights}


def guess_settings(weights: dict[str, Tensor], geometry: str, path: Path) -> DecoderSettings:
    """Return the decoder settings that fit a state dict. Raises SettingsError where none do."""

    def rows(name: str) -> int:
        return int(weights[name].shape[0])

    def columns(name: str) -> int:
        return int(weights[name].shape[1])

    try:
        if "init_state_net.0.weight" in weights:
            return DecoderSettings(
                5,
                columns("init_state_net.0.weight"),
                spiral_points=rows("spiral_x"),
                geometry=geometry,
                nca_neighbours=columns("perception.0.weight") // OUTPUTS - 1,
            )
        width = columns("mlp.net.0.weight")
        if "spiral_x" in weights:
            return DecoderSettings(4, width, spiral_points=rows("spiral_x"), geometry=geometry)
        fused = "depth_encoder.encoder.4.weight" in weights
        depth_dim = rows("depth_encoder.encoder.4.weight") if fused else 64
        outputs = rows("mlp.net.12.weight")
        if outputs % OUTPUTS:
            raise SettingsError(
                f"{path}: {outputs} outputs are no multiple of 16: phase outputs are left out here"
            )
        return DecoderSettings(
            2,
            width - depth_dim * fused,
            outputs // OUTPUTS,
            fused,
            depth_dim,
            "pose_encoder.mlp.0.weight" in weights,
            geometry=geometry,
        )
    except KeyError as problem:
        raise SettingsError(
            f"{path} holds no decoder of experiment 2, 4 or 5: {problem} is missing"
        ) from problem


@dataclass(frozen=True)
class Sources:
    """Where features and depth come from: files, networks, or what lies beside the image."""

    features: Path | None = None
    depth: Path | None = None
    features_model: Path | None = None
    depth_model: Path | None = None
    polarity: str = "disparity"


def describe(
    image: Path, trained: Trained, sources: Sources, device: torch.device = CPU
) -> dict[str, Any]:
    """Return `features` (1,C,37,37) and, if known, `disparity` (1,1,S,S) of an image file.

    They lie on the CPU; networks compute on the device. A file named wins, then a network, then
    `features/STEM_…` beside the image. Raises SettingsError naming what is missing.
    """
    picture = read_picture(image)
    dim = trained.decoder.settings.feature_dim
    beside = image.parent / "features"
    batch: dict[str, Any] = {"name": image.stem}
    if trained.feature_kind == "patch":
        if sources.features or sources.features_model:
            raise SettingsError(
                "this decoder was trained on descriptors of pixels, which are made of the picture:"
                " leave --features and --features_model away"
            )
        batch["features"] = files.describe_patches(
            to_square(picture, GRID * files.PIXELS_PER_PATCH)
        )[None]
    else:
        batch["features"] = _features(picture, image, dim, sources, beside, device)[None]
    found = sources.depth or beside / f"{image.stem}{files.DEPTH_SUFFIX}"
    if sources.depth is None and sources.depth_model is not None:
        network = load_network(sources.depth_model, "--depth_model", "predicted_depth", device)
        depth = torch.from_numpy(
            depth_image(network, to_input(picture), 256, "--depth_model").copy()
        )[None, None]
        batch["disparity"] = 1 - depth if sources.polarity == "distance" else depth
    elif found.is_file():
        polarity = sources.polarity if sources.depth else files.read_polarity(beside)
        batch["disparity"] = files.read_disparity(found, polarity)[None]
    elif sources.depth is not None:
        raise SettingsError(f"--depth: there is no file {sources.depth}")
    elif trained.decoder.settings.depth_fusion:
        raise SettingsError("this decoder is told depth: give --depth FILE or --depth_model FILE")
    return batch


def _features(
    picture: Image.Image,
    image: Path,
    dim: int,
    sources: Sources,
    beside: Path,
    device: torch.device,
) -> Tensor:
    if sources.features is None and sources.features_model is not None:
        network = load_network(
            sources.features_model, "--features_model", "last_hidden_state", device
        )
        found = torch.from_numpy(
            patch_features(network, to_input(picture), "--features_model").copy()
        )
        if found.shape[-1] != dim:
            raise SettingsError(
                f"--features_model answers {found.shape[-1]} channels, the decoder takes {dim}"
            )
        return found.permute(2, 0, 1).contiguous()
    suffix = files.FEATURE_SUFFIXES.get(dim, "_dinov2.bin")
    path = sources.features or beside / f"{image.stem}{suffix}"
    if not path.is_file():
        raise SettingsError(
            f"there are no features of {image.name} ({path}): give --features FILE or"
            " --features_model FILE, or make them with preprocess_training_data.py"
        )
    if path.stat().st_size != files.feature_bytes(dim):
        raise SettingsError(
            f"{path} has {path.stat().st_size:,} bytes; this decoder takes {dim} channels,"
            f" {files.feature_bytes(dim):,} bytes"
        )
    return files.read_features(path, dim)
