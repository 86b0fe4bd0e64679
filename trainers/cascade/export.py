"""A trained cascade for others: its weights as safetensors, and a model card beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainers.cascade.patients import CALIBRATION
from trainers.cascade.projector import HU_HIGH, HU_LOW
from trainers.cascade.run import RUN_ONLY, TRAINER, CascadeRun
from trainers.common.config_file import flat_keys
from trainers.common.model_card import MADE_UP_LICENCE, ModelCard, export_model

NAME = "cascade.safetensors"
ABOUT = (
    "Frontal and lateral X-rays in, a CT volume out, by diffusion in stages. Draw from it with"
    " `python trainers/cascade/sample.py --checkpoint FILE --frontal PNG --lateral PNG`."
)
NO_DEVICE = "No medical device: not for diagnosis, not validated on anybody's patients."


def export_trained(run: CascadeRun, figures: dict[str, float]) -> list[Path]:
    """Write all stages, the last with its best averaged weights, and their card; return both.

    Rank 0 alone calls this, once place_best has put the best weights in place.
    """
    run.reporter.phase("saving", NAME)
    return export_model(
        run.folder.folder / NAME, run.cascade.state_dict(), card_of(run, figures), described(run)
    )


def described(run: CascadeRun) -> dict[str, Any]:
    """Return what a reader needs beside the weights, under the names a checkpoint has for it."""
    state = run.state()
    kept = ("position", "calibration")
    levels = {"levels": [float(level) for level in run.cascade.levels]}
    return {"settings": run.folder.settings, **{name: state[name] for name in kept}, **levels}


def card_of(run: CascadeRun, figures: dict[str, float]) -> ModelCard:
    """Return the card: patients, window and X-rays, figures, and settings of no machine."""
    config, splits = run.config, run.splits
    made_up = is_made_up(Path(config.data["dataset_path"]))
    source = "ellipsoid chests made up by make_patients.py" if made_up else "patients of the user"
    data = {
        "source": source,
        "patients": f"{len(splits.train)} to train on, {len(splits.val)} to choose the best"
        f" weights by, {len(splits.test)} to test on",
        "X-rays": f"{' and '.join(config.views)}, {config.image_size} pixels a side,"
        f" calibration {run.calibration.kind}",
        "volumes": f"{run.stage.sizes.size} voxels a side, {HU_LOW:g} to {HU_HIGH:g} HU",
    }
    settings = dict(flat_keys(run.folder.settings))
    aside = {*RUN_ONLY, "data.dataset_path"}
    kept = {name: value for name, value in settings.items() if name not in aside}
    licence = MADE_UP_LICENCE if made_up else ""
    title = f"Hybrid-ViT cascade: {config.name}"
    return ModelCard(title, TRAINER, ABOUT, data, figures, kept, licence, (NO_DEVICE,))


def is_made_up(dataset: Path) -> bool:
    """Return whether a folder of patients says that make_patients.py made them."""
    try:
        return "made_up" in json.loads((dataset / CALIBRATION).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False
