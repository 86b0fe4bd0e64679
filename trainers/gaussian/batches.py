"""The batches of an epoch, from workers or from the GPU that holds all photographs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainers.common.kept_items import size_of
from trainers.common.loading import EpochLoader, loading_sentence
from trainers.gaussian.held import room_on
from trainers.gaussian.photographs import PhotographSet
from trainers.gaussian.run import GaussianRun


def loader_of(run: GaussianRun, photographs: PhotographSet) -> EpochLoader[PhotographSet]:
    """Return what loads photographs on this rank."""
    settings = run.settings
    return EpochLoader(photographs, run.ranks.device, settings.workers, settings.seed)


def check_room(run: GaussianRun) -> None:
    """Raise SettingsError where loading processes would fill more of /dev/shm than is free.

    At full size, though an early epoch's are smaller, and unless the GPU holds all photographs.
    """
    found, settings = run.collection, run.settings
    if settings.workers:
        item = size_of(PhotographSet(found.training[:1], found, settings.image_size)[0])
        if item * len(found.training) > room_on(run.ranks.device):
            loading_sentence(item, settings, run.ranks)


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
    return loader.batches(batches)
