"""Networks as ONNX, checked with onnxruntime against torch before they count as written."""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from trainers.common.errors import ExportError
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
    package is missing, and ExportError where they disagree; then no file is written.
    """
    module = Exported(decoder).eval()
    chance, width = torch.Generator().manual_seed(0), decoder.settings.feature_dim

    def inputs(count: int) -> tuple[Tensor, ...]:
        return (
            torch.randn(count, width, GRID, GRID, generator=chance),
            torch.rand(count, 1, DEPTH_SIDE, DEPTH_SIDE, generator=chance),
        )

    shown, unseen = inputs(2), inputs(3)
    home = next(decoder.parameters()).device
    try:
        names = {"input_names": ["features", "depth"], "output_names": list(OUTPUTS)}
        batch = torch.export.Dim("batch", min=1, max=2**20)  # torch 2.6 wants an end
        more = {"dynamic_shapes": ({0: batch}, {0: batch}), **names}
        return write_onnx(module, shown, unseen, path, AGREEMENT, device, **more)
    finally:
        decoder.to(home)


def write_onnx(
    module: nn.Module,
    shown: tuple[Tensor, ...],
    asked: tuple[Tensor, ...],
    path: Path,
    agreement: float,
    device: torch.device | None = None,
    **more: Any,
) -> float:
    """Write a module as one ONNX file by inputs that it is `shown`; return how far the two differ.

    That is the most that onnxruntime's answers to what is `asked`, on the CPU, differ from torch's
    on `device`. Raises SettingsError where a package is missing, and ExportError where it fails or
    they differ by more than `agreement`; then no file is written.
    """
    if absent := missing_packages():
        raise SettingsError(
            f"ONNX export needs {', '.join(absent)}: pip install {' '.join(absent)}"
        )
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        draft = Path(folder) / "model.onnx"
        fixed = {"dynamo": True, "external_data": False, "verbose": False}
        try:
            torch.onnx.export(module.cpu(), shown, str(draft), **fixed, **more)
        except ImportError as problem:
            hint = "this PyTorch needs another onnxscript: pip install -U onnxscript"
            raise ExportError(f"{problem}; {hint}") from problem
        except RuntimeError as problem:
            raise ExportError(str(problem).splitlines()[0]) from problem
        place = device or torch.device("cpu")
        with torch.no_grad():
            answered = module.to(place)(*(part.to(place) for part in asked))
        expected = [answered] if isinstance(answered, Tensor) else answered
        session = onnxruntime.InferenceSession(str(draft), providers=["CPUExecutionProvider"])
        given = dict(zip(more["input_names"], asked, strict=True))
        known = {entry.name for entry in session.get_inputs()}
        feed = {name: part.numpy() for name, part in given.items() if name in known}
        found = session.run(more["output_names"], feed)
        pairs = zip(expected, found, strict=True)
        apart = max(float(np.abs(wanted.cpu().numpy() - answer).max()) for wanted, answer in pairs)
        if apart > agreement:
            raise ExportError(
                f"onnxruntime and torch differ by {apart:.2g}, more than {agreement:g}"
            )
        written = draft.read_bytes()
    write_whole(path, lambda file: file.write(written))
    return apart


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
    except ExportError as problem:
        run.reporter.warn(f"ONNX export failed: {problem}")
        return
    write(f"ONNX export successful: {path} (onnxruntime differs by {apart:.1e})")
