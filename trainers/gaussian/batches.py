"""The batches of an epoch, from workers or from the GPU that holds all photographs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainers.common.loading import EpochLoader
from trainers.gaussian.photographs import PhotographSet
from trainers.gaussian.run import GaussianRun


def loader_of(run: GaussianRun, photographs: PhotographSet) -> EpochLoader[PhotographSet]:
    """Return what loads photographs on this rank."""
    settings = run.settings
    return EpochLoader(photographs, run.ranks.device, settings.workers, settings.seed)


def epoch_batches_of(
    run: GaussianRun, loader: EpochLoader[PhotographSet]
) -> Iterable[dict[str, Any]]:
    """Return this rank's batches that are left of the current epoch, from the GPU if all fit."""
    settings, ranks, position, photographs = run.settings, run.ranks, run.position, loader.dataset
    batches = loader.left(position, settings.batch_size, ranks)
    if photographs.size != run.phase.resolution:
        photographs.resize(run.phase.resolution)
        loader.begin_anew()
    if run.held.read(photographs, ranks.device, settings.workers, ranks.leads):
        return run.held.batches(batches)
    if not loader.begun:
        photographs.check_room(settings, ranks.here)
    return loader.batches(batches)
