"""Export a trained decoder to ONNX, checked against torch.

python trainers/gaussian/export_decoder.py --checkpoint run/checkpoints/best.pt --output
decoder.onnx
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

from trainers.common.device_flags import add_device_flags, use_device
from trainers.common.main_program import run_main
from trainers.common.model_card import write_card
from trainers.common.settings_parser import SettingsParser, output_file
from trainers.gaussian.export import export_onnx
from trainers.gaussian.model_file import card_of
from trainers.gaussian.trained import load_trained


def make_parser() -> SettingsParser:
    """Return the parser."""
    parser = SettingsParser(
        "Export a trained decoder to ONNX.",
        "python trainers/gaussian/export_decoder.py --checkpoint best.pt --output"
        " models/gaussian_decoder.onnx",
    )
    add = parser.add_argument
    # fmt: off
    add("--checkpoint", type=Path, required=True, help="of this trainer or the Fresnel project's")
    add("--output", type=output_file, default="models/gaussian_decoder.onnx", help="file to write")
    # fmt: on
    add_device_flags(parser, "one decoder is exported, there is nothing to share out")
    return parser


def export(settings: argparse.Namespace) -> int:
    """Write the file and its card and return the exit code."""
    device, _ = use_device(settings)
    trained = load_trained(settings.checkpoint)
    apart = export_onnx(trained.decoder, settings.output, device)
    card = card_of(trained.decoder, trained.settings, trained.figures, {})
    card_path = write_card(settings.output, card)
    size = settings.output.stat().st_size / 1e6
    print(
        f"ONNX export successful: {settings.output} ({size:.1f} MB, onnxruntime differs by"
        f" {apart:.1e})"
    )
    print(f"model card   {card_path}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, 1 where the export failed, 2 for a setting that cannot be."""
    return run_main(export, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
