"""Export a DINOv2 from transformers weights to the ONNX file that preprocessing reads.

    python trainers/gaussian/export_dinov2_model.py --size base --weights ~/models/dinov2-base

The weights are a folder with `config.json` and the model's file, or a name that transformers has in
its cache already; nothing is downloaded unless --download allows it.
"""

# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor, nn

from trainers.common.device_flags import add_device_flags, use_device
from trainers.common.errors import ExportError
from trainers.common.main_program import run_main
from trainers.common.settings_parser import SettingsError, SettingsParser, output_file
from trainers.gaussian.export import NEEDED, write_onnx
from trainers.gaussian.geometry import GRID
from trainers.gaussian.networks import SIDE

CHANNELS = {"small": 384, "base": 768, "large": 1024}
AGREEMENT = 1e-3


class PatchTokens(nn.Module):
    """A DINOv2 that answers its patch tokens (B,1369,C) only, after the last normalisation."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return the tokens of (B,3,518,518)."""
        tokens: Tensor = self.model(pixel_values=pixel_values).last_hidden_state[:, 1:]
        return tokens


def make_parser() -> SettingsParser:
    """Return the parser."""
    parser = SettingsParser(
        "Export DINOv2 to ONNX.",
        "python trainers/gaussian/export_dinov2_model.py --size base --weights"
        " ~/models/dinov2-base",
    )
    add = parser.add_argument
    # fmt: off
    add("--size", choices=sorted(CHANNELS), default="small", help="384, 768 or 1024 channels")
    add("--weights", metavar="FOLDER|NAME",
        help="transformers weights; without it: facebook/dinov2-SIZE from the cache")
    add("--output", type=output_file, help="the file to write; without it: models/dinov2_SIZE.onnx")
    add("--download", action="store_true",
        help="let transformers fetch the weights if it does not have them")
    # fmt: on
    add_device_flags(parser, "one network is exported, there is nothing to share out")
    return parser


def load_model(settings: argparse.Namespace) -> nn.Module:
    """Return the network of the weights. Raises SettingsError where they are missing or of another
    size.
    """
    absent = [name for name in ("transformers", *NEEDED) if importlib.util.find_spec(name) is None]
    if absent:
        raise SettingsError(f"the export needs {', '.join(absent)}: pip install {' '.join(absent)}")
    if not settings.download:
        os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    name = settings.weights or f"facebook/dinov2-{settings.size}"
    kind: Any = transformers.AutoModel
    try:
        model = kind.from_pretrained(name, local_files_only=not settings.download).eval()
    except (OSError, ValueError) as problem:
        first = str(problem).splitlines()[0]
        raise SettingsError(
            f"--weights: {name} cannot be loaded ({first}); name a folder with config.json and the"
            " model's file, or allow --download"
        ) from problem
    channels = int(getattr(model.config, "hidden_size", 0))
    if channels != CHANNELS[settings.size]:
        fitting = [size for size, count in CHANNELS.items() if count == channels]
        hint = f"; these are --size {fitting[0]}" if fitting else ""
        raise SettingsError(
            f"--weights: {name} has {channels} channels, not {CHANNELS[settings.size]}{hint}"
        )
    found: nn.Module = model
    return found


def export(settings: argparse.Namespace) -> int:
    """Write the file, compare it with torch and return the exit code."""
    device, _ = use_device(settings)
    module = PatchTokens(load_model(settings)).eval()
    path = settings.output or Path(f"models/dinov2_{settings.size}.onnx")
    pixels = torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    print(f"exporting    DINOv2 {settings.size}, {CHANNELS[settings.size]} channels")
    with torch.no_grad():
        patches = module(pixels).shape[1]
    if patches != GRID * GRID:
        raise ExportError(f"the network answers {patches} patches, not {GRID * GRID}")
    names = {"input_names": ["pixel_values"], "output_names": ["patch_tokens"]}
    apart = write_onnx(module, (pixels,), (pixels,), path, AGREEMENT, device, **names)
    size = path.stat().st_size / 1e6
    print(f"written      {path} ({size:.1f} MB, onnxruntime differs by {apart:.1e})")
    print(f"next         preprocess_training_data.py --dinov2_size {settings.size}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, 1 where the export failed, 2 for a setting that cannot be."""
    return run_main(export, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
