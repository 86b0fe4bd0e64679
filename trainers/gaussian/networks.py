"""DINOv2 features and Depth Anything depth of an image, from ONNX files or transformers' folders.

Images are squashed to 518 pixels, as the Fresnel project does, and normalised with ImageNet's mean
and deviation. Nothing is downloaded: every network is a file or folder the user names.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from trainers.common.errors import SettingsError, read_as
from trainers.gaussian.features import POLARITIES
from trainers.gaussian.geometry import GRID

SIDE = 518
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
Array = NDArray[np.float32]
Network = Callable[[Array], Array]
CPU = torch.device("cpu")


def to_input(image: Image.Image) -> Array:
    """Return an image as (1,3,518,518), normalised."""
    squashed = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    pixels = (np.asarray(squashed, dtype=np.float32) / 255 - MEAN) / DEVIATION
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def load_network(path: Path, what: str, output: str, device: torch.device = CPU) -> Network:
    """Return a network from (1,3,518,518) to an array: an .onnx file or transformers folder.

    `output` is the name of what transformers' model answers. It computes on the device, on a CPU
    with as many threads as torch. Raises SettingsError where it is
    missing, is no network, or its package is not installed.
    """
    if path.is_dir():
        return _from_transformers(path, what, output, device)
    if not path.is_file():
        raise SettingsError(
            f"{what}: there is no {path}; make it with export_dinov2_model.py, or name an .onnx"
            " file or a folder of transformers weights"
        )
    if importlib.util.find_spec("onnxruntime") is None:
        raise SettingsError(f"{what}: {path.name} needs onnxruntime: pip install onnxruntime")
    return _from_onnx(path, what, device)


def _from_onnx(path: Path, what: str, device: torch.device) -> Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    known = onnxruntime.get_available_providers()
    providers = ["CPUExecutionProvider"] if device.type == "cpu" else known
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as problem:  # onnxruntime's own error classes are not public
        raise SettingsError(
            f"{what}: {path} cannot be loaded ({str(problem).splitlines()[0]})"
        ) from problem
    name = session.get_inputs()[0].name

    def run(pixels: Array) -> Array:
        answer: Array = np.asarray(session.run(None, {name: pixels})[0], dtype=np.float32)
        return answer

    return run


def _from_transformers(path: Path, what: str, output: str, device: torch.device) -> Network:
    if importlib.util.find_spec("transformers") is None:
        raise SettingsError(
            f"{what}: the folder {path} needs transformers: pip install transformers"
        )
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    kind: Any = (
        transformers.AutoModelForDepthEstimation
        if output == "predicted_depth"
        else transformers.AutoModel
    )
    try:
        model, loading = kind.from_pretrained(path, local_files_only=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError) as problem:
        raise SettingsError(
            f"{what}: {path} cannot be loaded ({str(problem).splitlines()[0]})"
        ) from problem
    absent = sorted(loading["missing_keys"])
    if absent:
        # transformers would draw them at random and only warn.
        raise SettingsError(
            f"{what}: {path} lacks {len(absent)} of the network's weights, such as {absent[0]}"
        )
    model.eval().to(device)

    def run(pixels: Array) -> Array:
        with torch.no_grad():
            answered = getattr(model(pixel_values=torch.from_numpy(pixels).to(device)), output)
        answer: Array = answered.float().cpu().numpy()
        return answer

    return run


def agreed_polarity(asked: str | None, path: Path | None) -> str:
    """Return a depth network's polarity: as asked, else as its configuration says.

    Without either it is disparity. Depth Anything answers disparity, and metres where its
    configuration is metric. Raises SettingsError where the two contradict each other.
    """
    stated = None
    if path is not None and (path / "config.json").is_file():
        with read_as(path / "config.json", "a JSON object"):
            configuration = dict(json.loads((path / "config.json").read_text(encoding="utf-8")))
        if configuration.get("model_type") == "depth_anything":
            stated = POLARITIES[configuration.get("depth_estimation_type", "relative") == "metric"]
    if asked and stated and asked != stated:
        raise SettingsError(
            f"--depth_polarity {asked}: the network in {path} answers {stated}, its config.json"
            " says"
        )
    return asked or stated or POLARITIES[0]


def patch_features(network: Network, pixels: Array, name: str) -> Array:
    """Return DINOv2's patch tokens as (37,37,C), row 0 at the top; a class token is dropped.

    Raises SettingsError where the network answers something else.
    """
    tokens = network(pixels)
    if tokens.ndim == 3 and tokens.shape[1] == GRID * GRID + 1:
        tokens = tokens[:, 1:]
    if tokens.ndim != 3 or tokens.shape[:2] != (1, GRID * GRID):
        raise SettingsError(
            f"{name} answers {tuple(tokens.shape)}, expected (1, 1369 or 1370, channels)"
        )
    return tokens[0].reshape(GRID, GRID, -1)


def depth_image(network: Network, pixels: Array, size: int, name: str) -> Array:
    """Return predicted depth (size,size), scaled to [0,1]; zeros where it is flat.

    Raises SettingsError where the network answers no picture, or numbers that are not finite.
    """
    found = np.squeeze(network(pixels))
    if found.ndim != 2:
        raise SettingsError(f"{name} answers {found.shape}, expected one picture")
    least, most = float(found.min()), float(found.max())
    if not np.isfinite(most - least):
        raise SettingsError(f"{name} answers numbers that are not finite")
    flat = most - least < 1e-6
    scaled = np.zeros_like(found) if flat else (found - least) / (most - least)
    resized = Image.fromarray(scaled.astype(np.float32)).resize(
        (size, size), Image.Resampling.BILINEAR
    )
    return np.asarray(resized, dtype=np.float32).clip(0, 1)
