"""A trained decoder for others: its weights as safetensors, and a model card beside every file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainers.common.model_card import ModelCard, export_model
from trainers.gaussian.decoder import MEANING, GaussianDecoder

if TYPE_CHECKING:
    from trainers.gaussian.run import GaussianRun

ABOUT = (
    "Features of a photograph (37 x 37 patches) in, 3D Gaussians out. Draw from it with"
    " `python trainers/gaussian/infer.py --checkpoint FILE --image PHOTOGRAPH`."
)
ONE_VIEW = "It redraws the photograph it was given: what lies behind things was never seen."
OF_A_MACHINE = {
    "cache_mb", "checkpoint_every", "config", "data_dir", "device", "keep", "lpips", "lpips_dir",
    "output_dir", "photographs", "resume", "tensorboard", "threads", "wandb", "workers",
}  # fmt: skip
"""Settings that a card leaves out: they decide nothing of the weights, or name a machine's paths.
"""
FEATURES = {"patch": "descriptors of the pixels around each patch", "dinov2": "DINOv2"}


def described(decoder: GaussianDecoder, settings: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Return what a reader needs beside the weights, under the names a checkpoint has for it."""
    return {
        "settings": dict(settings),
        "geometry": decoder.settings.geometry,
        "feature_dim": decoder.settings.feature_dim,
        "meaning": MEANING,
        "written_by": {"step": step},
    }


def card_of(
    decoder: GaussianDecoder,
    settings: Mapping[str, Any],
    figures: Mapping[str, float],
    counts: Mapping[str, int],
) -> ModelCard:
    """Return the card: photographs and how many, held-out figures, and settings of no machine."""
    kind, own = str(settings.get("features", "dinov2")), settings.get("data_dir")
    shipped = "crops of photographs that scikit-image and scikit-learn ship"
    data = {
        "source": "photographs of the user" if own else shipped,
        **counts,
        "features": f"{FEATURES[kind]}, {decoder.settings.feature_dim} channels",
        "size": f"{settings.get('image_size', 'unknown')} pixels a side",
    }
    names = ("held_out_psnr", "held_out_ssim", "mean_colour_psnr", "mean_colour_ssim")
    judged = {name: figures[name] for name in names if name in figures}
    kept = {name: value for name, value in settings.items() if name not in OF_A_MACHINE}
    title = f"Gaussian decoder, experiment {decoder.settings.experiment}"
    return ModelCard(title, "gaussian", ABOUT, data, judged, kept, notes=(ONE_VIEW,))


def export_trained(run: GaussianRun, path: Path) -> list[Path]:
    """Write the decoder's present weights and their card beside it; return both files."""
    settings = run.folder.settings
    counts = {
        "training images": len(run.collection.training),
        "held out": len(run.collection.held_out),
    }
    card = card_of(run.decoder, settings, run.values, counts)
    description = described(run.decoder, settings, run.position.step)
    return export_model(path, run.decoder.state_dict(), card, description)
