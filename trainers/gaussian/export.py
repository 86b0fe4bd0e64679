"""A decoder as ONNX, checked with onnxruntime against torch before it counts as written."""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from trainers.common.files import write_whole
from trainers.common.settings_parser import SettingsError
from trainers.common.stepping import judged_weights
from trainers.gaussian.decoder import GaussianDecoder
from trainers.gaussian.geometry import GRID, quaternions
from trainers.gaussian.model_file import export_trained

if TYPE_CHECKING:
    from trainers.gaussian.run import GaussianRun

OUTPUTS = ("positions", "scales", "rotations", "colors", "opacities")
DEPTH_SIDE = 518
AGREEMENT = 1e-4
"""The most onnxruntime's numbers may differ from torch's."""
NEEDED = ("onnx", "onnxscript", "onnxruntime")


class Exported(nn.Module):
    """A decoder with upstream's inputs `features`, `depth` and its outputs.

    Rotations are quaternions w x y z.
    """

    def __init__(self, decoder: GaussianDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, features: Tensor, depth: Tensor) -> tuple[Tensor, ...]:
        """Decode features (B,C,37,37) and disparity (B,1,518,518)."""
        positions, scales, rotations, colours, opacities = self.decoder(features, depth)
        return positions, scales, quaternions(rotations), colours, opacities


def missing_packages() -> list[str]:
    """Return which packages the export needs are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def export_onnx(decoder: GaussianDecoder, path: Path, device: torch.device | None = None) -> float:
    """Write a decoder as one ONNX file and return how far onnxruntime is from torch.

    What torch answers is computed on `device`, else on the CPU. Raises SettingsError where a
    package is missing, and ArithmeticError where they disagree; then no file is written.
    """
    if absent := missing_packages():
        raise SettingsError(
            f"ONNX export needs {', '.join(absent)}: pip install {' '.join(absent)}"
        )
    module = Exported(decoder).eval()
    chance = torch.Generator().manual_seed(0)
    inputs = (
        torch.randn(2, decoder.settings.feature_dim, GRID, GRID, generator=chance),
        torch.rand(2, 1, DEPTH_SIDE, DEPTH_SIDE, generator=chance),
    )
    device = next(decoder.parameters()).device
    module.cpu()
    try:
        with tempfile.TemporaryDirectory() as folder:
            draft = Path(folder) / "decoder.onnx"
            batch = torch.export.Dim("batch", min=1, max=2**20)  # torch 2.6 wants an end
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                logging.getLogger("torch.onnx").setLevel(logging.ERROR)
                torch.onnx.export(
                    module,
                    inputs,
                    str(draft),
                    input_names=["features", "depth"],
                    output_names=list(OUTPUTS),
                    dynamic_shapes=({0: batch}, {0: batch}),
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
            apart = difference(module, draft, chance, device or torch.device("cpu"))
            if apart > AGREEMENT:
                raise ArithmeticError(
                    f"onnxruntime and torch differ by {apart:.2g}, more than {AGREEMENT:g}"
                )
            written = draft.read_bytes()
    finally:
        decoder.to(device)
    write_whole(path, lambda file: file.write(written))
    return apart


def difference(
    module: Exported, path: Path, chance: torch.Generator, device: torch.device
) -> float:
    """Return the largest difference of any output, for inputs that the export has not seen."""
    import onnxruntime

    features = torch.randn(3, module.decoder.settings.feature_dim, GRID, GRID, generator=chance)
    depth = torch.rand(3, 1, DEPTH_SIDE, DEPTH_SIDE, generator=chance)
    with torch.no_grad():
        answered = module.to(device)(features.to(device), depth.to(device))
    expected = [part.cpu().numpy() for part in answered]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"features": features.numpy(), "depth": depth.numpy()}
    known = {entry.name for entry in session.get_inputs()}
    found = session.run(
        list(OUTPUTS), {name: value for name, value in given.items() if name in known}
    )
    return max(
        float(np.abs(wanted - answer).max()) for wanted, answer in zip(expected, found, strict=True)
    )


def export_at_end(run: GaussianRun) -> None:
    """Write the judged weights as safetensors with a model card, and as ONNX or say why not."""
    if not run.ranks.leads:
        return
    path = run.settings.output_dir / f"gaussian_decoder_exp{run.settings.experiment}.safetensors"
    with judged_weights(run):
        run.reporter.write(f"exported     {', '.join(map(str, export_trained(run, path)))}")
        if run.settings.export_onnx:
            _onnx_at_end(run, path.with_suffix(".onnx"))


def _onnx_at_end(run: GaussianRun, path: Path) -> None:
    write = run.reporter.write
    if absent := missing_packages():
        write(f"onnx         not written: pip install {' '.join(absent)}")
        return
    if run.decoder.settings.pose_encoding:
        write("onnx         not written: the view is no input of upstream's format")
        return
    try:
        apart = export_onnx(run.decoder, path)
    except (RuntimeError, ArithmeticError) as problem:
        run.reporter.warn(f"ONNX export failed: {str(problem).splitlines()[0]}")
        return
    write(f"ONNX export successful: {path} (onnxruntime differs by {apart:.1e})")
