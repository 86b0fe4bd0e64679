"""Data loaders that leave the trainer's random generators alone and outlive its stop signals."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trainers.common.errors import SettingsError
from trainers.common.stopping import ignore_stop_signals

SHARED_MEMORY = "/dev/shm"
"""Where workers put their batches."""


def make_loader(
    dataset: Dataset[Any],
    batches: list[list[int]],
    device: torch.device,
    workers: int = 0,
    seed: int = 0,
    collate: Callable[[list[Any]], Any] | None = None,
    prefetch: int = 2,
) -> DataLoader[Any]:
    """Return a loader of these batches of indices, in this order; page-locked for a GPU.

    Every worker holds `prefetch` batches ready, in shared memory.
    """
    return DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        worker_init_fn=ignore_stop_signals,
        collate_fn=collate,
        pin_memory=device.type == "cuda",
        prefetch_factor=prefetch if workers else None,
        # Its own generator: else making an iterator draws from the global one and moves it on.
        generator=torch.Generator().manual_seed(seed),
    )


def check_shared_memory(
    item_bytes: int, batch: int, workers: int, processes: int = 1, prefetch: int = 2
) -> str:
    """Return how much of /dev/shm the loader's workers hold at most, as a sentence.

    Raises SettingsError where less is free, for a worker then dies of a bus error in the middle.
    Where there is no /dev/shm nothing is known and nothing refused.
    """
    asked = item_bytes * batch * workers * prefetch * processes
    text = f"{asked / 2**30:.2f} GiB of /dev/shm, {workers} worker(s) with {prefetch} batches each"
    try:
        free = shutil.disk_usage(SHARED_MEMORY).free
    except OSError:
        return text
    if workers and asked > free:
        fitting = int(free // (item_bytes * batch * prefetch * processes))
        raise SettingsError(
            f"the loader's workers need {text}, and {free / 2**30:.2f} GiB are free: --workers"
            f" {fitting}, or give the container more (docker run --shm-size=16g or --ipc=host)"
        )
    return text


def to_device(batch: Any, device: torch.device) -> Any:
    """Return a batch of mappings, lists and tensors with the tensors on the device."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [to_device(value, device) for value in batch]
    return batch
