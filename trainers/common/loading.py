"""Data loaders that leave the trainer's random generators alone and outlive its stop signals."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trainers.common.errors import SettingsError
from trainers.common.ranks import Ranks, epoch_batches
from trainers.common.stopping import ignore_stop_signals

SHARED_MEMORY = "/dev/shm"
"""Where workers put their batches."""

AnyDataset = TypeVar("AnyDataset", bound=Dataset[Any])


def make_loader(
    dataset: Dataset[Any],
    batches: Sequence[Sequence[Any]],
    device: torch.device,
    workers: int = 0,
    seed: int = 0,
    collate: Callable[[list[Any]], Any] | None = None,
    prefetch: int = 2,
    lasting: bool = False,
) -> DataLoader[Any]:
    """Return a loader of these batches of indices, in this order; page-locked for a GPU.

    Every worker holds `prefetch` batches ready, in shared memory; `lasting` ones go on when the
    loader is iterated once more.
    """
    return DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        worker_init_fn=ignore_stop_signals,
        collate_fn=collate,
        pin_memory=device.type == "cuda",
        prefetch_factor=prefetch if workers else None,
        persistent_workers=lasting and workers > 0,
        # Forked, they share what the dataset keeps (trainers/common/kept_items.py).
        multiprocessing_context="fork" if workers else None,
        # Its own generator: else making an iterator draws from the global one and moves it on.
        generator=torch.Generator().manual_seed(seed),
    )


class EpochPlace(Protocol):
    """Where a run is: whole epochs, and samples of the next one, over all ranks."""

    epoch: int
    used: int


class EpochLoader(Generic[AnyDataset]):
    """Loads a dataset epoch after epoch by the same workers.

    They know it as it was when they began: what is another in every epoch is in the indices.
    """

    def __init__(
        self,
        dataset: AnyDataset,
        device: torch.device,
        workers: int = 0,
        seed: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.dataset, self._device, self._workers = dataset, device, workers
        self._seed, self._collate = seed, collate
        self._batches: list[Sequence[Any]] = []
        self._loader: DataLoader[Any] | None = None

    @property
    def begun(self) -> bool:
        """Whether workers go on that began before."""
        return self._loader is not None

    def begin_anew(self) -> None:
        """Have the next batches loaded by workers that know the dataset as it is now."""
        self._loader = None

    def left(self, place: EpochPlace, batch_size: int, ranks: Ranks) -> list[list[int]]:
        """Return this rank's batches of indices that are left of the epoch at a place."""
        count, world = len(cast(Sized, self.dataset)), (ranks.rank, ranks.world)
        return epoch_batches(count, batch_size, self._seed, place.epoch, *world, place.used)

    def epoch(self, place: EpochPlace, batch_size: int, ranks: Ranks) -> DataLoader[Any]:
        """Return what gives them, the dataset being asked for (epoch, index)."""
        return self.batches(of_epoch(place.epoch, self.left(place, batch_size, ranks)))

    def batches(self, batches: Iterable[Sequence[Any]]) -> DataLoader[Any]:
        """Return what gives these batches of indices, until it is asked for the next ones."""
        self._batches[:] = batches
        if self._loader is None:
            workers = self._workers if self._batches else 0
            given = self._device, workers, self._seed, self._collate
            if not self._batches:
                # An epoch that was resumed at its end: the next one's workers are begun then.
                return make_loader(self.dataset, [], *given)
            if workers:
                # What a dataset makes room for at its first item, workers share if it is there.
                self.dataset[self._batches[0][0]]
            self._loader = make_loader(self.dataset, self._batches, *given, lasting=True)
        return self._loader


def of_epoch(epoch: int, batches: Iterable[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """Return batches of indices as those of (epoch, index)."""
    return [[(epoch, index) for index in batch] for batch in batches]


def shared_memory_asked(
    item_bytes: int, batch: int, workers: int, processes: int = 1, prefetch: int = 2
) -> int:
    """Return how many bytes of /dev/shm the workers of all processes hold at most."""
    return item_bytes * batch * workers * prefetch * processes


def check_shared_memory(
    item_bytes: int, batch: int, workers: int, processes: int = 1, prefetch: int = 2
) -> str:
    """Return how much of /dev/shm the loader's workers hold at most, as a sentence.

    Raises SettingsError where less is free, for a worker then dies of a bus error in the middle.
    Where there is no /dev/shm nothing is known and nothing refused.
    """
    asked = shared_memory_asked(item_bytes, batch, workers, processes, prefetch)
    text = f"{asked / 2**30:.2f} GiB of /dev/shm, {workers} worker(s) with {prefetch} batches each"
    try:
        free = shutil.disk_usage(SHARED_MEMORY).free
    except OSError:
        return text
    if workers and asked > free:
        fitting = free // shared_memory_asked(item_bytes, batch, 1, processes, prefetch)
        raise SettingsError(
            f"the loader's workers need {text}, and {free / 2**30:.2f} GiB are free: --workers"
            f" {fitting}, or give the container more (docker run --shm-size=16g or --ipc=host)"
        )
    return text


def loading_sentence(item_bytes: int, settings: argparse.Namespace, ranks: Ranks) -> str:
    """Return check_shared_memory's sentence as a line, of the flags' batch; nothing alone."""
    if not settings.workers:
        return ""
    asked = item_bytes, settings.batch_size, settings.workers, ranks.here
    return f"loading      {check_shared_memory(*asked)}"


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on the device, the host not waiting for what a GPU is doing meanwhile."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def to_device(batch: Any, device: torch.device) -> Any:
    """Return a batch of mappings, lists and tensors with the tensors on the device."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [to_device(value, device) for value in batch]
    return batch
