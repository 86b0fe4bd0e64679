"""A trained voxelization network for others: safetensors, and a model card beside them."""

from __future__ import annotations

from pathlib import Path

from trainers.common.model_card import export_model
from trainers.skulls.card import folder_of, skull_card, skull_counts
from trainers.voxelization.state import TRAINER, VoxelRun, described

NAME = "voxelization.safetensors"
ABOUT = (
    "Points of a completed skull in, its volume out (after Shape As Points, Peng et al. 2021). Make"
    " implants with `python trainers/voxelization/generate.py --path SYN --model_file FILE`."
)


def export_trained(run: VoxelRun, figures: dict[str, float]) -> list[Path]:
    """Write the last weights, averaged where they are, and their card; return both.

    `figures` are what these weights were judged by. Rank 0 alone calls this.
    """
    run.reporter.phase("saving", NAME)
    weights = run.ema.weights() if run.ema else run.network.state_dict()
    settings = described(run.settings)
    grid = " x ".join(map(str, run.training.grid))
    card = skull_card(
        f"Voxelization network, grid {grid}",
        TRAINER,
        ABOUT,
        skull_counts(run.training.pairs, run.evaluation.pairs),
        figures,
        settings,
        run.settings.made_up is not None,
    )
    # Dotted keys alone: those of the configuration, without flags that hold paths of this machine.
    keys = {name: value for name, value in settings.items() if "." in name}
    return export_model(folder_of(run.settings) / NAME, weights, card, {"settings": keys})
