"""A trained PCDiff for others: its weights as safetensors, and a model card beside them."""

from __future__ import annotations

from pathlib import Path

from trainers.common.model_card import export_model
from trainers.pcdiff.diffusion import noise_settings
from trainers.pcdiff.run import PcdiffRun
from trainers.skulls.card import folder_of, skull_card, skull_counts

NAME = "pcdiff.safetensors"
ABOUT = (
    "Points of a defective skull in, points of its implant out, by diffusion (PCDiff, Friedrich et"
    " al. 2023). Draw with `python trainers/pcdiff/sample.py --path LIST --model FILE --eval_path"
    " RESULTS`."
)


def export_trained(run: PcdiffRun, figures: dict[str, float]) -> list[Path]:
    """Write the last weights, averaged where they are, and their card; return both.

    `figures` are what these weights were judged by. Rank 0 alone calls this.
    """
    run.reporter.phase("saving", NAME)
    weights = run.network.state_dict() if run.ema is None else run.ema.weights()
    settings = vars(run.settings)
    if run.settings.export_half:
        weights = {name: tensor.half() for name, tensor in weights.items()}
    held_out = run.held_out.samples if run.held_out is not None else []
    card = skull_card(
        f"PCDiff, {run.settings.num_points} points",
        "pcdiff",
        ABOUT,
        skull_counts(run.data.samples, held_out),
        figures,
        settings,
        run.settings.made_up is not None,
    )
    described = {
        "sizes": run.network.sizes.as_dict(),
        "diffusion": noise_settings(run.settings),
        "epoch": run.position.epoch,
    }
    return export_model(folder_of(run.settings) / NAME, weights, card, described)
