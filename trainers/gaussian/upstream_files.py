"""Files under the names and in the layout of the Fresnel project, for tools that read those."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainers.common.files import write_text_whole

if TYPE_CHECKING:
    from trainers.gaussian.run import GaussianRun

TERMS = (
    "total", "rgb", "ssim", "lpips", "depth", "boundary", "residual", "phase_retrieval",
    "frequency",
)  # fmt: skip
OURS = {"total": "loss", "rgb": "l1", "lpips": "lpips", "depth": "depth", "frequency": "frequency"}


def write_upstream_history(run: GaussianRun) -> None:
    """Write `training_history_expN.json`: a list per term, a number per epoch.

    `ssim` is 1 - SSIM there.
    """
    if not run.ranks.leads:
        return
    epochs = [entry["values"] for entry in run.reporter.history.epochs]
    history: dict[str, list[float]] = {}
    for term in TERMS:
        if term == "ssim":
            history[term] = [1.0 - (values.get("ssim") or 0.0) for values in epochs]
        else:
            history[term] = [float(values.get(OURS.get(term, "")) or 0.0) for values in epochs]
    path = run.settings.output_dir / f"training_history_exp{run.settings.experiment}.json"
    write_text_whole(path, json.dumps(history, indent=2))
